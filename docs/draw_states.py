"""Writes docs/states.md from the table in `gateway.core.record`: run it after a change there.

.venv/bin/python docs/draw_states.py
"""

from __future__ import annotations

from pathlib import Path

from gateway.core.record import TRANSITIONS, Move, Status

PAGE = Path(__file__).with_name("states.md")

HEAD = """\
<!-- Written by docs/draw_states.py from TRANSITIONS in gateway/core/record.py; edit that. -->

# The states of an effect

An effect moves only as drawn here (promise 4.1); what is not drawn is a fault and is refused. The words are
those of [semantics.md](semantics.md). `absent` is where nothing is recorded: before a first claim, after a
release, or after a resolution that nothing happened, which leaves a mark so that a late success is noticed.
"""


def drawing() -> str:
    """The page: a Mermaid diagram and the same as a table."""
    return "\n".join([HEAD, *_diagram(), "", *_table(), ""])


def _diagram() -> list[str]:
    labels: dict[tuple[Status, Status], list[str]] = {}
    for before, moves in TRANSITIONS.items():
        for move in Move:
            for after in _ordered(moves.get(move, frozenset())):
                labels.setdefault((before, after), []).append(move.value)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Status.ABSENT.value}"]
    lines += [f"    {b.value} --> {a.value}: {', '.join(moves)}" for (b, a), moves in labels.items()]
    return [*lines, "```"]


def _table() -> list[str]:
    lines = ["| state | " + " | ".join(move.value for move in Move) + " |", "|---|" + "---|" * len(Move)]
    for status, moves in TRANSITIONS.items():
        cells = (", ".join(a.value for a in _ordered(moves.get(move, frozenset()))) or "–" for move in Move)
        lines.append(f"| {status.value} | " + " | ".join(cells) + " |")
    return lines


def _ordered(statuses: frozenset[Status]) -> list[Status]:
    return [status for status in Status if status in statuses]


if __name__ == "__main__":
    PAGE.write_text(drawing(), encoding="utf-8")
