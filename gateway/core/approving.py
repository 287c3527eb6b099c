"""What becomes of an approval: granted, or refused, once, by whoever may (promises 4.1, 4.9, 7.4). Pure.

Who may decide is not judged here: the service knows the principal.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.core.conversation import Event, View, Writes
from gateway.core.decisions import (
    Again,
    Approved,
    Blocked,
    Denied,
    Granted,
    Late,
    Need,
    Reopened,
    Settled,
    Step,
    Wait,
)
from gateway.core.expiry import expire
from gateway.core.granting import TooManyIds, named, opened, started
from gateway.core.holding import held_ms, outdated, reopen, stands_ms
from gateway.core.occurrences import Occurrence
from gateway.core.record import Effect, Fault, Move, Outcome, Status, moved
from gateway.core.repeats import PRIOR_UNKNOWN, judge_repeat
from gateway.core.requests import Grant, Refuse
from gateway.core.settlement import ended

APPROVAL_DENIED: Final = Fault(
    "approval_denied", "Not done: it needed approval, and that was refused. Tell the customer; do not try it again."
)


def refuse(view: View, request: Refuse) -> Step:
    """Denied, and that is stored: its ids replay it from then on (7.4)."""
    held = view.effects.get(request.effect_id)
    if held is None or held.approval is None or held.approval.id != request.approval:
        return Step(Late(held))
    unread = view.unread(held)
    if unread:
        return Step(Need(slots=unread))
    if view.now_ms is not None and held.overdue(view.now_ms, request.hold_ms):
        return expire(view, request.keep_ms, held)
    if held.status is Status.DENIED and held.outcome is not None and held.outcome.fault == APPROVAL_DENIED:
        return Step(Settled(held) if held.approval.decided_by == request.by else Late(held))
    if held.status is not Status.AWAITING_APPROVAL or held.granted:
        return Step(Late(held))
    denied = Outcome(Status.DENIED, fault=APPROVAL_DENIED)
    approval = msgspec.structs.replace(held.approval, decided_by=request.by)
    after = moved(held, Move.REFUSE, Status.DENIED, outcome=denied, settled_at=None, arguments=None, approval=approval)
    events = (
        Event("approval.denied", held.effect_id, {**named(held), "by": request.by, **request.said}),
        Event("effect.denied", held.effect_id, {"code": APPROVAL_DENIED.code}),
    )
    return Step(Settled(after), ended(view, after, request.keep_ms, *events))


def grant_approval(view: View, request: Grant) -> Step:
    """Judged anew (4.9), then run by the gateway under the claim's token; what is submitted is run by whoever
    submits it, and stays granted until then (7.2).

    What stands against it leaves the approval open: another that runs (Wait), one whose outcome is unknown (4.7), a
    policy or a registration that would refuse it now (the claim's refusal).
    """
    claim = request.claim
    view = view.bounded(claim.terms.retention_ms)
    held = view.effects.get(request.effect_id)
    if held is None or held.approval is None or held.approval.id != request.approval:
        return Step(Late(held))
    unread = view.unread(held)
    if unread:
        return Step(Need(slots=unread))
    if view.now_ms is not None and held.overdue(view.now_ms, claim.terms.hold_ms):
        return expire(view, claim.terms.retention_ms, held)
    if held.approval.decided_by is not None and held.status not in (Status.DENIED, Status.ABSENT):
        if held.status is Status.EXECUTING and held.tokens[-1] == claim.token:
            return Step(Granted(held))
        return Step(Approved(held) if held.approval.decided_by == request.by else Late(held))
    if held.status is not Status.AWAITING_APPROVAL:
        return Step(Late(held))
    if claim.refusal is not None:
        return Step(claim.refusal)
    if outdated(held, claim):
        anew = reopen(view, claim, held, None, because=held.approval.because)
        assert isinstance(anew.decision, Blocked)
        return Step(Reopened(anew.decision.effect), anew.writes)
    own = Occurrence(held.occurrence, held.effect_id)
    try:
        judged = judge_repeat(view, claim, own, held.repeat_of, held)
    except TooManyIds:
        # It would run, and only then be bound to the id that asks, which a grant does not do.
        return _granted(view, request, held)
    match judged.decision:
        case Need() | Again():
            return judged
        case Wait():
            return Step(judged.decision)
        case Blocked():
            return _granted(view, request, held)
        case Granted(effect=effect) if effect.effect_id == held.effect_id:
            return _granted(view, request, held)
    return Step(Denied(PRIOR_UNKNOWN))


def _granted(view: View, request: Grant, held: Effect) -> Step:
    claim = request.claim
    assert held.approval is not None
    approval = msgspec.structs.replace(held.approval, decided_by=request.by)
    granted = Event("approval.granted", held.effect_id, {**named(held), "by": request.by, **request.said})
    if held.submitted:
        unused_ms = stands_ms(claim, approval.timeout_ms, held_ms(view, held))
        approval = msgspec.structs.replace(approval, at=None, timeout_ms=unused_ms)
        waits = moved(held, Move.GRANT, Status.AWAITING_APPROVAL, approval=approval)
        writes = Writes(effects={held.effect_id: waits}, events=(granted,), keep_ms=claim.terms.retention_ms)
        return Step(Approved(waits), writes)
    runs = moved(
        held,
        Move.GRANT,
        Status.EXECUTING,
        tokens=(*held.tokens, claim.token),
        lease_ms=claim.terms.lease_ms,
        claimed_at=None,
        approval=approval,
    )
    used = Event("approval.used", held.effect_id, named(held))
    writes = Writes(
        effects={held.effect_id: runs},
        slots=opened(view, held),
        identical=view.identical.with_known(runs),
        events=(granted, used, *started(claim, runs)),
        keep_ms=claim.terms.retention_ms,
    )
    return Step(Granted(runs), writes)
