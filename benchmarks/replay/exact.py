"""JSON compared exactly: every digit of a result, every value of the arguments.

Written apart from the gateway's own canonical form, so that the two check each other.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from decimal import Decimal
from typing import Any, Final

NUMBER: Final = "number"


def exact(text: str | bytes) -> Any:
    """Parse JSON with numbers kept as `("number", "the digits as written")`. Raises ValueError."""
    return json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_refuse)


def is_json(text: str) -> bool:
    """Whether it is one JSON value (NaN and Infinity are not)."""
    try:
        exact(text)
    except ValueError:
        return False
    return True


def frozen(value: Any) -> Hashable:
    """An `exact` value as a key: equal for equal values, whatever the order of keys or the way of writing a
    number (1, 1.0, 1e0), different for 1, "1" and true."""
    if isinstance(value, dict):
        return ("object", frozenset((name, frozen(each)) for name, each in value.items()))
    if isinstance(value, list):
        return ("array", tuple(frozen(each) for each in value))
    if isinstance(value, tuple):
        return (NUMBER, Decimal(value[1]))
    return (type(value).__name__, value)


def arguments_of(text: str) -> Hashable:
    """The arguments a model's text stands for: an object, text holding one, or nothing at all. Raises ValueError."""
    value: Any = exact(text) if text.strip() else {}
    if isinstance(value, str):
        value = exact(value)
    if not isinstance(value, dict):
        raise ValueError("the arguments are not an object")
    return frozen(value)


def _number(digits: str) -> tuple[str, str]:
    return (NUMBER, digits)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
