"""Which arguments are amounts of money, by name. Shared by the rules on amounts; a table, and how it is read."""

from __future__ import annotations

from typing import Final

from heuristics.rules.looked import Looked
from heuristics.words import split

__all__ = ["amounts", "is_money"]

_ALWAYS: Final = frozenset(
    "price prices cost fee fees salary payout tip refund deposit budget fare rent prix preis precio betrag importe "
    "montant prezzo".split()
)
_LAST: Final = frozenset("amount total subtotal charge discount tax credit debit balance payment".split())
_NOT: Final = frozenset(
    "id ids count number quantity qty percent percentage rate ratio type kind status code date time currency page limit "
    "days hours minutes seconds ms level tier weight points method name reason items results records pages level".split()
)
_NOT_BEFORE: Final = frozenset("item items page pages result results row rows record records quantity stock".split())


def is_money(name: str) -> bool:
    """`price`, `total_amount`, `refund`; not `tax_rate`, `total_items`, `payment_id`, `item_total`'s count."""
    words = split(name)
    if not words or len(name) > 100 or not _NOT.isdisjoint(words[-1:]):
        return False
    if words[-1] in _ALWAYS:
        return True
    if words[-1] in ("cents", "usd", "eur", "gbp"):
        return any(word in _ALWAYS or word in _LAST for word in words[:-1])
    return words[-1] in _LAST and (len(words) == 1 or words[-2] not in _NOT_BEFORE)


def amounts(at: Looked) -> list[tuple[str, str, tuple[str, ...]]]:
    """Name, pointer and JSON types of the arguments that are amounts."""
    return [(field.name, field.pointer, field.types) for field in at.fields.all if is_money(field.name)]
