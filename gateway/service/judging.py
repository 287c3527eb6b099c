"""What a request gets should it be new: refusals first, then what policy says (promises 4.10, 7.1, 7.3)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from gateway.core import decisions as d
from gateway.core.granting import said_of
from gateway.core.identity import Arguments, Kind
from gateway.core.model import Company, Role, Tool
from gateway.core.policy import Action, PolicyCall, Ruling, decide_both
from gateway.core.policy_limits import RateLimit
from gateway.core.record import Fault
from gateway.core.registration import Declared, verdict_on
from gateway.core.requests import Asks, Ruled
from gateway.service import refusing
from gateway.service.registry import Registry
from gateway.service.schemas import ArgumentCheck

POLICY_DENIED: Final = "policy_denied"


class Judged(msgspec.Struct, frozen=True):
    """`refusal` is said of a new call only: a recorded one replays (4.10). `asks`, `ruled`: as in a claim."""

    refusal: d.Denied | d.Refused | None = None
    asks: Asks | None = None
    ruled: Ruled | None = None
    limits: tuple[RateLimit, ...] = ()


NOTHING_AGAINST: Final = Judged()


class Judging:
    """Asks the registry only: nothing here waits."""

    def __init__(
        self, registry: Registry, schemas: ArgumentCheck, platform_overrides: Mapping[str, bool] = MappingProxyType({})
    ) -> None:
        self._registry = registry
        self._platform_overrides = platform_overrides
        self._schemas = schemas

    def call(
        self, company: Company, tool: Tool | None, name: str, arguments: Arguments, step: int | None, role: Role
    ) -> Judged:
        """Of a call that the gateway runs."""
        if tool is None:
            near = self._registry.nearest_tools(company.name, name)
            return Judged(refusing.unknown_tool(company.name, name, near))
        if not self._registry.secrets(company.name):
            return Judged(refusing.no_secret(company.name))
        problems = self._schemas.problems(tool, arguments.plain)
        if problems:
            return Judged(refusing.invalid_arguments(problems))
        return self.effect(company, Kind.TOOL_CALL, name, arguments, tool.verdict.side_effecting, step, role)

    def side_effecting(self, company: Company, kind: Kind, target: str) -> bool | None:
        """Of a submitted effect: the tool's verdict or, where none is registered, what its name would get (3.1 to 3.3).
        None for what is no tool."""
        if kind is not Kind.TOOL_CALL:
            return None
        tool = self._registry.tool(company.name, target)
        if tool is not None:
            return tool.verdict.side_effecting
        names = [each.name for each in self._registry.tools(company.name)]
        return verdict_on(target, Declared(endpoint=""), company, names, self._platform_overrides).side_effecting

    def effect(
        self,
        company: Company,
        kind: Kind,
        target: str,
        arguments: Arguments,
        side_effecting: bool | None,
        step: int | None,
        role: Role,
    ) -> Judged:
        """The step limit, which is of tool calls (7.1), and policy."""
        steps = company.max_steps
        if kind is Kind.TOOL_CALL and steps is not None and step is not None and step > steps:
            fault = Fault("step_limit", f"Not done: a turn has at most {steps} steps. Answer the customer now.")
            return Judged(d.Denied(fault))
        platform, own = self._registry.platform_policy, self._registry.policy(company.name)
        if platform is None and own is None:
            return NOTHING_AGAINST
        call = PolicyCall(kind, target, company.name, arguments.value, side_effecting, step, role)
        return _judged(decide_both(platform, own, call))


def _judged(ruling: Ruling) -> Judged:
    ruled = Ruled(ruling.bundle, ruling.rule_id)
    if ruling.action is Action.DENY:
        said = said_of(ruled)
        if ruling.reason is not None:
            said["reason"] = ruling.reason
        why = ruling.reason or "the rules of this shop do not allow it"
        return Judged(d.Denied(Fault(POLICY_DENIED, f"Not done: {_sentence(why)}"), said=said), ruled=ruled)
    asks = None
    if ruling.action is Action.REQUIRE_APPROVAL and ruling.approval is not None:
        approval = ruling.approval
        asks = Asks(approval.approvers, approval.timeout_s * 1000, approval.message)
    return Judged(None, asks, ruled, ruling.limits)


def _sentence(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else words + "."
