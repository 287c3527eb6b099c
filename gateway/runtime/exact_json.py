"""JSON in and out without a digit lost (2.10: the merchant receives the caller's values digit for digit)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NoReturn

_MOST_DIGITS: Final = 4_000
"""Python makes no int of over 4,300."""


def encode(value: object) -> str:
    """`value` as JSON text. Takes mappings with text keys, lists, tuples, text, bool, None, int, float
    and Decimal.

    Integers and Decimals keep every digit, floats their shortest exact form. Anything that JSON cannot say
    raises ValueError, and never shows the value: it may be a customer's.
    """
    parts: list[str] = []
    try:
        _write(value, parts)
    except RecursionError:
        raise ValueError("nested too deeply for JSON") from None
    return "".join(parts)


def decode(text: str, *, exact: bool = True) -> Any:
    """The value in JSON `text`: integers exact; numbers with a point or an exponent as Decimal, or as float
    if not `exact`. Raises ValueError for anything else, NaN and Infinity among them."""
    try:
        if exact:
            return json.loads(text, parse_float=Decimal, parse_constant=_refuse)
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply for JSON") from None
    except ArithmeticError:
        raise ValueError("a number beyond what a decimal can hold") from None


def decode_answer(text: str, *, exact: bool = True) -> Any:
    """As `decode`, but for numbers that Python cannot hold: an integer of over 4,000 digits is a Decimal, a number
    whose exponent no Decimal has is its own text.

    A merchant may put any number into its result. If the answer could not be read for it, an order that was placed
    would look unknown at every repeat, and so would all others of its batch."""
    try:
        number = _decimal if exact else None
        return json.loads(text, parse_int=_integer, parse_float=number, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply for JSON") from None


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _MOST_DIGITS else Decimal(digits)


def _decimal(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except ArithmeticError:
        return text


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _write(value: object, parts: list[str]) -> None:
    match value:
        case None:
            parts.append("null")
        case bool():  # before int: True is an int to Python, not to JSON
            parts.append("true" if value else "false")
        case str():
            parts.append(json.dumps(value))
        case int():
            parts.append(int.__repr__(value))
        case float():
            parts.append(json.dumps(value, allow_nan=False))
        case Decimal():
            if not value.is_finite():
                raise ValueError("NaN and Infinity are not JSON")
            parts.append(str(value))
        case Mapping():
            _write_object(value, parts)
        case list() | tuple():
            for index, item in enumerate(value):
                parts.append("," if index else "[")
                _write(item, parts)
            parts.append("]" if value else "[]")
        case _:
            raise ValueError(f"a value of type {type(value).__name__} is not JSON")


def _write_object(value: Mapping[Any, Any], parts: list[str]) -> None:
    for index, (key, item) in enumerate(value.items()):
        if not isinstance(key, str):
            # json.dumps would turn 1 and "1" into one name twice: two readers, two carts.
            raise ValueError(f"a key of type {type(key).__name__} is not JSON")
        parts.append(("," if index else "{") + json.dumps(key) + ":")
        _write(item, parts)
    parts.append("}" if value else "{}")
