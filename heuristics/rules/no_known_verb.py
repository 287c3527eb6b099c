"""OG108: no verb that anybody knows, so the tool is protected without anyone having said so (3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.better_names import clearer, either_way
from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import either, quoted


def _check(at: Looked) -> Iterator[Remark]:
    by_name, hints = at.by_name, at.tool.hints
    if at.declared or not by_name.side_effecting or by_name.verb is not None:
        return
    if hints.read_only is not None or hints.destructive or at.method in ("PUT", "PATCH", "DELETE"):
        return  # it is said; where the name contradicts it, OG104 speaks
    yield Remark(
        f"No word in the name says whether it reads or changes something, so it is taken for side-effecting: "
        f"{_meant(at)}, or {at.declare}.",
    )


def _meant(at: Looked) -> str:
    if names := clearer(at):
        return either(names)
    if (both := either_way(at)) is None:
        return "begin the name with a verb (get_… or create_…)"
    return f"begin it with a verb ({quoted(both[0])} if it reads, {quoted(both[1])} if it changes something)"


RULE: Final = Rule(
    code="OG108",
    name="no-known-verb",
    severity="warning",
    what=(
        "The name has no verb that the word tables know (English, Spanish, Portuguese, French, German, Italian), and "
        "nothing else says what the tool does. A misspelt verb is offered its correction."
    ),
    why=(
        "Such a tool is protected, since nobody can know. A read is then recorded and held as a repeat; and a platform "
        "that goes by the twelve verbs takes it for a read, whatever it does."
    ),
    example="""\
{"tools": [{
  "name": "zorble",
  "description": "Zorble the basket.",
  "inputSchema": {"type": "object", "properties": {"basket_id": {"type": "string"}}, "additionalProperties": false}
}]}
""",
    instead="""\
{"tools": [{
  "name": "update_basket",
  "description": "Zorble the basket.",
  "inputSchema": {"type": "object", "properties": {"basket_id": {"type": "string"}}, "additionalProperties": false}
}]}
""",
    check=_check,
)
