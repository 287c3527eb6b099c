"""Who takes part: companies, their tools, and the keys that may speak for them. Frozen, free of I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from gateway.core.identity import Scope
from gateway.core.record import Mode
from gateway.core.requests import OnRepeat
from heuristics import Hints, Verdict


@dataclass(frozen=True, slots=True)
class Company:
    """One merchant on the platform, the tenant, and what it may set (api.md). Times in seconds."""

    name: str
    max_steps: int | None = 6
    """Steps a turn may have (7.1); None: not limited."""
    call_id_scope: Scope = Scope.AUTO
    overrides: Mapping[str, bool] = field(default_factory=dict)
    """Exact tool name or glob -> side-effecting (3.3)."""
    heuristic: Literal["words", "platform"] = "words"
    repeat_window_s: float = 60.0
    retention_s: float = 30 * 86_400.0
    on_finding: Literal["warn", "refuse"] = "warn"
    runtime_may_resolve: bool = False
    """Whether a runtime's key may say how an unknown outcome ended, naming its evidence (5.5)."""
    customer_may_approve: bool = False
    """Whether a held repeat may be approved by the customer, as the runtime tells it (7.4)."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A registered tool as stored: what the merchant declared, and the verdict that was given for it."""

    company: str
    name: str
    version: int
    endpoint: str
    verdict: Verdict
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    """JSON Schema 2020-12 of the arguments."""
    side_effecting: bool | None = None
    """The merchant's own declaration (3.3), None: left to the heuristic."""
    idempotency: Mode | None = None
    """As declared; None: the default of 4.6."""
    on_repeat: OnRepeat | None = None
    timeout_s: float = 10.0
    status_endpoint: str | None = None
    """What knows what became of a call whose outcome is not known (5.4)."""
    unavailable_means_not_executed: bool = False
    hints: Hints = field(default_factory=Hints)
    protected_until_ms: int | None = None
    """Set where the tool was ever side-effecting: a call of it is looked up in the ledger first, however long ago
    (3.6). Its value, wall clock, is when settled records from that time end."""

    @property
    def mode(self) -> Mode:
        """`at_most_once` for side-effecting tools unless the merchant declared otherwise (4.6)."""
        if self.idempotency is not None:
            return self.idempotency
        return Mode.AT_MOST_ONCE if self.verdict.side_effecting else Mode.SAFE_TO_RETRY


class Role(StrEnum):
    """What a key may do (api.md)."""

    RUNTIME = "runtime"
    MERCHANT = "merchant"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request comes from, as its key says; nothing in a body changes it (9.1)."""

    name: str
    role: Role
    companies: frozenset[str]
    """Names, or `*` for all."""
    key_id: str

    def may_see(self, company: str) -> bool:
        return "*" in self.companies or company in self.companies


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """One of a company's signing secrets; the value is shown once and signs every request meanwhile."""

    id: str
    value: str = field(repr=False)
