"""A rule's rate limit (7.5): what is counted, for whom, and how much one call counts. Pure: nothing counts here."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Literal, TypeAlias

import msgspec

from gateway.core.policy_values import Amount, Pointer, number_of
from gateway.core.strict_json import Json

PER: Final = ("conversation", "turn", "company")

Per: TypeAlias = Literal["conversation", "turn", "company"] | Pointer


class RateLimit(msgspec.Struct, frozen=True):
    """At most `max` calls, or `sum_of` their amounts, in `window_s` seconds, counted apart for each `per`."""

    owner: str
    """The company whose bundle has the rule; empty: the platform's."""
    rule_id: str
    max: Amount
    window_s: int
    per: Per
    sum_of: Pointer | None = None
    on_error: Literal["allow", "deny"] = "deny"
    """What a call gets that cannot be counted: by the counter's fault, or since it states no amount, turn or such."""
    bundle: str = ""
    """Version of the bundle that has the rule."""


class Counted(msgspec.Struct, frozen=True):
    """What one call adds. `bucket` names the counter: never joined without lengths, or two would be one."""

    bucket: tuple[str, ...]
    amount: Amount = 1


def counted(
    limit: RateLimit, company: str, conversation: str, turn: str | None, arguments: dict[str, Json]
) -> Counted | None:
    """None where the call does not say what is counted: then `on_error` decides. An amount below zero is not
    counted either: it would make room for others."""
    whom = _whom(limit.per, conversation, turn, arguments)
    if whom is None:
        return None
    bucket = (limit.owner, limit.rule_id, company, *whom)
    if limit.sum_of is None:
        return Counted(bucket)
    amount = number_of(limit.sum_of.find(arguments))
    # A rule that is changed keeps its id, and what was counted: calls must not be taken for amounts, nor one amount
    # for another.
    return None if amount is None or amount < 0 else Counted((*bucket, "sum", limit.sum_of.text), amount)


def _whom(per: Per, conversation: str, turn: str | None, arguments: dict[str, Json]) -> tuple[str, ...] | None:
    if per == "company":
        return ("company",)
    if per == "conversation":
        return ("conversation", conversation)
    if per == "turn":
        return None if turn is None else ("turn", conversation, turn)
    assert isinstance(per, Pointer)
    value = per.find(arguments)
    number = number_of(value)
    if number is not None:
        # One buyer, whether the model wrote 7, 7.0 or "7".
        return ("number", per.text, _digits(number))
    return ("text", per.text, value) if isinstance(value, str) and value else None


def _digits(number: Amount) -> str:
    whole = Decimal(number)
    if not whole:
        return "0"
    sign, digits, exponent = whole.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    stripped = text.rstrip("0")
    return f"{'-' if sign else ''}{stripped.lstrip('0')}e{exponent + len(text) - len(stripped)}"
