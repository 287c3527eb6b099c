"""What granting, binding and losing write: the states an effect is put into. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.core import identity
from gateway.core.conversation import MAX_ALIASES, Binding, CallSlot, Event, View, Writes
from gateway.core.decisions import Again, Decision, Granted, Need, Refused, Step
from gateway.core.identity import Scope
from gateway.core.occurrences import Occurrence
from gateway.core.record import FORMAT, UNENDING, Effect, Mode, Move, Status, check_move, moved
from gateway.core.requests import Claim, Ruled

RUNTIME: Final = "runtime"
MAX_LIVE: Final = 10_000
"""Live effects a conversation may have (4.13)."""


class TooManyIds(Exception):
    """An effect cannot take one more id. Answered all the same, that id would be bound to nothing, and the next
    time it came it could run (2.5)."""


def grant(view: View, request: Claim, own: Occurrence) -> Step:
    """A new call: executing, by this token."""
    if no_room(view):
        return Step(full())
    check_move(Status.ABSENT, Move.CLAIM, Status.EXECUTING)
    effect = new(view, request, own, Status.EXECUTING, ())
    events = (Event("effect.proposed", own.effect, proposal(request)), *started(request, effect))
    return Step(Granted(effect, new=True), writes_new(view, request, effect, events))


def grant_held(view: View, request: Claim, held: Effect) -> Step:
    """A hold that ended, or was approved and is submitted now: executing, by this token."""
    unread = view.unread(held)
    if unread:
        return Step(Need(slots=unread))
    effect = moved(
        held,
        Move.CLAIM,
        Status.EXECUTING,
        tokens=(*held.tokens, request.token),
        lease_ms=request.terms.lease_ms,
        claimed_at=None,
        mode=request.terms.mode,
        endpoint=request.terms.endpoint,
        tool_version=request.terms.tool_version,
        unavailable_means_not_executed=request.terms.unavailable_means_not_executed,
    )
    # Where nothing asks for one any more, a grant of an earlier version of its tool is not what lets it run.
    granted = held.granted and held.tool_version == request.terms.tool_version
    used = (Event("approval.used", held.effect_id, named(held)),) if granted else ()
    writes = and_bind(view, request, effect, (*used, *started(request, effect)))
    return Step(Granted(effect), msgspec.structs.replace(writes, slots={**opened(view, held), **writes.slots}))


def opened(view: View, held: Effect) -> dict[bytes, CallSlot]:
    """A hold ends with the retention time, what executes does not: nor then may the ids that name it."""
    return {slot: view.slot(slot).marked(held.effect_id, open=True) for slot in held.slots}


def named(held: Effect) -> dict[str, object]:
    """The approval of a held effect, as events name it."""
    return {} if held.approval is None else {"approval": held.approval.id.hex()}


def take_up(view: View, request: Claim, effect: Effect, matched: str, *, alias: bool = True) -> Step:
    """`safe_to_retry`: send again with the same key (4.6); policy and limits are not asked again.

    The asking id becomes an alias, since it is answered with this effect's outcome (2.5); but for one that
    already names an effect of its own.
    """
    again = moved(
        effect,
        Move.CLAIM,
        Status.EXECUTING,
        tokens=(*effect.tokens, request.token),
        lease_ms=request.terms.lease_ms,
        claimed_at=None,
    )
    events = (Event("effect.executing", effect.effect_id, {"again": True, **_runner(effect)}),)
    if alias:
        return Step(Granted(again, matched), and_bind(view, request, again, events))
    writes = Writes(effects={effect.effect_id: again}, identical=view.identical.with_known(again), events=events)
    return Step(Granted(again, matched), writes)


def lapse(view: View, effect: Effect) -> Step:
    """A dead worker's claim becomes indeterminate at the next read (4.5)."""
    return Step(Again(), lost(view, effect, "lease lapsed"))


