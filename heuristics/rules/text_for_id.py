"""OG304: free text where an id is meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import quoted

_THINGS: Final = frozenset(
    {"order", "booking", "reservation", "cart", "basket", "customer", "user", "account", "product", "variant", "flight"}
    | {"invoice", "payment", "subscription", "ticket", "shipment", "refund", "return", "appointment"}
)
_EXACT: Final = ("format", "pattern", "enum", "const", "x-oncegate-id")
_SAYS_ID: Final = ("id", "identifier", "number", "code", "sku", "uuid", "slug", "key", "reference", "handle", "token")


def _check(at: Looked) -> Iterator[Remark]:
    if not at.side_effecting:
        return
    for field in at.fields.all:
        if field.top and field.name.lower() in _THINGS and field.types == ("string",) and _free(field.schema):
            name = quoted(field.name)
            yield Remark(
                f"{name} takes any text, but which one is meant must be exact: call it {quoted(field.name + '_id')} "
                "and say where the id comes from, or give it a format, pattern or enum.",
                at=field.pointer,
            )


def _free(schema: Mapping[str, Any]) -> bool:
    if any(key in schema for key in _EXACT):
        return False
    words = str(schema.get("description", ""))[:500].lower().replace("_", " ").replace("(", " ").replace(".", " ")
    return not any(word.strip(",;:)'\"`") in _SAYS_ID for word in words.split())


RULE: Final = Rule(
    code="OG304",
    name="text-for-id",
    severity="warning",
    what=(
        "A tool that changes something takes a thing (`order`, `customer`, `product`) as free text: a string without "
        "format, pattern or enum, whose description does not speak of an id."
    ),
    why=(
        'The model writes what the customer said: "the blue one from yesterday". The shop guesses which order that '
        "is, and cancels it. A second try in other words is another call, so nothing sees it as a repeat."
    ),
    example="""\
{"tools": [{
  "name": "cancel_order",
  "description": "Cancel an order that is not shipped.",
  "inputSchema": {"type": "object", "properties": {"order": {"type": "string"}}, "additionalProperties": false}
}]}
""",
    instead="""\
{"tools": [{
  "name": "cancel_order",
  "description": "Cancel an order that is not shipped.",
  "inputSchema": {"type": "object", "additionalProperties": false,
    "properties": {"order_id": {"type": "string", "description": "As list_orders gives it."}}}
}]}
""",
    check=_check,
)
