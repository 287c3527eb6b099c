"""Which arguments are amounts of money, by name. Shared by the rules on amounts; a table, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

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
    """Name, pointer and JSON types of the arguments that are amounts, and whether each number's format is `decimal`."""
    return [
        (field.name, field.pointer, field.types, _is_exact(field.schema))
        for field in at.fields.all
        if is_money(field.name)
    ]


def _is_exact(schema: Mapping[str, Any]) -> bool:
    """An optional one has its number among alternatives, and the format there."""
    listed = [part for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list) for part in schema[key]]
    numbers = [part for part in (schema, *listed) if isinstance(part, dict) and "number" in _types(part)]
    return bool(numbers) and all(part.get("format") == "decimal" for part in numbers)


def _types(schema: Mapping[str, Any]) -> list[str]:
    stated = schema.get("type")
    return [each.lower() for each in (stated if isinstance(stated, list) else [stated]) if isinstance(each, str)]
