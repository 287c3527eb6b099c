"""What may be asked of effects and approvals: rows of the API's table."""

from __future__ import annotations

from gateway.core import errors as e
from gateway.service.declarations import ResolutionBody
from gateway.web import models as m
from gateway.web.approvals import VERDICT_SCHEMA, Approvals, read_verdict
from gateway.web.call_fields import CALL_DEPTH
from gateway.web.calls import Calls
from gateway.web.effect_fields import (
    COMPLETE_SCHEMA,
    FAIL_SCHEMA,
    HOLDER_SCHEMA,
    SUBMIT_SCHEMA,
    read_complete,
    read_fail,
    read_holder,
    read_submission,
)
from gateway.web.effects import Effects, read_resolve
from gateway.web.operations import DOCUMENT_DEPTH, Answered, Body, Operation
from gateway.web.services import Services


def effect_operations(services: Services) -> tuple[Operation, ...]:
    """`/v1/effects` and what is reported on one (7.2, 5.5)."""
    effects, limit = Effects(services), services.limits.body_bytes
    path = "/v1/effects/{effect_id}"
    told = {200: Answered("How the effect now stands.", m.EffectShown)}
    return (
        Operation(
            "POST",
            "/v1/effects",
            "submitEffect",
            "Ask whether an effect that the caller runs itself may run, or what it came to before.",
            effects.submit,
            {200: Answered("`proceed`, or what stands instead.", m.EffectShown)},
            body=Body(SUBMIT_SCHEMA, read_submission, CALL_DEPTH, limit),
            problems=(e.AttemptSuperseded, e.ToolCallIdReused, e.CallInFlight, e.ConversationFull),
        ),
        Operation(
            "POST",
            path + "/complete",
            "completeEffect",
            "Say what an effect gave.",
            effects.complete,
            told,
            body=Body(COMPLETE_SCHEMA, read_complete, DOCUMENT_DEPTH + 1, limit),
            problems=(e.ClaimLost, e.OutcomeConflict),
        ),
        Operation(
            "POST",
            path + "/fail",
            "failEffect",
            "Say that an effect was tried and not done.",
            effects.fail,
            told,
            body=Body(FAIL_SCHEMA, read_fail, DOCUMENT_DEPTH, limit),
            problems=(e.ClaimLost, e.OutcomeConflict),
        ),
        Operation(
            "POST",
            path + "/renew",
            "renewEffect",
            "Say that an effect is still being run: its lease counts anew.",
            effects.renew,
            told,
            body=Body(HOLDER_SCHEMA, read_holder, DOCUMENT_DEPTH, limit),
            problems=(e.ClaimLost,),
        ),
        Operation(
            "POST",
            path + "/release",
            "releaseEffect",
            "Give an effect back that was not run.",
            effects.release,
            told,
            body=Body(HOLDER_SCHEMA, read_holder, DOCUMENT_DEPTH, limit),
            problems=(e.ClaimLost,),
        ),
        Operation(
            "POST",
            "/v1/effects/{effect_id}/resolve",
            "resolveEffect",
            "Say how an unknown outcome ended.",
            effects.resolve,
            {200: Answered("The record as it now stands; `absent` where its id is free again.", m.RecordShown)},
            body=Body(ResolutionBody, read_resolve, DOCUMENT_DEPTH + 1, limit),
            problems=(e.NotIndeterminate,),
        ),
    )


def approval_operations(services: Services, calls: Calls) -> tuple[Operation, ...]:
    """`/v1/approvals` (7.4)."""
    approvals, limit = Approvals(services, calls), services.limits.body_bytes
    path = "/v1/approvals/{approval}"
    decided = (e.ApprovalDecided, e.ApprovalOutdated)
    return (
        Operation(
            "GET",
            "/v1/approvals",
            "listApprovals",
            "A page of a company's open approvals.",
            approvals.pending,
            {200: Answered("The approvals, each with its call.", m.ApprovalList)},
            query=m.ApprovalsQuery,
        ),
        Operation(
            "GET",
            path,
            "getApproval",
            "One approval.",
            approvals.get,
            {200: Answered("The approval, with its call.", m.ApprovalShown)},
            problems=(e.ApprovalOutdated,),
        ),
        Operation(
            "POST",
            path + "/grant",
            "grantApproval",
            "Approve: the stored call is run, once, and its outcome answered.",
            approvals.grant,
            {200: Answered("What it came to.", m.VerdictGiven)},
            body=Body(VERDICT_SCHEMA, read_verdict, DOCUMENT_DEPTH, limit, optional=True),
            problems=(*decided, e.GrantRefused, e.CallInFlight, e.MerchantUnreachable, e.MerchantNotReady),
        ),
        Operation(
            "POST",
            path + "/deny",
            "denyApproval",
            "Refuse: it is not done, and its ids are told so from now on.",
            approvals.deny,
            {200: Answered("It is denied.", m.VerdictGiven)},
            body=Body(VERDICT_SCHEMA, read_verdict, DOCUMENT_DEPTH, limit, optional=True),
            problems=decided,
        ),
    )