def lost(view: View, effect: Effect, reason: str, excerpt: str = "", http_status: int | None = None) -> Writes:
    """The writes of the table's `lost` column; `excerpt` is what was seen, cleaned, for the log, and `http_status`
    the merchant's, where its answer got so far."""
    after = moved(effect, Move.LOST, Status.INDETERMINATE, was_unknown=True)
    data: dict[str, object] = {"reason": reason}
    if http_status is not None:
        data["http_status"] = http_status
    if excerpt:
        data["seen"] = excerpt
    return Writes(
        effects={effect.effect_id: after},
        identical=view.identical.with_known(after),
        events=(Event("effect.indeterminate", effect.effect_id, data),),
        though_full=True,
    )


def bind(view: View, request: Claim, effect: Effect) -> Writes | None:
    """Make the id an alias (2.5), and count this attempt's occurrence of the effect (2.4); None: nothing new."""
    slot, attempt = request.slot, request.attempt(view)
    slots: dict[bytes, CallSlot] = {}
    after, identical = effect, view.identical
    if slot is not None and not _named_here(view, request, slot, effect):
        if len(effect.slots) >= MAX_ALIASES or len(view.slot(slot).bindings) >= MAX_ALIASES:
            if slot not in effect.slots:
                raise TooManyIds
            return None
        slots[slot] = _with_binding(view, request, slot, effect)
        if slot not in effect.slots:
            after = msgspec.structs.replace(effect, slots=(*effect.slots, slot))
    within = request.numbered_within
    if (slots or _numbered_here(view, request, effect)) and not identical.takes(effect.effect_id, within, attempt):
        identical = identical.take(effect.effect_id, within, attempt)
    seen = attempt_seen(view, request)
    if not slots and identical is view.identical and seen is None:
        return None
    return Writes(
        effects={} if after is effect else {effect.effect_id: after},
        slots=slots,
        identical=None if identical is view.identical else identical,
        attempt_seen=seen,
        keep_ms=request.terms.retention_ms,
    )


def and_bind(view: View, request: Claim, effect: Effect, events: tuple[Event, ...]) -> Writes:
    """The writes that put `effect` in its new state, with the asking id bound to it."""
    bound = bind(view, request, effect) or Writes()
    return Writes(
        effects={effect.effect_id: bound.effects.get(effect.effect_id, effect)},
        slots=bound.slots,
        identical=(bound.identical or view.identical).with_known(effect),
        attempt_seen=bound.attempt_seen,
        events=events,
        keep_ms=request.terms.retention_ms,
    )


def _named_here(view: View, request: Claim, slot: bytes, effect: Effect) -> bool:
    """Whether the id names the effect where the request stands. A place that is stated in full has to be said (2.3,
    2.5): else that attempt's next step could not tell a second such call from the first, nor the same call, when it
    comes again, from what another attempt did at that step."""
    place = request.stands_at(view)
    if slot not in effect.slots:
        return False
    bound = (b.place for b in view.slot(slot).bindings if b.effect == effect.effect_id)
    if request.scope is Scope.AUTO and place.turn is not None and place.step is not None:
        return place in bound
    return any(identity.at_home(each, place, request.scope) for each in bound)


def _numbered_here(view: View, request: Claim, effect: Effect) -> bool:
    """Whether the call is numbered where the request stands: by its id there, or, without one, by number."""
    slot = request.slot
    if slot is None:
        return True
    if slot not in effect.slots:
        return False
    return any(b.effect == effect.effect_id and b.turn == request.place.turn for b in view.slot(slot).bindings)


def attempt_seen(view: View, request: Claim) -> int | None:
    """The turn's highest attempt, where this request raises it; the first is not worth a key."""
    attempt = request.attempt(view)
    return attempt if request.place.turn is not None and attempt > max(1, view.highest_attempt) else None


