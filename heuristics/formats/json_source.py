"""JSON with positions: parsed at the speed of the standard library, located part by part when asked."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from heuristics.declared_tool import Place
from heuristics.formats import json_faults
from heuristics.formats.json_levels import Level, Outer, read_outer
from heuristics.formats.limits import MAX_DEPTH, MAX_VALUES
from heuristics.formats.source import At, Spot
from heuristics.formats.text import Lines
from heuristics.formats.unreadable import UnreadableSource, shown

__all__ = ["JsonSource", "parse_json"]

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_BEGINS_ONE: Final = ("\\ud", "\\uD")  # finding a text is much faster than a pattern
_SPACE: Final = re.compile(r"[ \t\n\r]*")


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


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


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
        value, levels, depth = _decoded(document, whole=end is None)
        deep = depth > MAX_DEPTH and _deeper_than(value, MAX_DEPTH)
    except json.JSONDecodeError as broken:
        cut = broken.pos >= len(document.rstrip()) or broken.msg.startswith("Unterminated string")
        said = "the text ends too early" if cut else broken.msg[0].lower() + broken.msg[1:]
        refuse(f"is not valid JSON: {said}", broken.pos)
    except RecursionError:
        deep, value, levels = True, None, {}
    except _Doubled:
        key, offset = json_faults.first_repeated_key(document)
        refuse(f'is not usable JSON: the key "{shown(key)}" stands twice in one object', offset)
    except _NotANumber:
        refuse("is not valid JSON: NaN and Infinity are not JSON numbers", json_faults.first_constant(document))
    except ValueError:
        refuse("is not usable JSON: a number has over 4,300 digits", json_faults.first_long_number(document))
    if deep:
        refuse(f"is nested deeper than {MAX_DEPTH} levels", json_faults.first_deeper(document, MAX_DEPTH))
    halves = any(each in document for each in _BEGINS_ONE) and _SURROGATE.search(document) is not None
    if halves and (half := json_faults.first_half_pair(document)) is not None:
        refuse("is not usable JSON: a text holds half of a surrogate pair", half)
    return JsonSource(path, value, text, lines, start, levels)


def _decoded(document: str, *, whole: bool) -> Outer:
    """The value, with the outer levels located where the document is all of the text."""
    if whole:
        try:
            return read_outer(document, _DECODER.raw_decode)
        except (ValueError, RecursionError, _Refused):
            pass  # the decoder on the whole document says what is wrong, and where
    return Outer(_DECODER.decode(document), {}, len(document))


class JsonSource:
    """A `Source` over JSON text. One level of one object is looked through at a time, as far as is asked."""

    def __init__(
        self, path: str, value: Any, text: str, lines: Lines, start: int = 0, levels: dict[At, Level] | None = None
    ) -> None:
        self.path = path
        self.value = value
        self._text = text
        self._lines = lines
        self._start = _SPACE.match(text, start).end()  # type: ignore[union-attr]  # it matches anywhere
        self._levels: dict[At, Level] = {} if levels is None else levels

    def spot(self, at: At, *, of_value: bool = False) -> Spot | None:
        offsets = self._offsets(at)
        return None if offsets is None else self._lines.spot(offsets[1 if of_value else 0])

    def _offsets(self, at: At) -> tuple[int, int] | None:
        """The offsets of key and value; an element, and the root, is its own key."""
        found = (self._start, self._start)
        for depth, step in enumerate(at):
            level = self._levels.get(at[:depth])
            if level is None:
                level = self._levels[at[:depth]] = Level(self._text, found[1])
            part = level.offsets(step)
            if part is None:
                return None
            found = part
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
