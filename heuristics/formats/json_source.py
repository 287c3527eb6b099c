"""JSON with positions: parsed at the speed of the standard library, located part by part when asked."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from heuristics.declared_tool import Place
from heuristics.formats import json_faults
from heuristics.formats.limits import MAX_DEPTH, MAX_VALUES
from heuristics.formats.source import At, Spot
from heuristics.formats.text import Lines
from heuristics.formats.unreadable import UnreadableSource, shown

__all__ = ["JsonSource", "parse_json"]

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_SKIP: Final = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
"""Knows where a value ends; what it reads is dropped."""


class _Refused(Exception):
    pass


class _Doubled(_Refused):
    pass


class _NotANumber(_Refused):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Doubled
    return found


def _constant(name: str) -> NoReturn:
    raise _NotANumber


_DECODE: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant).decode


def parse_json(
    text: str, path: str, *, lines: Lines | None = None, start: int = 0, end: int | None = None
) -> JsonSource:
    """`start` and `end` bound the document within a longer text, such as a string in TOML.

    Raises UnreadableSource, with the place, for malformed text, a key that stands twice, NaN and Infinity, halves of
    surrogate pairs, nesting over 128 levels, numbers of over 4,300 digits and over 5,000,000 values.
    """
    lines = lines or Lines(text)
    document = text if end is None else text[start:end]

    def refuse(message: str, offset: int | None) -> NoReturn:
        line, column = lines.spot(start + (offset or 0))
        raise UnreadableSource(message, Place(path, line, column))

    if document.count(",") + document.count("[") + document.count("{") > MAX_VALUES:
        refuse(f"holds over {MAX_VALUES:,} values", 0)
    try:
        value = _DECODE(document)
        deep = _deeper_than(value, MAX_DEPTH)
    except json.JSONDecodeError as broken:
        cut = broken.pos >= len(document.rstrip()) or broken.msg.startswith("Unterminated string")
        said = "the text ends too early" if cut else broken.msg[0].lower() + broken.msg[1:]
        refuse(f"is not valid JSON: {said}", broken.pos)
    except RecursionError:
        deep, value = True, None
    except _Doubled:
        key, offset = json_faults.first_repeated_key(document)
        refuse(f'is not usable JSON: the key "{shown(key)}" stands twice in one object', offset)
    except _NotANumber:
        refuse("is not valid JSON: NaN and Infinity are not JSON numbers", json_faults.first_constant(document))
    except ValueError:
        refuse("is not usable JSON: a number has over 4,300 digits", json_faults.first_long_number(document))
    if deep:
        refuse(f"is nested deeper than {MAX_DEPTH} levels", json_faults.first_deeper(document, MAX_DEPTH))
    if _SURROGATE.search(document) is not None and (half := json_faults.first_half_pair(document)) is not None:
        refuse("is not usable JSON: a text holds half of a surrogate pair", half)
    return JsonSource(path, value, text, lines, start)


class JsonSource:
    """A `Source` over JSON text. One level of one object is looked through at a time, and remembered."""

    def __init__(self, path: str, value: Any, text: str, lines: Lines, start: int = 0) -> None:
        self.path = path
        self.value = value
        self._text = text
        self._lines = lines
        self._start = _SPACE.match(text, start).end()  # type: ignore[union-attr]  # it matches anywhere
        self._levels: dict[At, dict[str | int, tuple[int, int]]] = {}

    def spot(self, at: At, *, of_value: bool = False) -> Spot | None:
        offsets = self._offsets(at)
        return None if offsets is None else self._lines.spot(offsets[1 if of_value else 0])

    def _offsets(self, at: At) -> tuple[int, int] | None:
        """The offsets of key and value; an element, and the root, is its own key."""
        found = (self._start, self._start)
        for depth, step in enumerate(at):
            level = self._levels.get(at[:depth])
            if level is None:
                level = self._levels[at[:depth]] = _members(self._text, found[1])
            if step not in level:
                return None
            found = level[step]
        return found


def _members(text: str, offset: int) -> dict[str | int, tuple[int, int]]:
    """The members of the object or list at an offset of valid JSON; none of a scalar. Values are stepped over in C."""
    opening = text[offset : offset + 1]
    found: dict[str | int, tuple[int, int]] = {}
    if opening not in ("{", "["):
        return found
    skip_space = _SPACE.match
    at = skip_space(text, offset + 1).end()  # type: ignore[union-attr]
    while text[at] not in "]}":
        key: str | int = len(found)
        key_at = at
        if opening == "{":
            key, at = _SKIP(text, at)
            at = skip_space(text, at).end() + 1  # type: ignore[union-attr]  # past the colon
            at = skip_space(text, at).end()  # type: ignore[union-attr]
        found[key] = (key_at, at)
        _, at = _SKIP(text, at)
        at = skip_space(text, at).end()  # type: ignore[union-attr]
        if text[at] == ",":
            at = skip_space(text, at + 1).end()  # type: ignore[union-attr]
    return found


def _deeper_than(value: Any, limit: int) -> bool:
    """Level by level: no stack, and each container is looked at once."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        below: list[Any] = []
        for container in level:
            parts = container.values() if type(container) is dict else container
            below += [part for part in parts if type(part) is dict or type(part) is list]
        level = below
    return bool(level)
