"""What a YAML scalar stands for: the core schema of YAML 1.2, which OpenAPI names. `no` is a text, and so is a date."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["ScalarRefused", "scalar"]

_NULL: Final = re.compile(r"~|null|Null|NULL|")
_BOOL: Final = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TAG: Final = "tag:yaml.org,2002:"
_LONGEST_NUMBER: Final = 4_300


class ScalarRefused(ValueError):
    """A tag that is not of the core schema, or a text that is not what its tag says."""


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ScalarRefused("a number has over 4,300 digits")
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)


_TYPES: Final[tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...]] = (
    ("null", _NULL, lambda text: None),
    ("bool", _BOOL, lambda text: text[0] in "tT"),
    ("int", _INT, _integer),
    ("float", _FLOAT, float),
)
_BY_TAG: Final[Mapping[str, tuple[re.Pattern[str], Callable[[str], Any]]]] = {
    name: (form, read) for name, form, read in _TYPES
}


def scalar(text: str, tag: str | None, *, plain: bool) -> Any:
    """`tag` as written, resolved; `plain` for a scalar without quotes. Raises ScalarRefused."""
    if tag in (None, "", "!"):
        if not plain or tag == "!":
            return text
        for _, form, read in _TYPES:
            if form.fullmatch(text):
                return read(text)
        return text
    name = str(tag).removeprefix(_TAG)
    if name == "str":
        return text
    if name not in _BY_TAG:
        raise ScalarRefused("tag")
    form, read = _BY_TAG[name]
    if form.fullmatch(text) is None:
        raise ScalarRefused(f"this is not a value of the tag !!{name}")
    return read(text)
