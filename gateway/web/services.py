"""What the web layer is given: the use cases, what answers the operators' questions, and the bounds."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.core.answer import Answer
from gateway.core.findings import Finding
from gateway.core.model import Company, Principal, SigningSecret, Tool
from gateway.core.policy import Bundle
from gateway.core.ports import Clock, Randomness
from gateway.service.call_request import CallRequest
from gateway.service.decide_approval import Verdict
from gateway.service.declarations import Resolution
from gateway.service.read_feed import FeedPage
from gateway.service.report_effect import Report
from gateway.service.sending import Trace
from gateway.service.submit_effect import Submission
from gateway.web.metrics import Metrics
from gateway.web.stopping import Stopping


class HandlesCalls(Protocol):
    def begin(
        self, principal: Principal, request: CallRequest, trace: Trace, /
    ) -> Answer | Coroutine[Any, Any, Answer]: ...
    async def __call__(self, principal: Principal, request: CallRequest, trace: Trace) -> Answer: ...


class LooksUp(Protocol):
    async def calls(
        self,
        principal: Principal,
        company: str,
        conversation: str,
        tool_call_id: str,
        *,
        turn: str | None = None,
        step: int | None = None,
    ) -> list[dict[str, Any]]: ...
    async def unknown(
        self, principal: Principal, company: str, cursor: str | None, limit: int
    ) -> tuple[list[dict[str, Any]], str | None]: ...
    async def events(
        self, principal: Principal, company: str, conversation: str | None, after: int, limit: int
    ) -> list[dict[str, Any]]: ...
    async def last_event(self, principal: Principal, company: str, conversation: str | None) -> int: ...


class ReadsFeed(Protocol):
    async def page(
        self, principal: Principal, company: str, since_ms: int, cursor: str | None, limit: int
    ) -> FeedPage: ...
    async def seal(self, principal: Principal, company: str, conversation: str | None) -> dict[str, Any]: ...


class ResolvesUnknown(Protocol):
    async def __call__(self, principal: Principal, effect_id: str, said: Resolution, /) -> dict[str, Any]: ...


class SubmitsEffects(Protocol):
    async def __call__(self, principal: Principal, asked: Submission, /) -> dict[str, Any]: ...


class ReportsEffects(Protocol):
    async def complete(self, principal: Principal, effect_id: str, said: Report, /) -> dict[str, Any]: ...
    async def fail(self, principal: Principal, effect_id: str, said: Report, /) -> dict[str, Any]: ...
    async def renew(self, principal: Principal, effect_id: str, said: Report, /) -> dict[str, Any]: ...
    async def release(self, principal: Principal, effect_id: str, said: Report, /) -> dict[str, Any]: ...


class DecidesApprovals(Protocol):
    async def grant(self, principal: Principal, name: str, said: Verdict, trace: Trace, /) -> dict[str, Any]: ...
    async def deny(self, principal: Principal, name: str, said: Verdict, /) -> dict[str, Any]: ...
    async def get(self, principal: Principal, name: str, /) -> dict[str, Any]: ...
    async def pending(
        self, principal: Principal, company: str, cursor: str | None, limit: int, /
    ) -> tuple[list[dict[str, Any]], str | None]: ...


class RegistersTools(Protocol):
    async def put(
        self, principal: Principal, company: str, tool: str, body: Any, /
    ) -> tuple[Tool, Sequence[Finding]]: ...
    async def get(self, principal: Principal, company: str, tool: str, /) -> tuple[Tool, Sequence[Finding]]: ...
    async def tools(self, principal: Principal, company: str, /) -> Sequence[Tool]: ...
    async def remove(self, principal: Principal, company: str, tool: str, /) -> None: ...


class ManagesCompanies(Protocol):
    async def put(self, principal: Principal, company: str, body: Any, /) -> Company: ...
    async def get(self, principal: Principal, company: str, /) -> Company: ...
    async def add_secret(self, principal: Principal, company: str, /) -> SigningSecret: ...
    async def secrets(self, principal: Principal, company: str, /) -> Sequence[str]: ...
    async def retire_secret(self, principal: Principal, company: str, secret_id: str, /) -> None: ...


class KnowsKeys(Protocol):
    """The registry, as far as it says who asks."""

    @property
    def fresh(self) -> bool: ...
    async def refresh(self) -> None: ...
    def principal(self, key: str, /) -> Principal | None: ...


class CanBeReady(Protocol):
    """The ledger, asked by `/readyz`."""

    async def ready(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request (9.4)."""

    body_bytes: int = 4 * 1024 * 1024
    batch_body_bytes: int = 16 * 1024 * 1024
    batch_calls: int = 128
    batch_at_once: int = 16
    body_s: float = 30.0
    """How long a body may take to arrive."""
    streams: int = 32
    """Event streams of one company at a time, at this gateway."""
    ready_s: float = 1.0
    """How long `/readyz` waits for the ledger."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything behind the API."""

    handle_call: HandlesCalls
    look_up: LooksUp
    feed: ReadsFeed
    resolve_unknown: ResolvesUnknown
    submit_effect: SubmitsEffects
    report_effect: ReportsEffects
    decide_approval: DecidesApprovals
    register_tool: RegistersTools
    manage_company: ManagesCompanies
    registry: KnowsKeys
    ledger: CanBeReady
    metrics: Metrics
    stopping: Stopping
    clock: Clock
    randomness: Randomness
    policy_of: Callable[[str], Bundle | None] = lambda _: None
    """A company's own policy."""
    limits: Limits = field(default_factory=Limits)
