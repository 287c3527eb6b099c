"""What is told of a decision: to a caller, and to somebody who decides an approval, as the service makes it."""

from __future__ import annotations

from typing import NamedTuple

from gateway.core import decisions as d
from gateway.core.record import Effect, Status
from gateway.core.requests import End, Release, Settle, Withdraw


class Answer(NamedTuple):
    """What the caller is told. `said`: a decision, or the code of a problem; `shown`: what of a record it shows."""

    said: str
    status: str | None = None
    result: bytes | None = None
    shown: bytes = b""
    recorded: bool = True


def of_claim(decision: d.Decision) -> Answer:
    match decision:
        case d.Replay(effect=effect):
            return showing("replay", effect)
        case d.Blocked(first=first):
            return showing("blocked", first) if first is not None else Answer("blocked")
        case d.Denied(fault=fault):
            return Answer(f"denied: {fault.code}", recorded=False)
        case d.Refused(code=code):
            return Answer(code)
        case _:
            raise AssertionError(f"a claim was answered {decision}")


def of_approval(decision: d.Decision) -> Answer:
    """What `service/decide_approval` makes of a decision on an approval that runs nothing."""
    match decision:
        case d.Approved(effect=effect):
            came = effect.status in (Status.SUCCEEDED, Status.FAILED)
            return showing("granted", effect) if came else Answer("granted", shown=effect.effect_id)
        case d.Settled(effect=effect):
            return Answer("refused", shown=effect.effect_id)
        case d.Wait():
            return Answer("call_in_flight")
        case d.Late():
            return Answer("approval_decided")
        case d.Denied() | d.Refused():
            return Answer("grant_refused")
        case _:
            raise AssertionError(f"a decision was answered {decision}")


def of_end(end: End | Withdraw, decision: d.Decision) -> Answer:
    """What `service/running` makes of a decision on an end."""
    late = decision.effect if isinstance(decision, d.Late) else None
    match end, decision:
        case Settle(), d.Settled(effect=after):
            return showing("proceed", after)
        case Settle(outcome=outcome), _ if late is not None and late.outcome != outcome:
            return standing(late)
        case Settle(), _:
            return unrecorded(end)
        case Release(reason="lease too short"), _:
            return Answer("too_slow")
        case Release(), _:
            return Answer("merchant_not_ready") if late is None else standing(late)
        case _:
            return unrecorded(end) if late is None else standing(late)


def unrecorded(end: End | Withdraw) -> Answer:
    """What is said of an end that is not recorded, or not yet."""
    match end:
        case Settle(outcome=outcome):
            return Answer("proceed", outcome.status.value, outcome.result, end.effect_id, recorded=False)
        case Release(reason=reason):
            return Answer("too_slow" if reason == "lease too short" else "merchant_not_ready")
    return Answer("proceed", Status.INDETERMINATE.value, None, end.effect_id, recorded=False)


def showing(said: str, effect: Effect) -> Answer:
    result = effect.outcome.result if effect.outcome is not None else None
    return Answer(said, effect.status.value, result, effect.effect_id)


def standing(effect: Effect) -> Answer:
    if effect.status is Status.EXECUTING:
        return Answer("call_in_flight")
    return showing("proceed", effect)
