"""Which calls may be made: ordered rules, first match wins (7.3). Pure.

Two gates stand in a row, the platform's and the company's own, and the stricter answer holds: a company can add to
what the platform demands, and neither undoes the other's. Within one bundle the rule with the lowest priority number
is asked first.

Fail closed: a condition on an argument that is there, but cannot be compared, counts as met where the rule denies or
asks, and as not met where it allows. The rate limit of an `allow` passed over so is counted all the same,
unless the call is denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from gateway.core.identity import Kind
from gateway.core.model import Principal, Role
from gateway.core.policy_conditions import Answer, ArgumentCondition
from gateway.core.policy_limits import RateLimit
from gateway.core.policy_targets import Targets
from gateway.core.policy_values import Interval
from gateway.core.strict_json import Json

CUSTOMER: Final = "customer"
"""The customer as approver (7.4); who that is, the company's runtime says."""
APPROVER_ROLES: Final = (Role.OPERATOR.value, Role.MERCHANT.value, CUSTOMER)
"""Approvers that are roles; any other approver is a principal's name."""
_REMEMBERED: Final = 4_096


class Action(StrEnum):
    """What a rule, or a bundle's default, says."""

    ALLOW = "allow"
    REQUIRE_APPROVAL = "require_approval"
    DENY = "deny"


_STRICTNESS: Final = {Action.ALLOW: 0, Action.REQUIRE_APPROVAL: 1, Action.DENY: 2}


class PolicyCall(msgspec.Struct, frozen=True):
    """What is asked for. `target`: tool or model."""

    kind: Kind
    target: str
    company: str
    arguments: dict[str, Json]
    """As `strict_json` reads them: exact."""
    side_effecting: bool | None = None
    """Of a tool call; None where there is no verdict, which no condition on it meets."""
    step: int | None = None
    role: Role | None = None
    """Of the caller's key."""


class Approval(msgspec.Struct, frozen=True):
    """Who may grant, within how many seconds, and what they are told (7.4)."""

    approvers: tuple[str, ...]
    timeout_s: int
    message: str | None = None


class Ruling(msgspec.Struct, frozen=True):
    """What policy says about one call."""

    action: Action
    bundle: str
    """Version of the bundle that decided; empty: there is none."""
    rule_id: str | None = None
    """None: no rule matched, and the default decided."""
    owner: str = ""
    """The company whose bundle decided; empty: the platform's."""
    reason: str | None = None
    approval: Approval | None = None
    limits: tuple[RateLimit, ...] = ()
    """All of them count, and each must leave room."""
    not_comparable: tuple[str, ...] = ()
    """JSON Pointers of arguments that could not be compared and met the rule so."""


