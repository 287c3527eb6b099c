"""OG112: the model itself states that the customer agreed to an amount."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.money_words import amounts
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import quoted
from heuristics.words import split

_AGREED: Final = frozenset(
    {
        "confirm",
        "confirmed",
        "confirmation",
        "approved",
        "approve",
        "approval",
        "consent",
        "consented",
        "agreed",
        "agree",
    }
    | {"accepted", "authorized", "authorised", "acknowledged"}
)


def _check(at: Looked) -> Iterator[Remark]:
    if not at.side_effecting or not at.fields.all:
        return
    agreed = [
        field
        for field in at.fields.all
        if field.top
        and len(field.name) <= 100
        and "boolean" in field.types
        and not _AGREED.isdisjoint(split(field.name))
    ]
    if not agreed:
        return
    money = amounts(at)
    if money:
        yield Remark(
            f"{quoted(agreed[0].name)} lets the model itself say that the customer agreed to {quoted(money[0][0])}, "
            "and models say it unasked: take it out, and have the amount approved by a policy rule (require_approval).",
            at=agreed[0].pointer,
        )


@lru_cache(maxsize=4_096)
def _agrees(name: str) -> bool:
    return not _AGREED.isdisjoint(split(name[:100]))


RULE: Final = Rule(
    code="OG112",
    name="confirmation-by-model",
    severity="warning",
    what="A tool that moves money takes a boolean by which the caller states that the customer has confirmed.",
    why=(
        "The caller is a model. It fills in `confirmed: true` because the schema has it, not because anybody was "
        "asked; the amount is then nobody's decision."
    ),
    example="""\
{"tools": [{
  "name": "submit_refund",
  "description": "Pay money back for an order.",
  "annotations": {"readOnlyHint": false, "idempotentHint": false},
  "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
    "order_id": {"type": "string"},
    "amount_cents": {"type": "integer"},
    "customer_confirmed": {"type": "boolean"}}}
}]}
""",
    instead="""\
{"tools": [{
  "name": "submit_refund",
  "description": "Pay money back for an order. Above 50 euros a person approves it.",
  "annotations": {"readOnlyHint": false, "idempotentHint": false},
  "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
    "order_id": {"type": "string"},
    "amount_cents": {"type": "integer"}}}
}]}
""",
    check=_check,
)
