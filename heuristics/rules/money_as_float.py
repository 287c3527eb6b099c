"""OG305: an amount of money as a JSON number with a fraction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.money_words import amounts
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import quoted


def _check(at: Looked) -> Iterator[Remark]:
    if not at.side_effecting:
        return
    for name, pointer, types, exact in amounts(at):
        if "number" in types and not exact:
            yield Remark(
                f"{quoted(name)} is money as a floating-point number, which cannot hold 0.10 exactly: take whole "
                "minor units (integer), or a decimal as a string.",
                at=pointer,
            )


RULE: Final = Rule(
    code="OG305",
    name="money-as-float",
    severity="warning",
    what="A tool that changes something takes an amount of money as `number`.",
    why=(
        "Most JSON readers make it a binary float: 0.1 + 0.2 is not 0.3, and a cent is lost or asked for twice. Models "
        "also write 19.9 and 19.90 for one price; as text or whole cents there is one way to write it."
    ),
    example="""\
{"tools": [{
  "name": "submit_refund",
  "description": "Pay money back for an order.",
  "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
    "order_id": {"type": "string"}, "amount": {"type": "number"}}}
}]}
""",
    instead="""\
{"tools": [{
  "name": "submit_refund",
  "description": "Pay money back for an order.",
  "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
    "order_id": {"type": "string"}, "amount_cents": {"type": "integer", "minimum": 1}}}
}]}
""",
    check=_check,
)
