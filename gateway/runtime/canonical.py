"""One text for one JSON value, however it was written: what the names of a turn's effects are digests of.

It follows 2.10 (keys sorted, numbers as exact decimals, strings as sent), so that what the gateway takes for one
effect has one name here, also after a float came back from a record as a Decimal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def canonical(value: Any) -> str:
    """Raises ValueError for what is not JSON, and never shows the value."""
    try:
        return _text(value)
    except RecursionError:
        raise ValueError("nested too deeply for JSON") from None


def digest(*parts: str) -> str:
    """64 hex digits naming `parts` in their order."""
    # Without the lengths, "ab" + "c" and "a" + "bc" would be one effect.
    pieces = [part.encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join(len(piece).to_bytes(8) + piece for piece in pieces)).hexdigest()


def _text(value: Any) -> str:
    match value:
        case None | bool() | str():
            return json.dumps(value)
        case int():
            return _number(Decimal(value))
        case float():
            return _number(Decimal(repr(value)))
        case Decimal():
            return _number(value)
        case Mapping():
            if not all(isinstance(key, str) for key in value):
                raise ValueError("a key that is not text is not JSON")
            return "{" + ",".join(f"{json.dumps(key)}:{_text(value[key])}" for key in sorted(value)) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_text, value)) + "]"
    raise ValueError(f"a value of type {type(value).__name__} is not JSON")


def _number(value: Decimal) -> str:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("NaN and Infinity are not JSON")
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return "0"
    return f"{'-' if sign else ''}{kept}e{exponent + len(text) - len(kept)}"
