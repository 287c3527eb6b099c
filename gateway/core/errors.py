"""What goes wrong, grouped by what the caller may do next (RFC 9457 problems, section 8).

GatewayError (code, status, retryable, outcome)
├─ CallerError          change the request; nothing was sent
│  ├─ Malformed             400  malformed
│  ├─ Unauthenticated       401  unauthenticated
│  ├─ Forbidden             403  forbidden
│  ├─ UnknownTool           404  unknown_tool
│  ├─ NotFound              404  not_found
│  ├─ MethodNotAllowed      405  method_not_allowed
│  ├─ AttemptSuperseded     409  attempt_superseded
│  ├─ VersionConflict       409  version_conflict
│  ├─ NotIndeterminate      409  not_indeterminate
│  ├─ ClaimLost             409  claim_lost
│  ├─ OutcomeConflict       409  outcome_conflict
│  ├─ ApprovalDecided       409  approval_decided
│  ├─ ApprovalOutdated      409  approval_outdated
│  ├─ GrantRefused          409  grant_refused
│  ├─ BeyondLog             409  beyond_log
│  ├─ TooLarge              413  too_large
│  ├─ EncodingRefused       415  encoding_refused
│  ├─ ToolCallIdReused      422  tool_call_id_reused
│  ├─ InvalidArguments      422  invalid_arguments
│  └─ RegistrationRefused   422  registration_refused
├─ TryAgain             same request, later; nothing new was sent
│  ├─ CallInFlight          409  call_in_flight
│  ├─ RateLimited           429  rate_limited
│  ├─ ConversationFull      429  conversation_full
│  ├─ MerchantUnreachable   502  merchant_unreachable
│  ├─ MerchantNotReady      502  merchant_not_ready
│  ├─ LedgerUnavailable     503  ledger_unavailable
│  └─ Stopping              503  stopping
├─ MerchantError        a read-only call was answered outside the contract
│  └─ MerchantReplyInvalid  502  merchant_reply_invalid
├─ InternalFault        500  internal: a fault of ours, logged under the request id
└─ ConfigError          start-up only; never on the wire
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class GatewayError(Exception):
    """Base of what this gateway raises. `details` goes into the problem document; it holds no values of calls."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    outcome: ClassVar[str] = "not_sent"
    title: ClassVar[str] = "Something went wrong"

    def __init__(
        self, message: str = "", *, retry_after_s: float | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message or self.title)
        self.message = message or self.title
        self.retry_after_s = retry_after_s
        self.details = dict(details or {})


class CallerError(GatewayError):
    """Change the request; nothing was sent."""

    status = 400


class Malformed(CallerError):
    code, title = "malformed", "The request is malformed"


class Unauthenticated(CallerError):
    code, status, title = "unauthenticated", 401, "A valid key is needed"


class Forbidden(CallerError):
    code, status, title = "forbidden", 403, "This key may not do that"


class UnknownTool(CallerError):
    code, status, title = "unknown_tool", 404, "The company has no such tool"


class NotFound(CallerError):
    code, status, title = "not_found", 404, "There is nothing here"


class MethodNotAllowed(CallerError):
    code, status, title = "method_not_allowed", 405, "This path does not answer that method"


class AttemptSuperseded(CallerError):
    code, status, title = "attempt_superseded", 409, "A later attempt of this turn has been seen"


class VersionConflict(CallerError):
    code, status, title = "version_conflict", 409, "It was changed by someone else meanwhile"


class NotIndeterminate(CallerError):
    code, status, title = "not_indeterminate", 409, "The outcome of this call is not unknown"


class ClaimLost(CallerError):
    code, status, title = "claim_lost", 409, "This token no longer holds the effect"


class OutcomeConflict(CallerError):
    code, status, title = "outcome_conflict", 409, "Another outcome is recorded"


class ApprovalDecided(CallerError):
    code, status, title = "approval_decided", 409, "The approval is no longer open"


class ApprovalOutdated(CallerError):
    code, status, title = "approval_outdated", 409, "What was to be approved has changed"


class GrantRefused(CallerError):
    code, status, title = "grant_refused", 409, "It may not be done now, and the approval stays open"


class BeyondLog(CallerError):
    code, status, title = "beyond_log", 409, "The log has fewer events than that"


class TooLarge(CallerError):
    code, status, title = "too_large", 413, "The request is too large"


class EncodingRefused(CallerError):
    code, status, title = "encoding_refused", 415, "The body must be plain JSON, not compressed"


class ToolCallIdReused(CallerError):
    code, status, title = "tool_call_id_reused", 422, "This tool_call_id was given to another call"


class InvalidArguments(CallerError):
    code, status, title = "invalid_arguments", 422, "The arguments do not fit the tool's parameters"


class RegistrationRefused(CallerError):
    code, status, title = "registration_refused", 422, "The tool cannot be registered as it is"


class TryAgain(GatewayError):
    """The same request may be sent again, later; nothing new was sent."""

    status = 503
    retryable = True


class CallInFlight(TryAgain):
    code, status, outcome = "call_in_flight", 409, "in_flight"
    title = "The same call is still running"


class RateLimited(TryAgain):
    code, status, title = "rate_limited", 429, "Too many calls for now"


class ConversationFull(TryAgain):
    code, status, retryable = "conversation_full", 429, False
    title = "The conversation has as many live effects as it may"


class MerchantUnreachable(TryAgain):
    code, status, title = "merchant_unreachable", 502, "The merchant could not be reached; nothing was sent"


class MerchantNotReady(TryAgain):
    code, status, title = "merchant_not_ready", 502, "The merchant did not take the call; nothing was done"


class LedgerUnavailable(TryAgain):
    """The ledger did not do, or did not say that it did, what was asked; `may_have_run` says which."""

    code, status, title = "ledger_unavailable", 503, "The ledger cannot be reached; nothing was sent"

    def __init__(self, message: str = "", *, may_have_run: bool = False, retry_after_s: float | None = 1.0) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.may_have_run = may_have_run


class Stopping(TryAgain):
    code, status, title = "stopping", 503, "This gateway is stopping; another will answer"


class MerchantError(GatewayError):
    """A read-only call was answered outside the contract; nothing was changed."""

    status = 502


class MerchantReplyInvalid(MerchantError):
    code, retryable = "merchant_reply_invalid", True
    title = "The merchant's answer cannot be used"


class InternalFault(GatewayError):
    code, status, outcome = "internal", 500, "unknown"
    title = "A fault in the gateway; it was logged under this request's id"


class ConfigError(GatewayError):
    """Start-up only: every problem found in the configuration, one a line."""

    code = "config"

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
