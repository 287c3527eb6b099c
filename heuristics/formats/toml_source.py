"""TOML with positions: the standard library reads it, then the keys are looked for in the text it accepted."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Final

from heuristics.declared_tool import Place
from heuristics.formats import json_faults
from heuristics.formats.limits import MAX_DEPTH, MAX_TOML_BYTES
from heuristics.formats.spotted import SpottedSource
from heuristics.formats.text import Lines
from heuristics.formats.toml_keys import spots_in
from heuristics.formats.unreadable import UnreadableSource, shown

__all__ = ["TomlSource", "parse_toml"]

_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
# A key of very many parts takes the library the square of their number.
_LONG_KEY: Final = re.compile(
    r"(?<![\w.-])(?:(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*+\.[ \t]*+){" + f"{MAX_DEPTH}}}"
)


@dataclass(frozen=True, slots=True)
class TomlSource(SpottedSource):
    """Also knows its text, since strings in it may hold JSON."""

    text: str = ""
    lines: Lines | None = None


def parse_toml(text: str, path: str) -> TomlSource:
    """Raises UnreadableSource, with the place, for malformed TOML."""
    lines = Lines(text)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_TOML_BYTES:
        raise UnreadableSource(f"has {size:,} bytes of TOML; at most {MAX_TOML_BYTES:,} are read", Place(path))
    too_deep = f"is nested deeper than {MAX_DEPTH} levels"
    if (long_key := _LONG_KEY.search(text)) is not None:
        raise UnreadableSource(too_deep, Place(path, *lines.spot(long_key.start())))
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise UnreadableSource(too_deep, _first_deeper(text, path, lines)) from None
    except ValueError as broken:  # a plain one is a number of too many digits
        said = str(broken)
        place = _PLACE.search(said)
        spot = lines.spot(len(text))
        if place is not None:
            said = said[: place.start()]
            spot = (int(place[1]), int(place[2])) if place[1] else spot
        message = f"is not valid TOML: {shown(said[:1].lower() + said[1:], 200)}"
        raise UnreadableSource(message, Place(path, *(spot if place is not None else (None, None)))) from None
    if _deeper_than(value, MAX_DEPTH):
        raise UnreadableSource(too_deep, _first_deeper(text, path, lines))
    return TomlSource(path, value, spots_in(text, value, lines), text=text, lines=lines)


def _first_deeper(text: str, path: str, lines: Lines) -> Place:
    """By its brackets, which are JSON's; without a spot where tables are what is nested."""
    offset = json_faults.first_deeper(text, MAX_DEPTH)
    return Place(path) if offset is None else Place(path, *lines.spot(offset))


def _deeper_than(value: object, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            part
            for container in level
            if isinstance(container, dict | list)
            for part in (container.values() if isinstance(container, dict) else container)
        ]
    return any(isinstance(part, dict | list) for part in level)
