"""OG302: a mutating tool that takes arguments nobody declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule

_SAYING: Final = frozenset({"additionalProperties", "unevaluatedProperties", "allOf"})


def _check(at: Looked) -> Iterator[Remark]:
    if not at.side_effecting or not at.tool.parameters:
        return
    root = at.fields.root
    if root is None or not isinstance(root.get("properties"), dict):
        return  # OG301 and OG306 speak
    # Elsewhere nearly no schema is closed, and some formats cannot say it: only what is said counts there.
    left_open = at.tool.format == "oncegate" and _SAYING.isdisjoint(root)
    if not left_open and root.get("additionalProperties") is not True:
        return
    yield Remark(
        "It takes any further argument, so one that the model makes up changes the call unseen: say "
        "additionalProperties: false.",
        at="/parameters",
    )


RULE: Final = Rule(
    code="OG302",
    name="open-schema",
    severity="note",
    what=(
        "A tool that changes something lets arguments through that its schema does not name: it says "
        "`additionalProperties: true`, or, in an Oncegate declaration, does not say `false`."
    ),
    why=(
        "A call and its repeat are compared by their arguments. An invented one (`note`, `priority`) makes the repeat "
        "another call, and a misspelt one (`quantitiy`) is dropped by the shop: the customer gets one instead of two."
    ),
    example="""\
{"tools": [{
  "name": "place_order",
  "description": "Order what is in the cart.",
  "inputSchema": {"type": "object", "properties": {"cart_id": {"type": "string"}}, "required": ["cart_id"],
    "additionalProperties": true}
}]}
""",
    instead="""\
{"tools": [{
  "name": "place_order",
  "description": "Order what is in the cart.",
  "inputSchema": {"type": "object", "properties": {"cart_id": {"type": "string"}}, "required": ["cart_id"],
    "additionalProperties": false}
}]}
""",
    check=_check,
)
