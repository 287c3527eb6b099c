"""Repeats: a call that is identical to another effect of its conversation (promises 4.7 and 4.9). Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.core.conversation import Known, View, Writes
from gateway.core.decisions import Blocked, Denied, Granted, Need, Replay, Step, Wait
from gateway.core.expiry import expire
from gateway.core.granting import bind, lapse, take_up
from gateway.core.holding import begin, hold, hold_ended, still_held
from gateway.core.identity import Kind
from gateway.core.occurrences import Occurrence
from gateway.core.record import UNENDING, Effect, Fault, Mode, Status
from gateway.core.requests import Claim, OnRepeat

PRIOR_UNKNOWN: Final = Fault(
    "prior_outcome_unknown",
    "An identical call was made before and its outcome is not known. It was not made again. "
    "Tell the customer that it is being checked; do not try it again.",
)


def judge_repeat(view: View, request: Claim, own: Occurrence, under_id: tuple[bytes, ...], held: Effect | None) -> Step:
    """4.7 and 4.9: against which identical effect a call is judged, and what follows."""
    others = [k for k in view.identical.known if k.effect != own.effect and view.may_stand(k.effect)]
    # Read whatever runs, also where nobody would wait for it: a dead worker's claim is an unknown outcome (4.5).
    running = tuple(k.effect for k in others if k.status is Status.EXECUTING)
    waiting = tuple(k.effect for k in others if k.status is Status.AWAITING_APPROVAL)
    unread = tuple(effect for effect in (*running, *waiting) if effect not in view.effects)
    if unread:
        return Step(Need(unread))
    for effect_id in running:
        runs = view.effects[effect_id]
        if runs is not None and view.now_ms is not None and runs.lapsed(view.now_ms):
            return lapse(view, runs)
    for effect_id in waiting:
        waits = view.effects[effect_id]
        if waits is not None and view.now_ms is not None and waits.overdue(view.now_ms, request.terms.hold_ms):
            return expire(view, request.terms.retention_ms, waits)
    unknown = [k for k in others if k.was_unknown and k.status in UNENDING]
    if unknown:
        return _after_unknown(view, request, unknown[-1].effect, held)
    counted = frozenset(under_id) | request.repeat_of
    repeats = [k for k in others if k.effect in counted or _counts(k, view, request)]
    kept = frozenset(k.effect for k in repeats)
    wanted = request.terms.on_repeat is OnRepeat.RUN
    for known in reversed(_by_time(repeats)):
        if wanted and known.status in (Status.EXECUTING, Status.SUCCEEDED):
            break
        if known.status is Status.EXECUTING:
            return Step(Wait(known.effect, kept))
        if known.status is Status.AWAITING_APPROVAL and held is None and request.kind is Kind.TOOL_CALL:
            return _join(view, request, known.effect)
        if known.status is Status.SUCCEEDED:
            return _after_success(view, request, own, known.effect, kept, held)
    return begin(view, request, own) if held is None else hold_ended(view, request, held)


def judge_held(view: View, request: Claim, held: Effect) -> Step:
    """A hold is judged anew at each request, by its own id or one that joins it (4.9); it ends when its first
    failed or vanished."""
    answer = judge_repeat(view, request, Occurrence(held.occurrence, held.effect_id), held.repeat_of, held)
    match answer.decision:
        case Wait():
            return Step(answer.decision, bind(view, request, held))
        case Blocked(effect=effect):
            return Step(answer.decision, _together(bind(view, request, effect), answer.writes))
    return answer


def _together(bound: Writes | None, reopened: Writes | None) -> Writes | None:
    """An alias, and another approval: both are of one effect, and what is bound has what was reopened."""
    if bound is None or reopened is None:
        return bound or reopened
    return msgspec.structs.replace(bound, effects={**reopened.effects, **bound.effects}, events=reopened.events)


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


def _after_unknown(view: View, request: Claim, effect_id: bytes, held: Effect | None) -> Step:
    """4.7: no identical call gets an effect of its own while one is unknown, whatever `on_repeat` says."""
    if effect_id not in view.effects:
        return Step(Need((effect_id,)))
    first = view.effects[effect_id]
    assert first is not None
    # What a runtime runs the gateway cannot send again, nor the other way round.
    again = first.sent_again and first.submitted is request.submitted
    if first.mode is Mode.AT_MOST_ONCE or (first.status is Status.INDETERMINATE and not again):
        return Step(Denied(PRIOR_UNKNOWN, first))
    if first.status is Status.INDETERMINATE:
        return take_up(view, request, first, "repeat", alias=held is None)
    if first.tokens[-1] == request.token:
        return Step(Granted(first, "repeat"))
    # The first answers: bound before it waits, the call does not become a repeat of it once it has ended.
    return Step(Wait(effect_id, request.repeat_of | {effect_id}), bind(view, request, first) if held is None else None)


def _after_success(
    view: View, request: Claim, own: Occurrence, effect_id: bytes, kept: frozenset[bytes], held: Effect | None
) -> Step:
    if effect_id not in view.effects:
        return Step(Need((effect_id,)))
    first = view.effects[effect_id]
    assert first is not None
    if held is not None:
        return still_held(view, request, held, first)
    if request.terms.on_repeat is OnRepeat.REPLAY:
        return Step(Replay(first, "repeat"), bind(view, request, first))
    return hold(view, request, own, first, kept)


def _join(view: View, request: Claim, effect_id: bytes) -> Step:
    """A repeat of what is held joins it, as its alias; it is judged when the held one is (4.9)."""
    if effect_id not in view.effects:
        return Step(Need((effect_id,)))
    held = view.effects[effect_id]
    assert held is not None
    return judge_held(view, request, held)
