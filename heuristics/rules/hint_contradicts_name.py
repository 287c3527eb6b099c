"""OG104: an annotation says one thing, the name another (3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.better_names import acting, reading
from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import either, quoted

_CHANGES: Final = ("update", "create")
"""Verbs for a tool that changes something, of which no more is known."""


def _check(at: Looked) -> Iterator[Remark]:
    hints, by_name = at.tool.hints, at.by_name
    changes = "readOnlyHint: false" if hints.read_only is False else "destructiveHint: true"
    writes = hints.read_only is False or bool(hints.destructive)
    if at.declared:
        if writes and at.verdict.source == "tool" and not at.side_effecting:
            yield Remark(f"It is declared read-only, but {changes} says that it changes something: correct one.")
        return
    if writes and not by_name.side_effecting:
        yield Remark(
            f"The name reads ({by_name.reason}), but {changes} says that it changes something, so it is taken for "
            f"side-effecting: {either(acting(at, _CHANGES))}, or correct the hint.",
            severity="warning",
        )
    elif hints.read_only and by_name.side_effecting:
        known = f"{quoted(by_name.verb)} changes something" if by_name.verb is not None else "the name does not say so"
        yield Remark(
            f"readOnlyHint says that it only reads, but {known}; a hint never lowers protection: correct the hint, "
            f"{either(reading(at))}, or declare side_effecting.",
            severity="warning",
        )


RULE: Final = Rule(
    code="OG104",
    name="hint-contradicts-name",
    severity="note",
    what=(
        "MCP's annotations (`readOnlyHint`, `destructiveHint`) and the name contradict each other: a warning. A note "
        "where the tool is declared read-only and only its hint says otherwise."
    ),
    why=(
        "One of the two is wrong, and whoever goes by it is wrong too: a client that trusts `readOnlyHint` runs "
        "`orders.pay` without asking. The gateway takes the safer of both, so a wrong hint protects nothing less, and "
        "a right one is not believed."
    ),
    example="""\
{"tools": [{
  "name": "cancel_order",
  "description": "Cancel an order that is not shipped.",
  "inputSchema": {"type": "object", "properties": {"order_id": {"type": "string"}}, "additionalProperties": false},
  "annotations": {"readOnlyHint": true}
}]}
""",
    instead="""\
{"tools": [{
  "name": "cancel_order",
  "description": "Cancel an order that is not shipped.",
  "inputSchema": {"type": "object", "properties": {"order_id": {"type": "string"}}, "additionalProperties": false},
  "annotations": {"readOnlyHint": false, "idempotentHint": true}
}]}
""",
    check=_check,
)
