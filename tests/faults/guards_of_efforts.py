"""Guards of what runtimes run themselves, of policy and of approvals (7.2 to 7.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from gateway.core import approving, granting, holding, renewal, repeats
from gateway.core import claim as claiming
from gateway.core import decisions as d
from gateway.core import step as stepping
from gateway.core.occurrences import Occurrence
from gateway.core.record import Effect, Status
from gateway.core.requests import Claim
from gateway.service.claiming import Claiming
from gateway.service.claims import Claims
from gateway.service.decide_approval import DecideApproval
from gateway.service.running import Running
from tests.faults.guards import Guard, changed_source, theme
from tests.faults.plan import Plan

_grant, _refuse, _renew, _overdue = approving.grant_approval, approving.refuse, renewal.renew, Effect.overdue
_occurrence, _hold_ended, _still_held = claiming.occurrence_of, holding.hold_ended, holding.still_held
_started, _of_held, _may_decide = granting.started, Claims.of_held, DecideApproval._may_decide


def _with_held(view: Any, request: Any, held: Effect) -> Any:
    return replace(view, effects={**view.effects, request.effect_id: held})


def _any_approval(judge: Callable[[Any, Any], d.Step]) -> Callable[[Any, Any], d.Step]:
    """Whichever approval of the effect is open."""

    def judged(view: Any, request: Any) -> d.Step:
        held = view.effects.get(request.effect_id)
        approval = None if held is None else held.approval
        return judge(view, request if approval is None else replace(request, approval=approval.id))

    return judged


def _granted_again(view: Any, request: Any) -> d.Step:
    held = view.effects.get(request.effect_id)
    if held is None or not held.granted:
        return _grant(view, request)
    return _grant(*_as_if_open(view, request, held))


def _as_if_open(view: Any, request: Any, held: Effect) -> tuple[Any, Any]:
    return _with_held(view, request, replace(held, approval=replace(held.approval, decided_by=None))), request


def _denied_though_granted(view: Any, request: Any) -> d.Step:
    held = view.effects.get(request.effect_id)
    return _refuse(*_as_if_open(view, request, held)) if held is not None and held.granted else _refuse(view, request)


def _denied_is_open(view: Any, request: Any) -> d.Step:
    """A denied call is granted all the same."""
    held = view.effects.get(request.effect_id)
    if held is None or held.status is not Status.DENIED or held.approval is None:
        return _grant(view, request)
    open_ = replace(held.approval, decided_by=None)
    return _grant(
        _with_held(view, request, replace(held, status=Status.AWAITING_APPROVAL, outcome=None, approval=open_)), request
    )


def _renewed_by_anybody(view: Any, request: Any) -> d.Step:
    effect = view.effects.get(request.effect_id)
    tokens = () if effect is None else effect.tokens
    return _renew(view, replace(request, token=tokens[-1]) if tokens else request)


def _renewed_though_lapsed(view: Any, request: Any) -> d.Step:
    effect = view.effects.get(request.effect_id)
    if effect is None or view.now_ms is None or not effect.lapsed(view.now_ms):
        return _renew(view, request)
    return _renew(_with_held(view, request, replace(effect, lease_ms=effect.lease_ms + 3_600_000)), request)


def _unused_never_lapses(effect: Effect, now_ms: int, hold_ms: int) -> bool:
    return not effect.granted and _overdue(effect, now_ms, hold_ms)


def _number_zero(view: Any, request: Any) -> Occurrence:
    if request.by_token:
        return Occurrence(0, request.effect_id(0))
    return _occurrence(view, request)


def _whatever_it_repeats(view: Any, request: Any, own: Any, under_id: Any, held: Any) -> d.Step:
    return d.Step(d.Granted(held))


def _not_judged_by_rules(view: Any, request: Any) -> d.Step:
    return _grant(view, replace(request, claim=replace(request.claim, refusal=None)))


def _ended_without_a_grant(view: Any, request: Any, held: Effect) -> d.Step:
    return granting.grant_held(view, request, held)


def _still_held_but_runs(view: Any, request: Any, held: Effect, first: Effect) -> d.Step:
    return granting.grant_held(view, request, held)


def _rules_are_not_asked(view: Any, request: Any, own: Any) -> d.Step:
    return granting.grant(view, request, own)


def _nothing_said(request: Any, effect: Effect) -> Any:
    return _started(request, effect)[1:]


def _used_unsaid(view: Any, request: Any, held: Effect) -> d.Step:
    """A granted one that is submitted says nothing of its approval."""
    judged = granting.grant_held(view, request, held)
    if judged.writes is None:
        return judged
    events = tuple(event for event in judged.writes.events if event.type != "approval.used")
    return replace(judged, writes=replace(judged.writes, events=events))


def _submitted_runs_unsaid(view: Any, request: Any, held: Effect) -> d.Step:
    return _used_unsaid(view, request, held) if held.granted else _hold_ended(view, request, held)


def _other_arguments(self: Any, held: Effect) -> Claim:
    """The held call as somebody else would like it: nothing ties it to what was approved."""
    return _of_held(self, replace(held, arguments='{"sku": "other"}'))


async def _anybody_decides(self: Any, principal: Any, name: str, said: Any) -> Any:
    effect = await self._find(principal, name)
    return effect, effect.approval.id, principal.name


def _taken_back(source: str) -> str:
    return source.replace("lost.may_have_run and not claim.submitted", "lost.may_have_run")


def _grants(plan: Plan) -> bool:
    return bool(plan.approvers) and any(one.grants for one in plan.approvers)


def _by_token(plan: Plan) -> bool:
    return any(job.call is None for job in plan.jobs)


_OUTDATED, _APPROVED = theme("outdated"), theme("approved", "submissions")


GUARDS_OF_EFFORTS: Final = (
    Guard(
        "approval id check of a grant",
        "7.4",
        ((stepping, "grant_approval", _any_approval(_grant)),),
        fits=_OUTDATED,
    ),
    Guard("approval id check of a refusal", "7.4", ((stepping, "refuse", _any_approval(_refuse)),)),
    Guard("granted once", "7.4", ((stepping, "grant_approval", _granted_again),), fits=_grants),
    Guard("granted is not denied", "7.4", ((stepping, "refuse", _denied_though_granted),), fits=_grants),
    Guard("denied is not granted", "7.4", ((stepping, "grant_approval", _denied_is_open),), fits=_grants),
    Guard("who may decide", "7.4", ((DecideApproval, "_may_decide", _anybody_decides),), fits=_APPROVED),
    Guard(
        "an outdated approval is not granted",
        "7.4",
        ((approving, "outdated", lambda held, claim: False),),
        fits=_OUTDATED,
    ),
    Guard(
        "an outdated approval is not used",
        "7.4",
        ((holding, "outdated", lambda held, claim: False),),
        fits=lambda plan: any("elsewhere" in fault.kind for fault in plan.faults) and bool(plan.jobs),
    ),
    Guard("a newer policy voids a grant", "7.4", ((stepping, "grant_approval", _not_judged_by_rules),), fits=_grants),
    Guard("a grant is judged anew", "4.7", ((approving, "judge_repeat", _whatever_it_repeats),), fits=_grants),
    Guard("a hold of policy needs its approval", "7.3", ((repeats, "hold_ended", _ended_without_a_grant),)),
    Guard("a held repeat needs its approval", "4.9", ((repeats, "still_held", _still_held_but_runs),)),
    Guard(
        "rules are asked", "7.3", ((claiming, "begin", _rules_are_not_asked), (repeats, "begin", _rules_are_not_asked))
    ),
    Guard("what let it run is said", "7.3", ((granting, "started", _nothing_said),)),
    Guard("what was used is said", "7.4", ((repeats, "hold_ended", _submitted_runs_unsaid),), fits=_grants),
    Guard("unused grants lapse", "7.4", ((Effect, "overdue", _unused_never_lapses),), fits=_grants),
    Guard("token check of a renewal", "7.2", ((stepping, "renew", _renewed_by_anybody),)),
    Guard("a lapsed lease is not renewed", "4.5", ((stepping, "renew", _renewed_though_lapsed),)),
    Guard("the same token is the same submission", "7.2", ((Claim, "by_token", property(lambda self: False)),)),
    Guard("another token is another occurrence", "7.2", ((claiming, "occurrence_of", _number_zero),), fits=_by_token),
    Guard(
        "a caller's claim is not taken back",
        "4.3",
        ((Claiming, "__call__", changed_source(Claiming, "__call__", _taken_back)),),
        fits=lambda plan: bool(plan.jobs),
    ),
    Guard(
        "a grant that is not heard is asked for again, then taken back",
        "4.11",
        ((Running, "withdraw", lambda *_: None),),
    ),
)
