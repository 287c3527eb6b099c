"""OG002: a waiver that waives nothing. The engine raises it, once all findings are known."""

from __future__ import annotations

from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule


def _check(_at: Looked) -> tuple[Remark, ...]:
    return ()


RULE: Final = Rule(
    code="OG002",
    name="unused-waiver",
    severity="warning",
    what=(
        "An inline waiver names a code that has no finding there: it is mended, misspelt, or stands at no tool. Codes "
        "that a run does not look for (`--select`, `--ignore`) are not counted."
    ),
    why="It would hide the next finding of that code, which is then another one than the reason speaks of.",
    example="""\
{"tools": [{
  "name": "submit_basket",
  "description": "Turn the basket into an order.",
  "inputSchema": {"type": "object", "properties": {"basket_id": {"type": "string"}}, "additionalProperties": false},
  "x-oncegate-lint": {"ignore": ["OG101"], "reason": "Renamed later."}
}]}
""",
    instead="""\
{"tools": [{
  "name": "submit_basket",
  "description": "Turn the basket into an order.",
  "inputSchema": {"type": "object", "properties": {"basket_id": {"type": "string"}}, "additionalProperties": false}
}]}
""",
    check=_check,
)
