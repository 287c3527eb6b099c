"""Which arguments are amounts of money, by name. Shared by the rules on amounts; a table, and how it is read."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.words import split

__all__ = ["amounts", "is_money"]

_ALWAYS: Final = frozenset(
    {"price", "prices", "cost", "fee", "fees", "salary", "payout", "tip", "refund", "deposit", "budget", "fare", "rent"}
    | {"prix", "preis", "precio", "betrag", "importe", "montant", "prezzo"}
)
_LAST: Final = frozenset(
    {"amount", "total", "subtotal", "charge", "discount", "tax", "credit", "debit", "balance", "payment"}
)
_CURRENCIES: Final = frozenset({"cents", "usd", "eur", "gbp"})
_COUNTED: Final = frozenset(
    {"item", "items", "page", "pages", "result", "results", "row", "rows", "record", "records", "quantity", "stock"}
)


@lru_cache(maxsize=4_096)  # the same few names come in thousands of tools
def is_money(name: str) -> bool:
    """`price`, `total_amount`, `refund`; not `tax_rate`, `payment_id`, `total_items`, `page_total`."""
    words = split(name)
    if not words or len(name) > 100:
        return False
    if words[-1] in _CURRENCIES:
        return any(word in _ALWAYS or word in _LAST for word in words[:-1])
    return words[-1] in _ALWAYS or (words[-1] in _LAST and _COUNTED.isdisjoint(words[:-1]))


def amounts(at: Looked) -> list[tuple[str, str, tuple[str, ...], bool]]:
    """Name, pointer and JSON types of the arguments that are amounts, and whether their format says `decimal`."""
    return [
        (field.name, field.pointer, field.types, field.schema.get("format") == "decimal")
        for field in at.fields.all
        if is_money(field.name)
    ]
