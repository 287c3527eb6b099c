"""Where the parts of a JSON object or list stand: noted while the outer levels are read, found later in others.

Values are stepped over by the standard library's scanner, so a level costs its parts, not their characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from heuristics.formats.source import At

__all__ = ["Level", "read_outer"]

Offsets: TypeAlias = dict[str | int, tuple[int, int]]
"""A part to the offsets of its key and its value; an element is its own key."""
Decode: TypeAlias = Callable[[str, int], tuple[Any, int]]
"""As `json.JSONDecoder.raw_decode`: the value at an offset, and where it ends."""

_OUTER: Final = 2
"""Levels that are noted while they are read: the document, and its list of tools, but nothing inside a list."""
_MOST: Final = 200_000
"""Parts of such a level. Lists of more hold no tools and are read faster whole."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_KEY: Final = re.compile(r'"([^"\\]*)"[ \t\n\r]*:[ \t\n\r]*')
"""A key without escapes, and what stands before its value."""
_NEXT: Final = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_SKIP: Final = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
"""Knows where a value ends; what it reads is dropped."""


class Level:
    """The parts of one object or list in a valid text, looked through only as far as is asked."""

    __slots__ = ("_at", "_found", "_object", "_text")

    def __init__(self, text: str, offset: int, found: Offsets | None = None) -> None:
        """`offset`: where the value begins. With `found` all is known; a scalar has no parts."""
        self._text = text
        self._found: Offsets = {} if found is None else found
        self._object = text[offset : offset + 1] == "{"
        inside = found is None and text[offset : offset + 1] in ("{", "[")
        self._at: int | None = _after(text, offset + 1) if inside else None

    def offsets(self, step: str | int) -> tuple[int, int] | None:
        while step not in self._found and self._at is not None:
            self._at = self._next(self._at)
        return self._found.get(step)

    def _next(self, at: int) -> int | None:
        """Notes the part at an offset; where the next begins, None after the last."""
        text = self._text
        if text[at] in "]}":
            return None
        key: str | int = len(self._found)
        key_at = at
        if self._object:
            if (plain := _KEY.match(text, at)) is not None:
                key, at = plain[1], plain.end()
            else:
                key, at = _SKIP(text, at)
                at = _after(text, _after(text, at) + 1)  # past the colon
        self._found[key] = (key_at, at)
        following = _NEXT.match(text, _SKIP(text, at)[1])
        return None if following is None else following.end()


class Outer(NamedTuple):
    """A document, its outer levels, and how deep it can be at most: by the signs that open something, not exact."""

    value: Any
    levels: dict[At, Level]
    depth: int


def read_outer(text: str, decode: Decode) -> Outer:
    """Raises ValueError for whatever the decoder may tell better: what is no JSON,
    a key that stands twice, a very long list; and what `decode` raises."""
    levels: dict[At, Level] = {}
    deepest = 0

    def decoded(text: str, at: int) -> tuple[Any, int]:
        nonlocal deepest
        value, end = decode(text, at)
        opened = text.count("{", at, end) + text.count("[", at, end)
        deepest = max(deepest, opened)
        return value, end

    value, end = _read(text, _after(text, 0), (), decoded, levels)
    if _after(text, end) != len(text):
        raise ValueError("goes on behind its end")
    return Outer(value, levels, _OUTER + deepest)


def _read(text: str, at: int, way: At, decode: Decode, levels: dict[At, Level]) -> tuple[Any, int]:
    start, opening = at, text[at : at + 1]
    inner = len(way) == _OUTER or (way and isinstance(way[-1], int))
    if inner or opening not in ("{", "["):
        return decode(text, at)
    closing = "}" if opening == "{" else "]"
    found: Offsets = {}
    values: list[Any] = []
    at = _after(text, at + 1)
    sign = text[at : at + 1]
    while sign != closing or found:  # an empty one ends here, any other behind a part
        key: str | int = len(found)
        key_at = at
        if opening == "{":
            if text[at : at + 1] != '"':
                raise ValueError("a key is missing")
            key, at = _SKIP(text, at)
            at = _after(text, at)
            if text[at : at + 1] != ":":
                raise ValueError("a colon is missing")
            at = _after(text, at + 1)
        if key in found or len(found) == _MOST:
            raise ValueError("is better read whole")
        found[key] = (key_at, at)
        value, at = _read(text, at, (*way, key), decode, levels)
        values.append(value)
        at = _after(text, at)
        sign = text[at : at + 1]
        if sign == closing:
            break
        if sign != ",":
            raise ValueError("a comma is missing")
        at = _after(text, at + 1)
    levels[way] = Level(text, start, found)
    return (dict(zip(found, values, strict=True)) if opening == "{" else values), at + 1


def _after(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches anywhere
