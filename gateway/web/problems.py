"""Errors as RFC 9457 problem documents: one row a class, saying what the caller may do next.

The same rows serve `/problems/{code}` (what a problem's `type` points to), the OpenAPI document and a test that
holds docs/errors.md to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.core import errors as e

LONGEST_WAIT_S: Final = 3_600
PROBLEM_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Row:
    """What the class alone does not say."""

    next: str
    """What the caller may do now."""
    retry_after_s: float | None = None
    """Used where the error names no wait of its own."""
    outcome: str | None = None
    """In place of the class's, where that would claim too much."""


PROBLEMS: Final[Mapping[type[e.GatewayError], Row]] = {
    e.Malformed: Row("Correct what `fields` names and send the request again; nothing was recorded or sent."),
    e.Unauthenticated: Row("Send one `Authorization: Bearer <key>` header with a key that is known here."),
    e.Forbidden: Row("Use a key whose role and companies allow this; the body cannot change what a key may do."),
    e.UnknownTool: Row("Pick a registered tool; the nearest names are in `nearest` and in the message."),
    e.NotFound: Row("Check the path and the names in it."),
    e.MethodNotAllowed: Row("Use one of the methods in the `Allow` header."),
    e.AttemptSuperseded: Row("Stop this attempt: a later one of the same turn has taken over."),
    e.VersionConflict: Row("Read it again and decide anew; someone else changed it meanwhile."),
    e.NotIndeterminate: Row("See in `stands` what is recorded; only an unknown outcome can be resolved."),
    e.ClaimLost: Row("See in `stands` what is recorded; stop working on it unless you claim it anew."),
    e.OutcomeConflict: Row("See in `stands` what is recorded; both are in the event log, and a person has to look."),
    e.ApprovalDecided: Row("See in `stands` what became of it; nothing was changed."),
    e.ApprovalOutdated: Row("Look at the approval in `approval`, which is open in its place, and decide that one."),
    e.GrantRefused: Row("See in `refused` why; decide again once that has changed, or deny it."),
    e.BeyondLog: Row(
        "Read the log anew, from `after=0`: what you have seen is lost, or the log expired and began anew."
    ),
    e.TooLarge: Row("Send less in one request."),
    e.EncodingRefused: Row("Send plain, uncompressed JSON with `Content-Type: application/json`."),
    e.ToolCallIdReused: Row("Give each call its own id, or state the turns and steps in which ids start over."),
    e.InvalidArguments: Row("Correct the arguments as `fields` says; the id is not used up."),
    e.RegistrationRefused: Row("Rename the tool, declare it, or correct what the findings name."),
    e.CallInFlight: Row("Send the same request again after `Retry-After`; it gets the first one's answer.", 1.0),
    e.RateLimited: Row("Send the same request again after `Retry-After`; the id is not used up.", 1.0),
    e.ConversationFull: Row("Go on in a new conversation; this one keeps answering what it has recorded."),
    e.MerchantUnreachable: Row("Send the same request again later; nothing reached the merchant."),
    e.MerchantNotReady: Row("Send the same request again later; the merchant took nothing."),
    e.LedgerUnavailable: Row("Send the same request, ids unchanged, again after `Retry-After`.", 1.0),
    e.Stopping: Row("Ask another gateway, or this one again after its restart.", 1.0),
    e.MerchantReplyInvalid: Row("A read-only call, so nothing was changed: it may be sent again."),
    # The fault may have struck after the merchant was asked: "not sent" would invite a second order.
    e.InternalFault: Row(
        "Report the request id. The same request, ids unchanged, is safe and gives what was recorded; a new id is not.",
        outcome="unknown",
    ),
}


def row_of(kind: type[e.GatewayError]) -> Row:
    """The row of a class, or of the nearest class above it that has one."""
    return next((PROBLEMS[above] for above in kind.__mro__ if above in PROBLEMS), PROBLEMS[e.InternalFault])


def outcome_of(kind: type[e.GatewayError]) -> str:
    """What is known about the call: `not_sent`, `in_flight` or `unknown`."""
    return row_of(kind).outcome or kind.outcome


def problem_type(code: str) -> str:
    """The stable `type` of a problem, relative to the gateway, which answers there with what it means."""
    return f"/problems/{code}"


def wait_s(error: e.GatewayError) -> int | None:
    """Whole seconds for Retry-After, 0 to 3,600; None where waiting is no help or no wait is known."""
    wait = error.retry_after_s if error.retry_after_s is not None else row_of(type(error)).retry_after_s
    if wait is None or not error.retryable or math.isnan(wait):
        return None
    return math.ceil(min(max(wait, 0.0), LONGEST_WAIT_S))


def problem(error: e.GatewayError, request_id: str) -> dict[str, Any]:
    """The problem document; `details` of the error become members of their own, and never replace these."""
    wait = wait_s(error)
    found = {
        "type": problem_type(error.code),
        "title": error.title,
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        "retryable": error.retryable,
        "outcome": outcome_of(type(error)),
        "message": error.message,
        "request_id": request_id,
        **({} if wait is None else {"retry_after": wait}),
    }
    return {**found, **{name: detail for name, detail in error.details.items() if name not in found}}


def problem_bytes(error: e.GatewayError, request_id: str) -> bytes:
    return msgspec.json.encode(problem(error, request_id), enc_hook=lambda foreign: type(foreign).__name__)


def described(kind: type[e.GatewayError]) -> dict[str, Any]:
    """A class of problems, as `/problems/{code}` answers."""
    return {
        "type": problem_type(kind.code),
        "title": kind.title,
        "status": kind.status,
        "code": kind.code,
        "retryable": kind.retryable,
        "outcome": outcome_of(kind),
        "next": row_of(kind).next,
    }
