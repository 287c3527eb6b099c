"""Verdicts as `oncegate classify` shows them: a line for people, an object for programs."""

from __future__ import annotations

from .classify import Verdict

__all__ = ["as_dict", "as_text", "printable"]


def as_text(name: str, verdict: Verdict) -> str:
    """One line: verdict, name, reason and source. Characters that a terminal would obey are escaped."""
    kind = "side-effecting" if verdict.side_effecting else "read-only"
    return f"{kind:<14}  {printable(name)}  {printable(verdict.reason)} [{verdict.source}]"


def as_dict(name: str, verdict: Verdict) -> dict[str, str | bool | None]:
    """The verdict in the wire's shape (`side_effecting`, `source`, `reason`, `verb`), with the name as given."""
    return {
        "name": name,
        "side_effecting": verdict.side_effecting,
        "source": verdict.source,
        "reason": verdict.reason,
        "verb": verdict.verb,
    }


def printable(text: str) -> str:
    """Control, format and bidirectional characters as escapes, so that a name cannot rewrite the line it stands in."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