@dataclass(frozen=True, slots=True)
class When:
    """What a rule is about; all that is stated must hold."""

    targets: Targets | None = None
    kinds: frozenset[str] | None = None
    companies: frozenset[str] | None = None
    roles: frozenset[str] | None = None
    side_effecting: bool | None = None
    step: Interval | None = None
    arguments: tuple[ArgumentCondition, ...] = ()

    def about(self, call: PolicyCall) -> bool:
        """Whether it is about such calls: everything but step and arguments, which differ from call to call."""
        return (
            (self.targets is None or self.targets.fit(call.target))
            and (self.kinds is None or call.kind in self.kinds)
            and (self.companies is None or call.company in self.companies)
            and (self.roles is None or call.role in self.roles)
            and (self.side_effecting is None or call.side_effecting is self.side_effecting)
        )

    def met_by(self, call: PolicyCall) -> Answer:
        """The rest of it: a no decides, else what cannot be compared does."""
        if self.step is not None and (call.step is None or not self.step.holds(call.step)):
            return False
        said: Answer = True
        for condition in self.arguments:
            answer = condition.answer(call.arguments)
            if answer is False:
                return False
            if answer is None:
                said = None
        return said

    @property
    def settled(self) -> bool:
        """Nothing is left to ask once it is about a call."""
        return self.step is None and not self.arguments


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, and what it says when it matches."""

    id: str
    priority: int
    place: int
    """Where it stands in the document, from 0."""
    when: When
    ruling: Ruling

    @property
    def guards(self) -> bool:
        return self.ruling.action is not Action.ALLOW


_Known: TypeAlias = dict[tuple[object, ...], tuple[Rule, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Rules in the order they are asked, read strictly by `policy_bundle`."""

    version: str
    """The first 16 hex digits of the SHA-256 of its canonical JSON."""
    default: Ruling
    rules: tuple[Rule, ...]
    document: Mapping[str, Any] = field(repr=False)
    """As it was written, with exact numbers."""
    owner: str = ""
    companies: frozenset[str] = frozenset()
    """Those that a rule names; all others are alike to it."""
    _about: _Known = field(default_factory=dict, repr=False)

    def about(self, call: PolicyCall) -> tuple[Rule, ...]:
        """The rules that are about such calls, in order, up to one that all of them meet. Remembered, since a
        platform has few tools and many calls."""
        company = call.company if call.company in self.companies else None
        key = (call.kind, call.target, company, call.side_effecting, call.role)
        known = self._about.get(key)
        if known is None:
            if len(self._about) >= _REMEMBERED:  # names that someone makes up must not fill the memory
                self._about.clear()
            known = self._about[key] = self._find(call)
        return known

    def _find(self, call: PolicyCall) -> tuple[Rule, ...]:
        found: list[Rule] = []
        for rule in self.rules:
            if rule.when.about(call):
                found.append(rule)
                if rule.when.settled:
                    break
        return tuple(found)


NO_POLICY: Final = Ruling(Action.ALLOW, "")
"""Where neither platform nor company has a bundle."""


def decide(bundle: Bundle, call: PolicyCall) -> Ruling:
    """What one bundle says."""
    passed: tuple[RateLimit, ...] = ()
    for rule in bundle.about(call):
        answer = rule.when.met_by(call)
        if answer:
            return _with(rule.ruling, passed) if passed else rule.ruling
        if answer is None:
            if rule.guards:
                return _unclear(rule, call, passed)
            passed += rule.ruling.limits
    if call.kind is Kind.LOCAL and bundle.default.action is not Action.ALLOW:
        return _with(msgspec.structs.replace(bundle.default, action=Action.ALLOW, reason=None), passed)
    return _with(bundle.default, passed) if passed else bundle.default


def decide_both(platform: Bundle | None, company: Bundle | None, call: PolicyCall) -> Ruling:
    """The stricter of two answers; of two equally strict, one by a rule, and the platform's before the company's.
    The limits of both count."""
    if platform is None or company is None:
        only = platform or company
        return NO_POLICY if only is None else decide(only, call)
    first, second = decide(platform, call), decide(company, call)
    if _rank(second) > _rank(first):
        first, second = second, first
    if first.action is Action.DENY or not second.limits:
        return first
    return _with(first, second.limits)


def may_approve(approvers: tuple[str, ...], principal: Principal) -> bool:
    """Whether a rule names this principal, by its role or its name (7.4). A name never stands for a role, nor a role
    for a name: a key called "operator" is not an operator's."""
    return any(
        principal.role == approver if approver in APPROVER_ROLES else principal.name == approver
        for approver in approvers
    )


def _rank(ruling: Ruling) -> tuple[int, bool]:
    return _STRICTNESS[ruling.action], ruling.rule_id is not None


def _with(ruling: Ruling, limits: tuple[RateLimit, ...]) -> Ruling:
    if ruling.action is Action.DENY:  # nothing will run that could use up a limit
        return ruling
    return msgspec.structs.replace(ruling, limits=ruling.limits + limits)


def _unclear(rule: Rule, call: PolicyCall, passed: tuple[RateLimit, ...]) -> Ruling:
    unclear = tuple(
        condition.wanted.at.text for condition in rule.when.arguments if condition.answer(call.arguments) is None
    )
    return _with(msgspec.structs.replace(rule.ruling, not_comparable=unclear), passed)
