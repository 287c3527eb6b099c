"""What may be done without asking, with an approval, or not at all: the bundles that a history goes through (7.3)."""

from __future__ import annotations

from typing import Any, Final

from gateway.core.policy import Action, Bundle, Ruling
from gateway.core.policy_bundle import read_bundle
from tests.faults.plan import COMPANY

HOLD_S: Final = 300
SHORT_S: Final = 20
ORDERS: Final = ("place_order", "book_table", "add_to_cart", "gpt", "cart_total")
"""Targets that rules are about: tools of all modes, a model and a local value."""


def _bundle(decision: str, approvers: tuple[str, ...] = (), timeout_s: int = HOLD_S) -> Bundle:
    then: dict[str, Any] = {"decision": decision}
    if decision == Action.REQUIRE_APPROVAL:
        then |= {"approvers": list(approvers), "timeout_s": timeout_s}
    rules = [
        {"id": f"{decision}-{target}", "priority": place, "when": {"target": target}, "then": then}
        for place, target in enumerate(ORDERS, 1)
    ]
    return read_bundle({"default_action": "allow", "rules": rules}, COMPANY)


POLICIES: Final[dict[str, Bundle | None]] = {
    "": None,
    "allow": _bundle("allow"),
    "operators approve": _bundle("require_approval", ("operator",)),
    "the boss approves, soon": _bundle("require_approval", ("boss", "customer"), SHORT_S),
    "deny": _bundle("deny"),
}
"""Name -> bundle; nothing: there is no policy."""
APPROVES: Final = tuple(name for name, bundle in POLICIES.items() if bundle is not None and "approve" in name)


class Phases:
    """Which policy stands, and which ones stood before."""

    def __init__(self, first: str) -> None:
        self.phases: list[tuple[float, str]] = [(0.0, first)]

    def change(self, now: float, name: str) -> None:
        self.phases.append((now, name))

    @property
    def bundle(self) -> Bundle | None:
        return POLICIES[self.phases[-1][1]]

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
        names = [name for at, name in self.phases if at > then]
        stood = [name for at, name in self.phases if at <= then]
        return {self.says(target, name) for name in (*stood[-1:], *names)}
