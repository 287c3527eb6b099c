"""What is said of a source that cannot be read: one line, and where."""

from __future__ import annotations

from typing import Any, Final

from heuristics.declared_tool import Place

__all__ = ["UnreadableSource", "kind_of", "shown"]

_LONGEST_SHOWN: Final = 60
_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (dict, "an object"),
    (list, "a list"),
    (str, "a text"),
    (bool, "true or false"),
    (int, "a number"),
    (float, "a number"),
)


class UnreadableSource(Exception):
    """A source that holds no tools that could be read. `message` is one line without the place; `str` has both."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message, place)
        self.message = message
        self.place = place

    def __str__(self) -> str:
        spot = "" if self.place.line is None else f":{self.place.line}:{self.place.column}"
        return f"{shown(self.place.path, 500)}{spot}: {self.message}"


def shown(text: str, longest: int = _LONGEST_SHOWN) -> str:
    """Somebody's text fit for one line of a terminal: shortened, and without what would move the cursor or turn the
    direction of writing."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in cut)


def kind_of(value: Any) -> str:
    """A parsed value's kind in words."""
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "null" if value is None else "a date")
