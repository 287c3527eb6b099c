"""Rate limits as a person would state them: how much, of what, for whom, in how long (7.5). Nothing here is the
product's: what it counts is held against this."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

Bucket = tuple[str, ...]


@dataclass(frozen=True)
class Limit:
    """At most `most` calls, or of the totals of their arguments, in `window_s`, for each `per`; a rule for each target
    counts by itself. `lets_pass`: what cannot be counted."""

    name: str
    most: Decimal
    window_s: int
    per: str
    sums: bool = False
    lets_pass: bool = False

    def as_rule(self) -> dict[str, Any]:
        limit: dict[str, Any] = {"max": str(self.most) if self.sums else int(self.most), "window_s": self.window_s}
        limit |= {"per": self.per, "on_error": "allow" if self.lets_pass else "deny"}
        return limit | ({"sum_of": "/total"} if self.sums else {})

    def bucket(self, target: str, conversation: str, turn: str | None, sku: str) -> Bucket | None:
        """Who is counted together; None: it does not say."""
        arguments = arguments_of(sku)
        if self.per == "turn":
            return None if turn is None else (self.name, target, conversation, turn)
        if self.per == "conversation":
            return self.name, target, conversation
        if self.per == "company":
            return self.name, target
        return None if "buyer" not in arguments else (self.name, target, _buyer(arguments["buyer"]))

    def amount(self, sku: str) -> Decimal | None:
        total = arguments_of(sku).get("total")
        if not self.sums:
            return Decimal(1)
        return None if total is None else Decimal(total)


def arguments_of(sku: str) -> dict[str, str]:
    """The arguments of a call: a name that says so is of a buyer and has a total, as in `L1:7.0:19.99`."""
    _, *more = sku.split(":")
    return {"sku": sku, **dict(zip(("buyer", "total"), more, strict=False))}


def _buyer(text: str) -> str:
    """One buyer, whether the model wrote 7 or 7.0."""
    return text.removesuffix(".0")


_L: Final = (
    Limit("two calls a conversation", Decimal(2), 8, "conversation"),
    Limit("a call a turn", Decimal(1), 9, "turn"),
    Limit("a call a turn or pass", Decimal(1), 7, "turn", lets_pass=True),
    Limit("fifty for a buyer", Decimal(50), 10, "/buyer", sums=True),
    Limit("two held for a company", Decimal(2), 12, "company"),
    Limit("three a company and the platform", Decimal(3), 6, "company"),
)
LIMITS: Final = {limit.name: limit for limit in _L}
PLATFORM: Final = Limit("the platform's", Decimal(2), 11, "company")
WITH_PLATFORM: Final = "three a company and the platform"
HELD: Final = "two held for a company"
