"""How a claim ends: settle, release, lost and resolve (promises 4.1, 4.3, 4.4, 5.5). Pure."""

from __future__ import annotations

import msgspec

from gateway.core.conversation import Event, View, Writes
from gateway.core.decisions import Conflicting, Gone, Late, Need, Settled, Step
from gateway.core.granting import lapse, lost
from gateway.core.record import SETTLED, Effect, Mode, Move, Outcome, Status, moved
from gateway.core.reply_body import NULL, excerpt_of
from gateway.core.requests import Lose, Release, Resolve, Settle


def end(view: View, request: Settle | Release | Lose | Resolve) -> Step:
    """Judge one end against one view."""
    effect = view.effects.get(request.effect_id)
    if effect is None:
        # A release that is repeated finds nothing, and is done; an outcome finds nothing to settle.
        return Step(Gone() if isinstance(request, Release) else Late(None), alarm=_forgotten(None, request))
    unread = view.unread(effect)
    if unread:
        return Step(Need(slots=unread))
    match request:
        case Settle():
            return _settle(view, effect, request)
        case Release():
            return _release(view, effect, request)
        case Lose():
            return _lose(view, effect, request)
        case Resolve():
            return _resolve(view, effect, request)


def _settle(view: View, effect: Effect, request: Settle) -> Step:
    current = bool(effect.tokens) and effect.tokens[-1] == request.token
    issued = request.token in effect.tokens
    success = request.outcome.status is Status.SUCCEEDED
    if effect.status in SETTLED:
        # Two tries of a call that is safe to retry may both come back, and with one key they say the same.
        ours = effect.settled_by == request.token or (issued and effect.mode is Mode.SAFE_TO_RETRY)
        if ours and agree(effect.outcome, request.outcome):
            return Step(Settled(effect))
        if success and issued and not effect.settled_by and _borne_out(effect.outcome, request.outcome):
            return Step(Settled(effect))
        if success and issued:
            return _conflict(effect, request)
        return Step(Late(effect), alarm=_forgotten(effect, request))
    if effect.status is Status.EXECUTING and current:
        return _settled(view, effect, request.outcome, request.token, request.keep_ms, {})
    if success and issued:
        if _open_to_truth(effect):
            return _settled(view, effect, request.outcome, request.token, request.keep_ms, {"late": True})
        return _conflict(effect, request)
    return Step(Late(effect), alarm=_forgotten(effect, request))


def _forgotten(effect: Effect | None, request: Settle | Release | Lose | Resolve) -> bool:
    """Whether a success comes whose claim the ledger no longer knows (4.14): it lost it, and the call may be, or has
    been, made once more."""
    if not isinstance(request, Settle) or request.outcome.status is not Status.SUCCEEDED:
        return False
    return effect is None or request.token not in effect.tokens


def _conflict(effect: Effect, request: Settle | Resolve) -> Step:
    data: dict[str, object] = {"stands": effect.status.value, "came": "succeeded"}
    if isinstance(request, Resolve):
        data["said_by_merchant"] = True
    if request.outcome is not None and request.outcome.result is not None:
        # Nothing else keeps it: whoever has to find out what happened needs to see both accounts (4.4).
        data["seen"] = excerpt_of(request.outcome.result, "application/json", None)
    event = Event("effect.conflict", effect.effect_id, data)
    writes = Writes(events=(event,), keep_ms=request.keep_ms, though_full=True)
    return Step(Conflicting(effect), writes, alarm=True)


def _settled(view: View, effect: Effect, outcome: Outcome, token: bytes, keep_ms: int, said: dict[str, object]) -> Step:
    after = moved(
        effect, Move.SETTLE, outcome.status, outcome=outcome, settled_by=token, settled_at=None, arguments=None
    )
    data = dict(said)
    if outcome.fault is not None:
        data["code"] = outcome.fault.code
    if outcome.dropped:
        data["result_dropped"] = True
    event = Event(f"effect.{outcome.status.value}", effect.effect_id, data)
    return Step(Settled(after), ended(view, after, keep_ms, event), alarm=effect.status is Status.ABSENT)


def ended(view: View, after: Effect, keep_ms: int, *events: Event) -> Writes:
    """The writes that put an effect in its last state; its retention starts with them (4.13)."""
    closed = {slot: view.slot(slot).marked(after.effect_id, open=False) for slot in after.slots}
    return Writes(
        effects={after.effect_id: after},
        slots=closed,
        identical=view.identical.with_known(after),
        events=events,
        keep_ms=keep_ms,
        though_full=True,
    )


def _release(view: View, effect: Effect, request: Release) -> Step:
    if effect.status is Status.EXECUTING and effect.tokens[-1] == request.token:
        if effect.was_unknown:
            # Its holder proved that it sent nothing: no success can come under that token, so it need not be kept.
            after = moved(effect, Move.RELEASE, Status.INDETERMINATE, tokens=effect.tokens[:-1])
            event = Event("effect.indeterminate", effect.effect_id, {"reason": request.reason})
            writes = Writes(
                effects={effect.effect_id: after},
                identical=view.identical.with_known(after),
                events=(event,),
                though_full=True,
            )
            return Step(Late(after), writes)
        return _given_back(view, effect, request)
    if effect.status is Status.INDETERMINATE and effect.tokens == (request.token,):
        return _given_back(view, effect, request)
    if effect.status is Status.ABSENT:
        return Step(Gone())
    return Step(Late(effect))


