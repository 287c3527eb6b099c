"""Repeats: a call that is identical to another effect of its conversation (promises 4.7 and 4.9). Pure."""

from __future__ import annotations

from typing import Final

from gateway.core.conversation import Known, View
from gateway.core.decisions import Blocked, Denied, Granted, Need, Replay, Step, Wait
from gateway.core.granting import bind, grant, hold, lapse, may_stand, take_up
from gateway.core.record import Effect, Fault, Mode, Move, Status, check_move
from gateway.core.requests import Claim, OnRepeat

PRIOR_UNKNOWN: Final = Fault(
    "prior_outcome_unknown",
    "An identical call was made before and its outcome is not known. It was not made again. "
    "Tell the customer that it is being checked; do not try it again.",
)


def judge_repeat(view: View, request: Claim, own: bytes, under_id: tuple[bytes, ...], held: Effect | None) -> Step:
    """4.7 and 4.9: against which identical effect a call is judged, and what follows."""
    others = [k for k in view.identical.known if k.effect != own and may_stand(view, k.effect)]
    unknown = [k for k in others if k.was_unknown and k.status in (Status.INDETERMINATE, Status.EXECUTING)]
    if unknown:
        return _after_unknown(view, request, unknown[-1].effect)
    counted = frozenset(under_id) | request.repeat_of
    repeats = [k for k in others if k.effect in counted or _counts(k, view, request)]
    if request.terms.on_repeat is OnRepeat.RUN:
        return grant(view, request, own, held)
    kept = frozenset(k.effect for k in repeats)
    for known in reversed(_by_time(repeats)):
        if known.status is Status.EXECUTING:
            return _wait_for_first(view, known, kept)
        if known.status is Status.AWAITING_APPROVAL and held is None:
            return _join(view, request, known.effect)
        if known.status is Status.SUCCEEDED:
            return _after_success(view, request, own, known.effect, kept, held)
    return grant(view, request, own, held)


def _counts(known: Known, view: View, request: Claim) -> bool:
    """Whether an identical effect makes this call a repeat when it first comes (4.9)."""
    if known.status in (Status.EXECUTING, Status.AWAITING_APPROVAL) or known.was_unknown:
        return True
    if request.place.turn is not None and known.turn == request.place.turn:
        return True
    window = request.terms.repeat_window_ms
    return known.at is not None and view.now_ms is not None and view.now_ms - known.at < window


def _by_time(repeats: list[Known]) -> list[Known]:
    return sorted(repeats, key=lambda k: k.at or 0)


def _wait_for_first(view: View, known: Known, kept: frozenset[bytes]) -> Step:
    if known.effect not in view.effects:
        return Step(Need((known.effect,)))
    first = view.effects[known.effect]
    if first is not None and view.now_ms is not None and first.lapsed(view.now_ms):
        return lapse(view, first)
    return Step(Wait(known.effect, kept))


def _after_unknown(view: View, request: Claim, effect_id: bytes) -> Step:
    """4.7: no identical call gets an effect of its own while one is unknown, whatever `on_repeat` says."""
    if effect_id not in view.effects:
        return Step(Need((effect_id,)))
    first = view.effects[effect_id]
    assert first is not None
    if view.now_ms is not None and first.lapsed(view.now_ms):
        return lapse(view, first)
    if first.mode is Mode.AT_MOST_ONCE:
        return Step(Denied(PRIOR_UNKNOWN, first))
    if first.status is Status.EXECUTING:
        if first.tokens[-1] == request.token:
            return Step(Granted(first, "repeat"))
        return Step(Wait(effect_id, request.repeat_of | {effect_id}))
    return take_up(view, request, first, "repeat")


def _after_success(
    view: View, request: Claim, own: bytes, effect_id: bytes, kept: frozenset[bytes], held: Effect | None
) -> Step:
    if effect_id not in view.effects:
        return Step(Need((effect_id,)))
    first = view.effects[effect_id]
    assert first is not None
    if request.terms.on_repeat is OnRepeat.REPLAY and held is None:
        return Step(Replay(first, "repeat"), bind(view, request, first))
    if held is not None:
        check_move(held.status, Move.CLAIM, held.status)
        return Step(Blocked(held, first))
    return hold(view, request, own, first, kept)


def _join(view: View, request: Claim, effect_id: bytes) -> Step:
    """A repeat of what is held joins it, as its alias; it is judged when the held one is (4.9)."""
    if effect_id not in view.effects:
        return Step(Need((effect_id,)))
    effect = view.effects[effect_id]
    assert effect is not None
    answer = judge_repeat(view, request, effect_id, effect.repeat_of, effect)
    if isinstance(answer.decision, Blocked):
        return Step(answer.decision, bind(view, request, effect))
    return answer
