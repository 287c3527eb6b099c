"""Bodies and parameters the API takes, and the answers it gives, as models: they check, and they are documented."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gateway.core.identity import MAX_ID_BYTES, check_id
from gateway.core.tool_lists import ToolFormat

MAX_ROWS: Final = 500
"""Of one answer of a listing (9.4)."""

_WHOLE = re.compile(r"[0-9]{1,15}")


def _id(sent: object) -> str:
    return check_id(sent)


def _whole(sent: object) -> int:
    """A parameter is text; Python would also read ` 1_0 ` as ten."""
    if isinstance(sent, str) and _WHOLE.fullmatch(sent):
        return int(sent)
    raise ValueError("must be a whole number")


Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_BYTES), BeforeValidator(_id)]
Whole = Annotated[int, BeforeValidator(_whole)]


class Sent(BaseModel):
    """What a caller sends: exact types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Shown(BaseModel):
    """What a caller is shown; new fields may come with new versions."""

    model_config = ConfigDict(extra="allow")


class NoQuery(Sent):
    pass


class CallsQuery(Sent):
    """Either `conversation` and `tool_call_id`, or `status`."""

    company: Id
    conversation: Id | None = None
    tool_call_id: Id | None = None
    turn: Id | None = None
    step: Annotated[Whole, Field(ge=1)] | None = None
    status: Literal["indeterminate"] | None = None
    cursor: Annotated[str, Field(pattern=r"^[0-9]{1,9}:[0-9a-f]{0,32}$")] | None = None
    limit: Annotated[Whole, Field(ge=1, le=MAX_ROWS)] | None = None


class EventsQuery(Sent):
    company: Id
    conversation: Id | None = None
    after: Annotated[Whole, Field(ge=0)] = 0
    limit: Annotated[Whole, Field(ge=1, le=MAX_ROWS)] = 100


class FeedQuery(Sent):
    company: Id
    since: Annotated[str, Field(max_length=40)] | None = None
    cursor: Annotated[str, Field(pattern=r"^[0-9]{1,15}-[0-9]{1,15}(:[0-9]{1,10})?$")] | None = None
    limit: Annotated[Whole, Field(ge=1, le=MAX_ROWS)] = 100


class SealQuery(Sent):
    company: Id
    conversation: Id | None = None


class ApprovalsQuery(Sent):
    company: Id
    status: Literal["pending"] = "pending"
    cursor: Annotated[str, Field(pattern=r"^[0-9]{1,9}:[0-9a-f]{0,32}$")] | None = None
    limit: Annotated[Whole, Field(ge=1, le=MAX_ROWS)] = 100


class StreamQuery(Sent):
    company: Id
    conversation: Id | None = None
    after: Annotated[Whole, Field(ge=0)] = 0


class ToolsQuery(Sent):
    format: ToolFormat = Field(ToolFormat.ONCEGATE, strict=False)


class EmptyBody(Sent):
    pass


class VerdictShown(Shown):
    side_effecting: bool
    source: str
    reason: str
    verb: str | None


class HintsShown(Shown):
    readOnlyHint: bool | None  # noqa: N815
    destructiveHint: bool | None  # noqa: N815
    idempotentHint: bool | None  # noqa: N815
    httpMethod: str | None  # noqa: N815


class FindingShown(Shown):
    code: str
    rule: str
    severity: Literal["error", "warning", "note"]
    message: str


class ToolShown(Shown):
    company: str
    name: str
    version: int
    description: str
    parameters: dict[str, Any]
    endpoint: str
    side_effecting: bool | None
    idempotency: Literal["at_most_once", "safe_to_retry"] | None
    on_repeat: Literal["hold", "replay", "run"] | None
    timeout_s: float
    status_endpoint: str | None
    unavailable_means_not_executed: bool
    hints: HintsShown
    verdict: VerdictShown
    findings: list[FindingShown]


class ToolList(Shown):
    """Each in the form that was asked for."""

    tools: list[dict[str, Any]]


class CompanyShown(Shown):
    """Settings as they stand, defaults included; `max_steps` `off`: not limited."""

    company: str
    max_steps: int | Literal["off"]
    call_id_scope: Literal["auto", "conversation", "turn", "step"]
    overrides: dict[str, bool]
    heuristic: Literal["words", "platform"]
    repeat_window_s: float
    retention_s: float
    on_finding: Literal["warn", "refuse"]
    runtime_may_resolve: bool
    customer_may_approve: bool
    policy: dict[str, Any] | None
    policy_version: str | None


class SecretShown(Shown):
    """Shown this once."""

    id: str
    secret: str


class SecretId(Shown):
    id: str


class SecretList(Shown):
    """Newest first."""

    secrets: list[SecretId]


class RecordShown(Shown):
    """A stored effect."""

    effect_id: str
    company: str
    conversation: str
    tool_call_id: str | None
    tool: str
    status: str
    result: Any
    error: dict[str, Any] | None


class RecordList(Shown):
    """`cursor`: where a listing goes on; null at its end, and only there: a page may be short, or empty, before."""

    calls: list[RecordShown]
    cursor: str | None = None


class EffectShown(Shown):
    """What a submission came to, or how an effect stands."""

    effect_id: str | None
    status: str | None


class ApprovalShown(Shown):
    """One approval, with the call it is about."""

    id: str
    status: str
    approvers: list[str]
    expires_at: str | None
    company: str
    conversation: str
    effect_id: str
    tool: str


class ApprovalList(Shown):
    """`cursor`: where the listing goes on; null at its end, and only there."""

    approvals: list[ApprovalShown]
    cursor: str | None = None


class VerdictGiven(Shown):
    """What was decided, by whom, and how the effect stands."""

    id: str
    decision: Literal["granted", "denied"]
    effect_id: str
    by: str
    status: str | None


class EventShown(Shown):
    seq: int
    type: str
    at: str | None
    effect_id: str | None


class EventList(Shown):
    """`last`: the number of the log's last event; below `after` where events that were seen are gone."""

    events: list[EventShown]
    last: int


class FedEvent(EventShown):
    conversation: str | None


class FeedShown(Shown):
    """`cursor` goes on behind these events; `more`: at once, since others are there already."""

    events: list[FedEvent]
    cursor: str
    more: bool


class SealShown(Shown):
    """`head`: the hash after event number `sealed`, 64 hex digits; `at`: when that event happened."""

    sealed: int
    head: str | None
    at: str | None


class Health(Shown):
    status: Literal["ok"]


class ProblemKind(Shown):
    """What a problem's `type` points to."""

    type: str
    title: str
    status: int
    code: str
    retryable: bool
    outcome: str
    next: str


class FieldProblem(Shown):
    """`field`: a JSON pointer into the body, "" for the whole of it, or the name of a parameter."""

    field: str
    problem: str


class Problem(Shown):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    outcome: Literal["not_sent", "in_flight", "unknown"]
    message: str
    request_id: str
    retry_after: int | None = None
    fields: list[FieldProblem] = Field(default_factory=list)
    nearest: list[str] = Field(default_factory=list)
