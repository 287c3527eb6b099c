"""What a lint run found, before it is written in any form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heuristics.declared_tool import Place
from heuristics.finding import Finding

__all__ = ["Run", "Unread", "printable", "spot"]


@dataclass(frozen=True, slots=True)
class Unread:
    """A source that could not be read, in one line."""

    message: str
    place: Place


@dataclass(frozen=True, slots=True)
class Run:
    """`known` is how many findings the baseline held back."""

    findings: Sequence[Finding]
    unread: Sequence[Unread]
    tools: int
    files: int
    known: int
    version: str


def printable(text: str) -> str:
    """One line that cannot move a cursor or turn the direction of writing: such characters as escapes."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def spot(place: Place) -> str:
    """`file:line:column`, as editors understand it."""
    path = printable(place.path)
    return path if place.line is None else f"{path}:{place.line}:{place.column or 1}"