def _given_back(view: View, effect: Effect, request: Release) -> Step:
    gone = moved(
        effect, Move.RELEASE, Status.ABSENT, tokens=effect.tokens[:-1], slots=(), settled_at=None, arguments=None
    )
    # Tokens of before a resolved absence stay behind, as they did before this claim (4.4), and so does what somebody
    # decided about it (7.4).
    decided = effect.approval is not None and effect.approval.decided_by is not None
    mark = gone if gone.tokens or decided else None
    released = Event("effect.released", effect.effect_id, {"reason": request.reason})
    return Step(Gone(), _vanished(view, effect, mark, request.keep_ms, released))


def _vanished(view: View, effect: Effect, mark: Effect | None, keep_ms: int, *events: Event) -> Writes:
    """The effect, its number and its aliases are free again, all new when they come (2.4)."""
    return Writes(
        effects={effect.effect_id: mark},
        slots={slot: view.slot(slot).without(effect.effect_id) for slot in effect.slots},
        identical=view.identical.without(effect.effect_id),
        events=events,
        keep_ms=keep_ms,
        though_full=True,
    )


def _lose(view: View, effect: Effect, request: Lose) -> Step:
    ours = request.token is not None and effect.tokens[-1:] == (request.token,)
    lapsed = request.token is None and view.now_ms is not None and effect.lapsed(view.now_ms)
    if effect.status is Status.EXECUTING and (ours or lapsed):
        writes = lost(view, effect, request.reason, request.excerpt, request.http_status)
        after = writes.effects[effect.effect_id]
        return Step(Late(after), writes)
    return Step(Late(effect))


def _resolve(view: View, effect: Effect, request: Resolve) -> Step:
    wanted = Status.ABSENT if request.outcome is None else request.outcome.status
    if view.now_ms is not None and effect.lapsed(view.now_ms):
        return lapse(view, effect)
    if effect.status is not Status.INDETERMINATE:
        same = effect.status is wanted and (request.outcome is None or agree(effect.outcome, request.outcome))
        if same:
            return Step(Gone() if wanted is Status.ABSENT else Settled(effect))
        return _contradicted(view, effect, request)
    if request.token is not None and effect.tokens[-1:] != (request.token,):
        # It was released and claimed anew, or taken up again, since somebody looked: what they saw says nothing of it.
        return Step(Late(effect))
    told = Event("effect.resolved", effect.effect_id, _said_by(request, wanted))
    if request.outcome is None:
        # The tokens stay behind as a mark: a success that one of them reports later raises the alarm (4.4).
        mark = moved(effect, Move.RESOLVE, Status.ABSENT, slots=(), settled_at=None)
        return Step(Gone(), _vanished(view, effect, mark, request.keep_ms, told))
    after = moved(effect, Move.RESOLVE, wanted, outcome=request.outcome, settled_at=None, arguments=None)
    return Step(Settled(after), ended(view, after, request.keep_ms, told))


def _said_by(request: Resolve, wanted: Status) -> dict[str, object]:
    """Who resolved what, and on what grounds; what is not stated is left out."""
    outcome = request.outcome
    said: dict[str, object] = {"outcome": wanted.value, "by": request.by}
    if request.note:
        said["note"] = request.note
    if request.evidence is not None:
        said["evidence"] = request.evidence
    if request.said_by_merchant:
        said["said_by_merchant"] = True
    if outcome is not None and outcome.fault is not None:
        said["code"] = outcome.fault.code
    if outcome is not None and outcome.dropped:
        said["result_dropped"] = True
    return said


def _contradicted(view: View, effect: Effect, request: Resolve) -> Step:
    """A resolution that came too late. The merchant's own "committed" is as good as a success under a token (4.4), but
    for the result: its status endpoint may word it otherwise than its reply did, and what stands was seen first."""
    outcome = request.outcome
    committed = request.said_by_merchant and outcome is not None and outcome.status is Status.SUCCEEDED
    if not committed or outcome is None or effect.status is Status.SUCCEEDED:
        return Step(Late(effect))
    if _open_to_truth(effect):
        return _settled(view, effect, outcome, b"", request.keep_ms, {"late": True, "said_by_merchant": True})
    return _conflict(effect, request)


def _open_to_truth(effect: Effect) -> bool:
    """Whether a success that comes late settles it (4.4): what is unknown, what was resolved as absent, and what is
    tried again under the same key."""
    retried = effect.status is Status.EXECUTING and effect.mode is Mode.SAFE_TO_RETRY
    return retried or effect.status in (Status.INDETERMINATE, Status.ABSENT)


def _borne_out(stands: Outcome | None, came: Outcome) -> bool:
    """Whether what was resolved is what a late success says: that it was done, and its result if it has one."""
    if stands is None or stands.status is not came.status:
        return False
    return stands.dropped or stands.result in (None, NULL) or agree(stands, came)


def agree(one: Outcome | None, other: Outcome | None) -> bool:
    """Whether two accounts of an effect are one. White space between values is its writer's and says nothing."""
    if one is None or other is None or one.result is None or other.result is None:
        return one == other
    return (one.status, one.dropped, one.fault) == (other.status, other.dropped, other.fault) and _compact(
        one.result
    ) == _compact(other.result)


def _compact(result: bytes) -> bytes:
    return msgspec.json.format(result, indent=-1)
