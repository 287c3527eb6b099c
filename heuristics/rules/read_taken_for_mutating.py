"""OG102: a read that the platform's rule would protect, since one of its verbs hides in a word (3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.rules.better_names import replaced_nouns
from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import either, quoted


def _check(at: Looked) -> Iterator[Remark]:
    verb = at.platform_verb
    if verb is None or at.side_effecting or at.declared or at.around.heuristic == "words":
        return
    if at.by_name.side_effecting or verb in at.words:
        return
    holder = next((word for word in at.words if verb in word), at.name.lower())
    yield Remark(
        f"It reads, but {quoted(holder)} holds {quoted(verb)}, so the platform's rule takes it for side-effecting: a "
        f"second look would be held as a repeat: {at.declare_as(False)}, or {_renamed(at)}.",
        severity="warning" if at.around.heuristic == "platform" else None,
    )


def _renamed(at: Looked) -> str:
    names = replaced_nouns(at)
    return either(names) if names else "use another noun"


RULE: Final = Rule(
    code="OG102",
    name="read-taken-for-mutating",
    severity="note",
    what=(
        "The name reads, but one of the platform's twelve verbs stands inside one of its words: `book` in `booking`, "
        "`set` in `settings`, `pay` in `payment`. Only of interest where the platform's rule judges; "
        '`heuristic = "words"` in the settings silences it.'
    ),
    why=(
        "Protection that is not needed costs: each read is recorded, and the same read a moment later is answered from "
        "the ledger or held as a repeat, so the assistant shows a stale booking."
    ),
    example="""\
{"tools": [{
  "name": "get_booking",
  "description": "Show one reservation.",
  "inputSchema": {"type": "object", "properties": {"booking_id": {"type": "string"}}}
}]}
""",
    instead="""\
{"tools": [{
  "name": "get_reservation",
  "description": "Show one reservation.",
  "inputSchema": {"type": "object", "properties": {"reservation_id": {"type": "string"}}}
}]}
""",
    check=_check,
)
