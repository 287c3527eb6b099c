"""OG101: the name mutates, and the platform's twelve verbs do not say so (3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.better_names import acting
from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import either, quoted


def _check(at: Looked) -> Iterator[Remark]:
    by_name = at.by_name
    if not by_name.side_effecting or by_name.verb is None or at.platform_verb is not None:
        return
    if at.declared or at.verdict.source == "hint" or at.tool.hints.destructive or at.tool.hints.read_only is not None:
        return
    if at.method in ("PUT", "PATCH", "DELETE") or at.dispatches:
        return
    severity = {None: None, "words": "note", "platform": "error"}[at.around.heuristic]
    yield Remark(
        f"{quoted(by_name.verb)} changes something, but the name holds none of the platform's twelve verbs, so that "
        f"rule takes it for a read: {either(acting(at))}, or {at.declare_as(True)}.",
        severity=severity,  # type: ignore[arg-type]
    )


RULE: Final = Rule(
    code="OG101",
    name="mutating-not-covered",
    severity="warning",
    what=(
        "The name has a verb that changes something, but none of the twelve (create, place, add, update, remove, "
        "delete, cancel, checkout, pay, book, submit, set) by which the platform's own rule knows such tools. A tool "
        "that is declared (`side_effecting`, `readOnlyHint: false`, `destructiveHint: true`, an HTTP method that "
        'writes) needs no name to say it. An error where `heuristic = "platform"` is set, a note where `"words"` is.'
    ),
    why=(
        "A platform that goes by the twelve verbs takes the tool for a read: its calls are not recorded and not kept "
        "from running twice. It shows when a customer has two orders."
    ),
    example="""\
{"tools": [{
  "name": "finalise_basket",
  "description": "Turn the basket into an order.",
  "inputSchema": {"type": "object", "properties": {"basket_id": {"type": "string"}}, "additionalProperties": false}
}]}
""",
    instead="""\
{"tools": [{
  "name": "submit_basket",
  "description": "Turn the basket into an order.",
  "inputSchema": {"type": "object", "properties": {"basket_id": {"type": "string"}}, "additionalProperties": false}
}]}
""",
    check=_check,
)
