"""OG203: one name, declared twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule


def _check(at: Looked) -> Iterator[Remark]:
    first = next((each for each in at.alike if each.kind == "same"), None)
    if first is not None:
        yield Remark(
            f"It is declared at {first.where} already, and only one of the two will be called: rename or remove one.",
        )


RULE: Final = Rule(
    code="OG203",
    name="duplicate-name",
    severity="error",
    what="Two tools of one company (or of one file, where none is named) have the same name.",
    why=(
        "The last one read replaces the first, with its endpoint, its schema and its protection, or the provider "
        "refuses the whole list."
    ),
    example="""\
{"tools": [
  {"name": "get_stock", "description": "How many are left.",
   "inputSchema": {"type": "object", "properties": {"item_id": {"type": "string"}}}},
  {"name": "get_stock", "description": "How many are left, by warehouse.",
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
