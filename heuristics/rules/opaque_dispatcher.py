"""OG107: one tool for everything: what it does is in its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import quoted


def _check(at: Looked) -> Iterator[Remark]:
    if at.declared or not at.by_name.side_effecting or not at.dispatches:
        return
    yield Remark(
        f"{quoted(at.by_name.verb or '')} runs whatever its arguments say, so nobody can know what a call changes: "
        "declare one tool for each thing it does.",
    )


RULE: Final = Rule(
    code="OG107",
    name="opaque-dispatcher",
    severity="warning",
    what="The name runs whatever it is given: `execute_tool`, `call_api`, `run_command`.",
    why=(
        "Reads and purchases go through one name. All of them are protected alike, so reads are recorded and held as "
        "repeats, and no rule, limit or approval can tell a look at the menu from an order."
    ),
    example="""\
{"tools": [{
  "name": "call_api",
  "description": "Call any function of the shop.",
  "inputSchema": {"type": "object", "additionalProperties": false,
    "properties": {"function": {"type": "string"}, "arguments": {"type": "object"}}}
}]}
""",
    instead="""\
{"tools": [{
  "name": "place_order",
  "description": "Order what is in the cart.",
  "inputSchema": {"type": "object", "additionalProperties": false, "properties": {"cart_id": {"type": "string"}}}
}]}
""",
    check=_check,
)