def started(request: Claim, effect: Effect) -> tuple[Event, Event]:
    """The last events before it is sent: who let it, and for how long it is claimed."""
    allowed: dict[str, object] = {} if effect.mode is Mode.AT_MOST_ONCE else {"idempotency": effect.mode}
    allowed |= said_of(request.ruled)
    return (
        Event("effect.allowed", effect.effect_id, allowed),
        Event("effect.executing", effect.effect_id, {"lease_s": request.terms.lease_ms / 1000, **_runner(effect)}),
    )


def _runner(effect: Effect) -> dict[str, object]:
    """Who runs it, where that is not the gateway (7.2)."""
    return {"by": RUNTIME} if effect.submitted else {}


def said_of(ruled: Ruled | None) -> dict[str, object]:
    """Which rule of which bundle decided, as events say it (7.3)."""
    if ruled is None:
        return {}
    said: dict[str, object] = {} if ruled.rule is None else {"rule": ruled.rule}
    return {**said, "bundle_version": ruled.bundle}


def new(view: View, request: Claim, own: Occurrence, status: Status, repeat_of: tuple[bytes, ...]) -> Effect:
    """The record of a call that is new, as of this request."""
    earlier = view.effects.get(own.effect)
    executing = status is Status.EXECUTING
    return Effect(
        format=FORMAT,
        effect_id=own.effect,
        company=request.company,
        conversation=request.conversation,
        kind=request.kind,
        target=request.target,
        fingerprint=request.fingerprint,
        tool_call_id=request.tool_call_id,
        turn=request.place.turn,
        step=request.place.step,
        attempt=request.attempt(view),
        occurrence=own.number,
        fields=identity.field_digests(request.arguments.value),
        mode=request.terms.mode,
        tool_version=request.terms.tool_version,
        endpoint=request.terms.endpoint,
        status=status,
        # Tokens issued before a resolved absence stay known: their late success must raise the alarm (4.4).
        tokens=(*(earlier.tokens if earlier else ()), *((request.token,) if executing else ())),
        lease_ms=request.terms.lease_ms if executing else 0,
        slots=() if request.slot is None else (request.slot,),
        repeat_of=repeat_of,
        arguments=None if executing and request.terms.mode is Mode.AT_MOST_ONCE else request.arguments.text,
        unavailable_means_not_executed=request.terms.unavailable_means_not_executed,
    )


def writes_new(view: View, request: Claim, effect: Effect, events: tuple[Event, ...]) -> Writes:
    """The writes that bring a new effect into its conversation."""
    slot = request.slot
    attempt = effect.attempt
    identical, within = view.identical.with_known(effect), request.numbered_within
    if not identical.takes(effect.effect_id, within, attempt):
        identical = identical.take(effect.effect_id, within, attempt, effect.occurrence)
    return Writes(
        effects={effect.effect_id: effect},
        slots={} if slot is None else {slot: _with_binding(view, request, slot, effect)},
        identical=identical,
        attempt_seen=attempt_seen(view, request),
        admits=effect.effect_id,
        events=events,
        keep_ms=request.terms.retention_ms,
    )


def _with_binding(view: View, request: Claim, slot: bytes, effect: Effect) -> CallSlot:
    place = request.stands_at(view)
    binding = Binding(
        effect.effect_id, request.fingerprint, place.turn, place.step, place.attempt, effect.status in UNENDING
    )
    standing = [b for b in view.slot(slot).bindings if view.names(slot, b.effect)]
    return CallSlot((*standing, binding))


def proposal(request: Claim) -> dict[str, object]:
    """What is asked for, as `effect.proposed` says it."""
    place = request.place
    said = {
        "kind": request.kind,
        "target": request.target,
        "tool_call_id": request.tool_call_id,
        "turn": place.turn,
        "step": place.step,
        "attempt": place.attempt,
        "tool_version": request.terms.tool_version or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def no_room(view: View) -> bool:
    """Whether the conversation has as many live effects as it may (4.13)."""
    return view.live >= MAX_LIVE


def full() -> Decision:
    return Refused("conversation_full", f"the conversation has {MAX_LIVE:,} live effects; start a new one")
