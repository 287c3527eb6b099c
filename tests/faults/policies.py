"""What may be done without asking, with an approval, or not at all: the bundles that a history goes through (7.3)."""

from __future__ import annotations

from typing import Any, Final

from gateway.core.policy import Action, Bundle, Ruling
from gateway.core.policy_bundle import read_bundle
from tests.faults.limits import HELD, LIMITS, PLATFORM, WITH_PLATFORM, Limit
from tests.faults.plan import COMPANY

HOLD_S: Final = 300
SHORT_S: Final = 20
ORDERS: Final = ("place_order", "book_table", "add_to_cart", "gpt", "cart_total")
"""Targets that rules are about: tools of all modes, a model and a local value."""


def _bundle(
    decision: str,
    approvers: tuple[str, ...] = (),
    timeout_s: int = HOLD_S,
    limit: Limit | None = None,
    company: str | None = COMPANY,
) -> Bundle:
    then: dict[str, Any] = {"decision": decision} | ({} if limit is None else {"rate_limit": limit.as_rule()})
    if decision == Action.REQUIRE_APPROVAL:
        then |= {"approvers": list(approvers), "timeout_s": timeout_s}
    rules = [
        {
            "id": f"{limit.name if limit is not None else decision}-{target}",
            "priority": place,
            "when": {"target": target},
            "then": then,
        }
        for place, target in enumerate(ORDERS, 1)
    ]
    return read_bundle({"default_action": "allow", "rules": rules}, company)


POLICIES: Final[dict[str, Bundle | None]] = {
    "": None,
    "allow": _bundle("allow"),
    "operators approve": _bundle("require_approval", ("operator",)),
    "the boss approves, soon": _bundle("require_approval", ("boss", "customer"), SHORT_S),
    "deny": _bundle("deny"),
    **{name: _bundle("allow", limit=limit) for name, limit in LIMITS.items() if name != HELD},
    HELD: _bundle("require_approval", ("operator",), limit=LIMITS[HELD]),
}
"""Name -> bundle; nothing: there is no policy."""
APPROVES: Final = tuple(name for name, bundle in POLICIES.items() if bundle is not None and "approve" in name)
_PLATFORM: Final = _bundle("allow", limit=PLATFORM, company=None)


class Phases:
    """Which policy stands, and which ones stood before."""

    def __init__(self, first: str) -> None:
        self.phases: list[tuple[float, str]] = [(0.0, first)]

    def change(self, now: float, name: str) -> None:
        self.phases.append((now, name))

    @property
    def bundle(self) -> Bundle | None:
        return POLICIES[self.phases[-1][1]]

    @property
    def platform(self) -> Bundle | None:
        return _PLATFORM if self.phases[-1][1] == WITH_PLATFORM else None

    def says(self, target: str, name: str) -> Action:
        bundle = POLICIES[name]
        if bundle is None:
            return Action.ALLOW
        ruling: Ruling = next((r.ruling for r in bundle.rules if r.id.endswith(f"-{target}")), bundle.default)
        return ruling.action

    def ever_says(self, target: str, action: Action) -> bool:
        """Whether any policy so far has said so."""
        return any(self.says(target, name) is action for _, name in self.phases)

    def since(self, then: float, target: str) -> set[Action]:
        """Everything that policies have said of a target from that moment on."""
        return {self.says(target, name) for name in self.names_since(then)}

    def names_since(self, then: float) -> list[str]:
        names = [name for at, name in self.phases if at > then]
        stood = [name for at, name in self.phases if at <= then]
        return [*stood[-1:], *names]

    def limits(self, name: str, target: str) -> tuple[Limit, ...]:
        """What a policy counts of a target: the platform's rule and the company's own."""
        if name not in LIMITS or target not in ORDERS:
            return ()
        return (PLATFORM, LIMITS[name]) if name == WITH_PLATFORM else (LIMITS[name],)
