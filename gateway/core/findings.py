"""What a registration remarks about a tool (3.5): the lint rules, over what is being registered. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from gateway.core.registration import Declared
from heuristics import Heuristic, Verdict, default_lexicon, shared_prefix
from heuristics.declared_tool import DeclaredTool, Place
from heuristics.finding import Finding, Severity
from heuristics.lint import findings_on
from heuristics.rules.alike import among
from heuristics.rules.looked import Looked, Surroundings

__all__ = ["REFUSING", "Finding", "findings"]

REFUSING: Final[tuple[Severity, ...]] = ("error", "warning")
"""With `on_finding = "refuse"` a tool that has these is not registered until it is renamed or declared (3.5)."""


def findings(
    name: str, declared: Declared, verdict: Verdict, names: Collection[str], heuristic: Heuristic = "words"
) -> list[Finding]:
    """Every rule's remark on one tool among all of its company's names, in the order of the rules.

    `verdict` is the one that is stored, `heuristic` the company's."""
    lexicon = default_lexicon()
    around = Surroundings(shared_prefix(sorted({*names, name})), heuristic, names=names)
    looked = Looked(
        _as_declared_tool(name, declared), around, verdict=verdict, alike=among(name, names, lexicon), lexicon=lexicon
    )
    return findings_on(looked)


def _as_declared_tool(name: str, declared: Declared) -> DeclaredTool:
    extras = {
        "idempotency": declared.idempotency.value if declared.idempotency is not None else None,
        "on_repeat": declared.on_repeat.value if declared.on_repeat is not None else None,
        "status_endpoint": declared.status_endpoint,
        "unavailable_means_not_executed": declared.unavailable_means_not_executed or None,
    }
    return DeclaredTool(
        name=name,
        place=Place(""),
        format="oncegate",
        description=declared.description,
        parameters=declared.parameters,
        document=declared.parameters,
        hints=declared.hints,
        side_effecting=declared.side_effecting,
        extras=extras,
    )
