"""OG001: a waiver that does not say why. The engine raises it; nothing is looked at in the tool itself."""

from __future__ import annotations

from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule


def _check(_at: Looked) -> tuple[Remark, ...]:
    return ()


RULE: Final = Rule(
    code="OG001",
    name="waiver-without-reason",
    severity="error",
    what=(
        "An inline waiver has no reason, or cannot be read. It still holds: the finding is about the waiver, and "
        "cannot be waived itself."
    ),
    why="In a year nobody knows whether the waived finding was looked at or only in the way.",
    example="""\
{"tools": [{
  "name": "finalise_basket",
  "description": "Turn the basket into an order.",
  "inputSchema": {"type": "object", "properties": {"basket_id": {"type": "string"}}, "additionalProperties": false},
  "x-oncegate-lint": {"ignore": ["OG101"]}
}]}
""",
    instead="""\
{"tools": [{
  "name": "finalise_basket",
  "description": "Turn the basket into an order.",
  "inputSchema": {"type": "object", "properties": {"basket_id": {"type": "string"}}, "additionalProperties": false},
  "x-oncegate-lint": {"ignore": ["OG101"], "reason": "The name is in the shop's contract; only words judges it."}
}]}
""",
    check=_check,
)
