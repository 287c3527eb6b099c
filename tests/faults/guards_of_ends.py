"""Guards of how a claim ends: settled, released, lost, taken back, asked about and resolved (4.1 to 4.5, 4.11, 5.4, 5.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from gateway.core import decisions as d
from gateway.core import settlement
from gateway.core import step as stepping
from gateway.core.record import Effect, Outcome, Status
from gateway.core.requests import Release
from gateway.core.status_reply import NOT_EXECUTED, Said, Told
from gateway.service import answers, deciding, running, status_question
from gateway.service.asking import Asking
from gateway.service.running import Running
from gateway.service.status_question import StatusQuestion
from tests.faults.guards import KEEP_MS, Guard, theme
from tests.faults.plan import Plan
from tests.faults.resolvers import BY_HAND

_settle, _release, _lose, _resolve = settlement._settle, settlement._release, settlement._lose, settlement._resolve
_withdraw, _step, _standing, _told = stepping.withdraw, deciding.step, running._standing, status_question.told_by
_settled = Running._settled


def _under_any_token(judge: Any) -> Any:
    def judged(view: Any, effect: Effect, request: Any) -> d.Step:
        last = effect.tokens[-1] if effect.tokens else b""
        return judge(view, effect, replace(request, token=last) if request.token is not None else request)

    return judged


def _lost_is_released(view: Any, effect: Effect, request: Any) -> d.Step:
    if request.token is None:
        return _lose(view, effect, request)
    return _release(view, effect, Release(effect.effect_id, request.token, request.reason, KEEP_MS))


async def _answer_first(self: Any, claim: Any, effect: Effect, view: Any, asked: Any, outcome: Any, key: Any) -> Any:
    async def later() -> None:
        await _settled(self, claim, effect, view, asked, outcome, key)

    self._spawn(later())
    return answers.of_effect(asked, replace(effect, status=outcome.status, outcome=outcome))


async def _never(self: Any, *rest: Any) -> int:
    return 0


def _late_is_nothing(view: Any, effect: Effect, request: Any) -> d.Step:
    if effect.tokens[-1:] == (request.token,) and effect.status is Status.EXECUTING:
        return _settle(view, effect, request)
    return d.Step(d.Late(effect))


def _no_conflict(effect: Effect, request: Any) -> d.Step:
    return d.Step(d.Late(effect))


def _released_though_unknown(view: Any, effect: Effect, request: Any) -> d.Step:
    return _release(view, replace(effect, was_unknown=False), request)


def _whatever_stands(asked: Any, claim: Any, effect: Effect, decision: Any) -> Any:
    after = decision.effect if isinstance(decision, d.Late) else None
    return None if after is None else _standing(asked, replace(claim, token=after.tokens[-1]), after, decision)


def _told_as_done(asked: Any, claim: Any, effect: Effect, decision: Any) -> Any:
    after = decision.effect if isinstance(decision, d.Late) else None
    if after is not None and after.status in (Status.ABSENT, Status.AWAITING_APPROVAL):
        return answers.of_effect(asked, after)
    return _standing(asked, claim, effect, decision)


def _no_mark(view: Any, request: Any) -> d.Step:
    judged = _withdraw(view, request)
    return judged if judged.writes is None or judged.writes.effects else d.Step(d.Gone())


def _takes_room(view: Any, request: Any) -> d.Step:
    judged = _step(view, request)
    return judged if judged.writes is None else replace(judged, writes=replace(judged.writes, though_full=False))


def _resolves_what_runs(view: Any, effect: Effect, request: Any) -> d.Step:
    lost = replace(effect, status=Status.INDETERMINATE) if effect.status is Status.EXECUTING else effect
    return _resolve(view, lost, request)


def _asked_anywhere(self: Any, effect: Effect) -> Any:
    tool = self._registry.tool(effect.company, effect.target)
    return None if tool is None or tool.status_endpoint is None else tool


def _told_by(becomes: Outcome | None, matches: Callable[[Any, Any], bool]) -> Any:
    """Answers of status endpoints, some of them read as another outcome."""

    def told(seen: Any, **more: Any) -> Any:
        right = _told(seen, **more)
        return Told(Said.VOID, becomes) if matches(seen, right) else right

    return told


_LATE = theme("late workers")


VOID: Final = Outcome(Status.FAILED, fault=NOT_EXECUTED)


def _resolved(plan: Plan) -> bool:
    return any(fault.kind == BY_HAND for fault in plan.faults)


def _asked(plan: Plan) -> bool:
    return plan.status


GUARDS_OF_ENDS: Final = (
    Guard("token check of a settle", "4.4", ((settlement, "_settle", _under_any_token(_settle)),), fits=_LATE),
    Guard("token check of a release", "4.3", ((settlement, "_release", _under_any_token(_release)),), fits=_LATE),
    Guard("indeterminate rule", "5", ((settlement, "_lose", _lost_is_released),)),
    Guard("settled before it is answered", "4.2", ((Running, "_settled", _answer_first),)),
    Guard("a success that the ledger forgot is told", "4.14", ((settlement, "_forgotten", lambda *asked: False),)),
    Guard("claims are withdrawn", "4.11", ((Running, "_withdraw", _never),)),
    Guard(
        "withdrawal mark",
        "4.11",
        ((stepping, "withdraw", _no_mark),),
        fits=lambda plan: any(fault.kind == "claim delivered after its withdrawal" for fault in plan.faults),
    ),
    Guard(
        "outcomes find room in a full ledger",
        "4.11",
        ((deciding, "step", _takes_room),),
        fits=lambda plan: any(fault.kind == "out of memory at settle" for fault in plan.faults),
    ),
    Guard("settling goes on", "4.11", ((Running, "_keep_ending", _never),)),
    Guard(
        "another call's outcome is not shown",
        "4.3",
        ((running, "_standing", _whatever_stands),),
        fits=theme("settled twice", "late workers"),
    ),
    Guard("an absence is not told as done", "4.4", ((running, "_standing", _told_as_done),), fits=_LATE),
    Guard("only what is unknown is resolved", "4.1", ((settlement, "_resolve", _resolves_what_runs),), fits=_resolved),
    Guard(
        "a lease lapses before it is resolved",
        "4.5",
        ((settlement, "lapse", lambda view, effect: d.Step(d.Late(effect))),),
        fits=_resolved,
    ),
    Guard(
        "asked only where the call was sent",
        "5.4",
        ((StatusQuestion, "_tool", _asked_anywhere),),
        fits=lambda plan: plan.status and any("elsewhere" in fault.kind for fault in plan.faults),
    ),
    Guard("asking goes on", "5.4", ((Asking, "once", _never),), fits=_asked),
    Guard(
        "a 404 is no void",
        "5.4",
        ((status_question, "told_by", _told_by(VOID, lambda seen, told: seen.status == 404)),),
        fits=_asked,
    ),
    Guard(
        "in_progress is no void",
        "5.4",
        ((status_question, "told_by", _told_by(VOID, lambda seen, told: told.said is Said.IN_PROGRESS)),),
        fits=_asked,
    ),
    Guard(
        "no answer is no void",
        "5.4",
        ((status_question, "told_by", _told_by(VOID, lambda seen, told: seen.status is None)),),
        fits=_asked,
    ),
    Guard(
        "committed is no void",
        "5.4",
        ((status_question, "told_by", _told_by(VOID, lambda seen, told: told.said is Said.COMMITTED)),),
        fits=_asked,
    ),
    Guard(
        "what the merchant says late counts",
        "4.4",
        ((settlement, "_contradicted", lambda view, effect, request: d.Step(d.Late(effect))),),
        fits=_asked,
    ),
    Guard("a late success counts", "4.4", ((settlement, "_settle", _late_is_nothing),), fits=_LATE),
    Guard("a conflict is kept", "4.4", ((settlement, "_conflict", _no_conflict),), fits=_LATE),
    Guard("what was unknown is not released", "4.1", ((settlement, "_release", _released_though_unknown),)),
)
