"""OG301: nothing says which arguments the tool takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule

_SAYING: Final = frozenset(
    ("properties", "$ref", "allOf", "anyOf", "oneOf", "patternProperties", "maxProperties", "propertyNames")
)


def _check(at: Looked) -> Iterator[Remark]:
    parameters = at.tool.parameters
    if not parameters:
        yield Remark(
            "It has no parameters schema, so the model guesses the arguments and nothing checks them: declare one, "
            "also if it takes none (an object with no properties).",
        )
    elif _SAYING.isdisjoint(parameters) and parameters.get("additionalProperties") is not False:
        yield Remark(
            "Its schema names no arguments, so the model guesses them and nothing checks them: list the properties, or "
            "say additionalProperties: false if it takes none.",
            at="/parameters",
            severity="warning" if at.side_effecting else "note",
        )


RULE: Final = Rule(
    code="OG301",
    name="missing-schema",
    severity="warning",
    what="The tool has no parameters schema, or one that names no arguments (a note for a read).",
    why=(
        "A model fills in what the schema asks for. Without one it makes up names, the shop ignores them or fails, and "
        "two calls for the same thing look different, so the second is not seen as a repeat."
    ),
    example="""\
{"tools": [{
  "type": "function",
  "function": {"name": "place_order", "description": "Order what is in the cart."}
}]}
""",
    instead="""\
{"tools": [{
  "type": "function",
  "function": {
    "name": "place_order",
    "description": "Order what is in the cart.",
    "parameters": {"type": "object", "properties": {"cart_id": {"type": "string"}}, "required": ["cart_id"],
      "additionalProperties": false}
  }
}]}
""",
    check=_check,
)
