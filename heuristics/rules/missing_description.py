"""OG303: no description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule


def _check(at: Looked) -> Iterator[Remark]:
    if not (at.tool.description or "").strip():
        effect = " and whether it changes anything" if at.side_effecting else ""
        yield Remark(
            f"It has no description, so the model chooses it by its name alone: say what it does{effect}.",
            severity=None if at.side_effecting else "note",
        )


RULE: Final = Rule(
    code="OG303",
    name="missing-description",
    severity="warning",
    what="The tool has no description, or an empty one. A note for a read.",
    why=(
        "The description is all that a model knows of a tool besides its name. Without it `submit_order` and "
        "`place_order` are chosen by chance, and both may be tried."
    ),
    example="""\
{"tools": [{
  "name": "place_order",
  "inputSchema": {"type": "object", "properties": {"cart_id": {"type": "string"}}, "additionalProperties": false}
}]}
""",
    instead="""\
{"tools": [{
  "name": "place_order",
  "description": "Order what is in the cart. It costs the customer money.",
  "inputSchema": {"type": "object", "properties": {"cart_id": {"type": "string"}}, "additionalProperties": false}
}]}
""",
    check=_check,
)
