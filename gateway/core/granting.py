"""What granting, holding, binding and losing write: the states an effect is put into. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.core import identity
from gateway.core.conversation import MAX_ALIASES, Binding, CallSlot, Event, PrintSlot, View, Writes
from gateway.core.decisions import Again, Blocked, Decision, Granted, Refused, Step
from gateway.core.record import FORMAT, UNENDING, Effect, Mode, Move, Status, check_move, moved
from gateway.core.requests import Claim

MAX_LIVE: Final = 10_000
"""Live effects a conversation may have (4.13)."""


def grant(view: View, request: Claim, own: bytes, held: Effect | None) -> Step:
    """A new call, or a hold that ended: executing, by this token."""
    started = (
        Event("effect.allowed", own, {}),
        Event("effect.executing", own, {"lease_s": request.terms.lease_ms / 1000}),
    )
    if held is not None:
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
        )
        return Step(Granted(effect), and_bind(view, request, effect, started))
    if view.live >= MAX_LIVE:
        return Step(full())
    check_move(Status.ABSENT, Move.CLAIM, Status.EXECUTING)
    effect = _new(view, request, own, Status.EXECUTING, ())
    events = (Event("effect.proposed", own, _proposal(request)), *started)
    return Step(Granted(effect), _writes_new(view, request, effect, events))


def hold(view: View, request: Claim, own: bytes, first: Effect, kept: frozenset[bytes]) -> Step:
    """A new call that repeats a success: held, with what it repeats kept in its record (4.9)."""
    if view.live >= MAX_LIVE:
        return Step(full())
    check_move(Status.ABSENT, Move.CLAIM, Status.AWAITING_APPROVAL)
    effect = _new(view, request, own, Status.AWAITING_APPROVAL, tuple(sorted(kept)))
    events = (
        Event("effect.proposed", own, _proposal(request)),
        Event("effect.awaiting_approval", own, {"because": "repeat", "first": first.hex}),
    )
    return Step(Blocked(effect, first), _writes_new(view, request, effect, events))


def take_up(view: View, request: Claim, effect: Effect, matched: str) -> Step:
    """`safe_to_retry`: send again with the same key (4.6); policy and limits are not asked again."""
    again = moved(
        effect,
        Move.CLAIM,
        Status.EXECUTING,
        tokens=(*effect.tokens, request.token),
        lease_ms=request.terms.lease_ms,
        claimed_at=None,
    )
    events = (Event("effect.executing", effect.effect_id, {"again": True}),)
    if matched == "repeat":
        writes = Writes(effects={effect.effect_id: again}, identical=view.identical.with_known(again), events=events)
    else:
        writes = and_bind(view, request, again, events)
    return Step(Granted(again, matched), writes)


def lapse(view: View, effect: Effect) -> Step:
    """A dead worker's claim becomes indeterminate at the next read (4.5)."""
    return Step(Again(), lost(view, effect, "lease lapsed"))


def lost(view: View, effect: Effect, reason: str, excerpt: str = "") -> Writes:
    """The writes of the table's `lost` column; `excerpt` is what was seen, cleaned, for the log."""
    after = moved(effect, Move.LOST, Status.INDETERMINATE, was_unknown=True)
    data: dict[str, object] = {"reason": reason}
    if excerpt:
        data["seen"] = excerpt
    return Writes(
        effects={effect.effect_id: after},
        identical=view.identical.with_known(after),
        events=(Event("effect.indeterminate", effect.effect_id, data),),
    )


def bind(view: View, request: Claim, effect: Effect) -> Writes | None:
    """Make the id an alias (2.5), and count this attempt's occurrence of the effect (2.4); None: nothing new."""
    slot, attempt = request.slot, request.attempt(view)
    slots: dict[bytes, CallSlot] = {}
    after, identical = effect, view.identical
    if slot is not None and all(b.effect != effect.effect_id for b in view.slot(slot).bindings):
        if len(effect.slots) >= MAX_ALIASES:
            return None
        slots[slot] = _with_binding(view, request, slot, effect)
        if slot not in effect.slots:
            after = msgspec.structs.replace(effect, slots=(*effect.slots, slot))
    within = request.numbered_within
    if (slots or request.place.turn == effect.turn) and not identical.takes(effect.effect_id, within, attempt):
        identical = identical.take(effect.effect_id, within, attempt)
    seen = _attempt_seen(view, request)
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


def _attempt_seen(view: View, request: Claim) -> int | None:
    """The turn's highest attempt, where this request raises it; the first is not worth a key."""
    attempt = request.attempt(view)
    return attempt if request.place.turn is not None and attempt > max(1, view.highest_attempt) else None


def _new(view: View, request: Claim, own: bytes, status: Status, repeat_of: tuple[bytes, ...]) -> Effect:
    earlier = view.effects.get(own)
    executing = status is Status.EXECUTING
    return Effect(
        format=FORMAT,
        effect_id=own,
        company=request.company,
        conversation=request.conversation,
        kind=request.kind,
        target=request.target,
        fingerprint=request.fingerprint,
        tool_call_id=request.tool_call_id,
        turn=request.place.turn,
        step=request.place.step,
        attempt=request.attempt(view),
        occurrence=0
        if request.tool_call_id is None
        else view.identical.lowest_free(request.numbered_within, request.attempt(view)),
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
    )


def _writes_new(view: View, request: Claim, effect: Effect, events: tuple[Event, ...]) -> Writes:
    slot = request.slot
    attempt = effect.attempt
    identical: PrintSlot = view.identical.with_known(effect)
    if not identical.takes(effect.effect_id, request.numbered_within, attempt):
        identical = identical.take(effect.effect_id, request.numbered_within, attempt, effect.occurrence)
    return Writes(
        effects={effect.effect_id: effect},
        slots={} if slot is None else {slot: _with_binding(view, request, slot, effect)},
        identical=identical,
        attempt_seen=_attempt_seen(view, request),
        admits=effect.effect_id,
        events=events,
        keep_ms=request.terms.retention_ms,
    )


def _with_binding(view: View, request: Claim, slot: bytes, effect: Effect) -> CallSlot:
    place = request.place
    binding = Binding(
        effect.effect_id,
        request.fingerprint,
        place.turn,
        place.step,
        request.attempt(view) if place.turn is not None else None,
        effect.status in UNENDING,
    )
    standing = tuple(b for b in view.slot(slot).bindings if may_stand(view, b.effect))
    return CallSlot((*standing, binding))


def may_stand(view: View, effect_id: bytes) -> bool:
    """False once the record was read and is gone: what still points to it names nothing any more."""
    return effect_id not in view.effects or present(view.effects[effect_id])


def present(effect: Effect | None) -> bool:
    return effect is not None and effect.status is not Status.ABSENT


def _proposal(request: Claim) -> dict[str, object]:
    return {
        "kind": request.kind.value,
        "target": request.target,
        "tool_call_id": request.tool_call_id,
        "turn": request.place.turn,
        "step": request.place.step,
        "attempt": request.place.attempt,
        "tool_version": request.terms.tool_version,
    }


def full() -> Decision:
    return Refused("conversation_full", f"the conversation has {MAX_LIVE:,} live effects; start a new one")
