"""The company, its tools and the registry that every gateway reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.core.model import Company, Principal, Role, SigningSecret, Tool
from gateway.core.policy import Bundle
from gateway.core.record import Mode
from gateway.core.requests import OnRepeat
from heuristics import classify
from tests.faults.plan import COMPANY
from tests.faults.policies import Phases

TIMEOUT_S: Final = 2.0
LEASE_MARGIN_S: Final = 1.0
WAIT_MARGIN_S: Final = 1.0
LEASE_MS: Final = int((TIMEOUT_S + LEASE_MARGIN_S) * 1000)
WINDOW_S: Final = 60.0
RETENTION_S: Final = 86_400.0


SHOP: Final = f"https://{COMPANY}.example/tools"
ELSEWHERE: Final = f"https://{COMPANY}.example/new-shop"
"""Another shop of the company's, which knows nothing of the first one's calls."""
STATUS: Final = "/status"


def _tool(name: str, **fields: Any) -> Tool:
    return Tool(COMPANY, name, 1, SHOP, classify(name), timeout_s=TIMEOUT_S, **fields)


TOOLS: Final = (
    _tool("place_order"),
    _tool("add_to_cart", on_repeat=OnRepeat.RUN),
    _tool("pay_bill", on_repeat=OnRepeat.REPLAY),
    _tool("book_table", idempotency=Mode.SAFE_TO_RETRY),
    _tool("book_ticket", idempotency=Mode.SAFE_TO_RETRY, on_repeat=OnRepeat.REPLAY),
    _tool("cancel_order", unavailable_means_not_executed=True),
)
BY_NAME: Final = {tool.name: tool for tool in TOOLS}
RETRIES: Final = tuple(tool for tool in TOOLS if tool.mode is Mode.SAFE_TO_RETRY)
AT_MOST_ONCE: Final = tuple(tool for tool in TOOLS if tool.mode is Mode.AT_MOST_ONCE)
HOLDS: Final = tuple(tool for tool in TOOLS if tool.on_repeat is not OnRepeat.RUN)
RUNS: Final = tuple(tool for tool in TOOLS if tool.on_repeat is OnRepeat.RUN)
DECLARES_UNAVAILABLE: Final = tuple(tool for tool in TOOLS if tool.unavailable_means_not_executed)
HONOURS_KEYS: Final = frozenset(tool.name for tool in RETRIES)
_COMPANY: Final = Company(
    COMPANY, max_steps=None, repeat_window_s=WINDOW_S, retention_s=RETENTION_S, customer_may_approve=True
)
RUNTIME: Final = Principal("assistant", Role.RUNTIME, frozenset({COMPANY}), "k1")
SUBMITTED_LEASE_S: Final = LEASE_MS / 1000
_SECRETS: Final = [SigningSecret("s1", "whsec_" + "c2VjcmV0" * 4)]


class Shelf:
    """A registry that holds one company; `status`: whether its tools have a status endpoint (5.4)."""

    def __init__(self, *, status: bool, policy: str = "") -> None:
        self._status = status
        self.phases = Phases(policy)
        self.moved = False
        """Whether every tool has been registered anew, at another shop."""

    async def refresh(self) -> None:
        return None

    def company(self, name: str) -> Company:
        return _COMPANY

    def tool(self, company: str, name: str) -> Tool | None:
        tool, shop = BY_NAME.get(name), ELSEWHERE if self.moved else SHOP
        if tool is None or not (self.moved or self._status):
            return tool
        return replace(
            tool, version=1 + self.moved, endpoint=shop, status_endpoint=shop + STATUS if self._status else None
        )

    @property
    def platform_policy(self) -> Bundle | None:
        return self.phases.platform

    def policy(self, company: str) -> Bundle | None:
        return self.phases.bundle

    def tools(self, company: str) -> list[Tool]:
        return list(BY_NAME.values())

    def secrets(self, company: str) -> list[SigningSecret]:
        return _SECRETS

    def nearest_tools(self, company: str, name: str) -> list[str]:
        return []


class AnyArguments:
    """Arguments are not what is tested here."""

    def problems(self, tool: Tool, value: Mapping[str, Any]) -> list[dict[str, str]]:
        return []


def sign(secrets: Sequence[str], message_id: str, timestamp_s: int, body: bytes) -> list[tuple[str, str]]:
    """The signature is the adapter's; only the id matters here."""
    return [("webhook-id", message_id)]
