"""A shape, and what `Arg` adds to it: bounds that the gateway's JSON Schema states and the shop checks again."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Schema = dict[str, Any]


class Unfit(Exception):
    """A value that is not of the shape. `path` names the field, such as `lines[0].sku`; no value is repeated."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path = path


@dataclass(frozen=True, slots=True)
class Arg:
    """What an annotation cannot say: `Annotated[int, Arg("How many", minimum=1)]`. Checked by the gateway and here.

    `sensitive` marks a value that no message may hold (9.3). Lengths are in characters, or items of a list.
    """

    description: str = ""
    minimum: int | Decimal | None = None
    maximum: int | Decimal | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """`schema` of the values, `read(value, path)` to make the argument. Raises Unfit."""

    schema: Schema
    read: Callable[[Any, str], Any]


def is_number(value: Any) -> bool:
    """A number in JSON's sense."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


_BOUNDS: dict[str, tuple[str, str, Callable[[Any, Any], bool], str]] = {
    # field of Arg: keyword for text and numbers, keyword for lists, what it asks, in words
    "minimum": ("minimum", "minimum", lambda value, bound: not is_number(value) or value >= bound, "at least"),
    "maximum": ("maximum", "maximum", lambda value, bound: not is_number(value) or value <= bound, "at most"),
    "min_length": ("minLength", "minItems", lambda value, bound: _length(value, bound) >= bound, "at least this long:"),
    "max_length": ("maxLength", "maxItems", lambda value, bound: _length(value, bound) <= bound, "at most this long:"),
    "pattern": ("pattern", "pattern", lambda v, p: not isinstance(v, str) or bool(re.search(p, v)), "of the form"),
}
_NUMBERS, _LONG = frozenset({"integer", "number"}), frozenset({"string", "array"})
_SAID_OF: dict[str, frozenset[str]] = {
    "minimum": _NUMBERS,
    "maximum": _NUMBERS,
    "min_length": _LONG,
    "max_length": _LONG,
    "pattern": frozenset({"string"}),
}


def _length(value: Any, otherwise: int) -> int:
    return len(value) if isinstance(value, str | list) else otherwise


def _in_words(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"


def bounded(shape: Shape, arg: Arg) -> Shape:
    """The shape within the bounds of `arg`. Raises TypeError for a bound that would not be kept."""
    schema = dict(shape.schema)
    bounds = [(name, getattr(arg, name)) for name in _BOUNDS if getattr(arg, name) is not None]
    kind = schema.get("type")
    for name, _ in bounds:
        if kind is not None and kind not in _SAID_OF[name]:
            raise TypeError(f"Arg({name}=...) says nothing about {_in_words(kind)}")
    for name, bound in bounds:
        keyword = _BOUNDS[name][schema.get("type") == "array"]
        schema[str(keyword)] = float(bound) if isinstance(bound, Decimal) else bound
    if arg.description:
        schema["description"] = arg.description
    if arg.sensitive:
        schema["x-sensitive"] = True

    def read(value: Any, path: str) -> Any:
        made = shape.read(value, path)
        for name, bound in bounds:
            _, _, holds, words = _BOUNDS[name]
            if not holds(value, bound):
                raise Unfit(path, f"is {words} {bound}")
        return made

    return Shape(schema, read)
