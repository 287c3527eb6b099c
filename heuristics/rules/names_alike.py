"""OG202: two names that differ only by case, separators or one character."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Alike, Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import joined, quoted

_MOST: Final = 5


def _check(at: Looked) -> Iterator[Remark]:
    folded = [each for each in at.alike if each.kind == "folded" and each.company is None]
    if folded:
        yield Remark(
            f"Only letter case or separators tell it from {_named(folded)}; a model or a client that replaces "
            "characters takes one for the other: rename one.",
        )
    abroad = [each for each in at.alike if each.kind == "folded" and each.company is not None]
    if abroad:
        yield Remark(
            f"Only letter case or separators tell it from {_named(abroad)}: call the same thing the same.",
            severity="note",
        )
    slips = [each for each in at.alike if each.kind == "slip" and each.company is None]
    if slips:
        yield Remark(
            f"One character tells it from {_named(slips)}, and a model's slip runs the other tool: tell them apart by "
            "a word.",
            severity="note",
        )
    strays = [each for each in at.alike if each.kind == "slip" and each.company is not None]
    if strays:
        yield Remark(
            f"One character tells it from {_named(strays)}: call the same thing the same, and tell other things apart "
            "by a word.",
            severity="note",
        )


def _named(alike: list[Alike]) -> str:
    listed = [
        f"{quoted(each.name)} of {quoted(each.company)}" if each.company is not None else quoted(each.name)
        for each in alike[:_MOST]
    ]
    return joined(listed) + (f" (and {len(alike) - _MOST:,} more)" if len(alike) > _MOST else "")


RULE: Final = Rule(
    code="OG202",
    name="names-alike",
    severity="warning",
    what=(
        "Two tools of one company (or of one file, where none is named) have names that are one after folding: letter "
        "case, `_`, `-`, `.` and spaces do not count. A note for names one edit apart (`cancel_order`, `cancel_ordr`, "
        "`cancle_order`; `place_order`, `place_orders`), but not for numbers, two known verbs, or one and many that "
        "are looked at (`get_order`, `get_orders`). Both count across companies as well, as notes: the same name in "
        "two companies is as it should be, nearly the same is not; the one that fewer companies use is told."
    ),
    why=(
        "Here they are two tools. A client that replaces the dot in `catalog.query` makes it `catalog_query`, and the "
        "later takes over the rights of the earlier. A model that slips by one character runs the other tool."
    ),
    example="""\
{"tools": [
  {"name": "get_stock", "description": "How many are left.",
   "inputSchema": {"type": "object", "properties": {"item_id": {"type": "string"}}}},
  {"name": "getStock", "description": "How many are left, by warehouse.",
   "inputSchema": {"type": "object", "properties": {"item_id": {"type": "string"}}}}
]}
""",
    instead="""\
{"tools": [
  {"name": "get_stock", "description": "How many are left.",
   "inputSchema": {"type": "object", "properties": {"item_id": {"type": "string"}}}},
  {"name": "get_stock_by_warehouse", "description": "How many are left, by warehouse.",
   "inputSchema": {"type": "object", "properties": {"item_id": {"type": "string"}}}}
]}
""",
    check=_check,
)
