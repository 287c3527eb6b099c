"""OG306: a schema that nothing can check arguments against."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule

_MOST: Final = 5


def _check(at: Looked) -> Iterator[Remark]:
    problems = at.fields.problems
    for pointer, problem in problems[:_MOST]:
        yield Remark(
            f"The schema {problem}, so nothing can check arguments against it: put what is meant in its place.",
            at=pointer,
            severity="warning" if "outside this document" in problem else None,
        )


RULE: Final = Rule(
    code="OG306",
    name="unusable-schema",
    severity="error",
    what=(
        "A `$ref` leads back to itself or to nothing, the schema is nested deeper than 48 levels, or (a warning) a "
        "`$ref` leaves the document. A type that holds itself as a part, such as a tree, is fine."
    ),
    why=(
        "A gateway refuses such a tool, a provider answers 400, and a validator that does not look loops for ever. "
        "References to elsewhere are never fetched: the arguments behind them go unchecked."
    ),
    example="""\
{"tools": [{
  "name": "get_menu",
  "description": "The dishes of today.",
  "inputSchema": {"type": "object", "properties": {"filter": {"$ref": "#/properties/filter"}}}
}]}
""",
    instead="""\
{"tools": [{
  "name": "get_menu",
  "description": "The dishes of today.",
  "inputSchema": {"type": "object", "properties": {"filter": {"type": "string", "enum": ["vegan", "all"]}}}
}]}
""",
    check=_check,
)
