"""Where in a JSON text a fault stands that its parser only reports. Asked after a refusal, so speed does not matter
but growth does: each is one pass, without recursion."""

from __future__ import annotations

import json
import re
from typing import Final

__all__ = ["first_constant", "first_deeper", "first_half_pair", "first_long_number", "first_repeated_key"]

# The closing quote is optional and nothing backtracks: text that never closes is looked at once.
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]|NaN|-?Infinity|-?\d++', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def first_deeper(text: str, limit: int) -> int | None:
    level = 0
    for token in _TOKEN.finditer(text):
        sign = token.group()
        if sign in "[{":
            level += 1
            if level > limit:
                return token.start()
        elif sign in "]}":
            level -= 1
    return None


def first_repeated_key(text: str) -> tuple[str, int | None]:
    """The key and its second offset."""
    keys: list[set[str] | None] = []
    expected = False
    for token in _TOKEN.finditer(text):
        sign = token.group()
        if sign in ("{", "["):
            keys.append(set() if sign == "{" else None)
            expected = sign == "{"
        elif sign in ("}", "]"):
            keys.pop()
        elif sign == ",":
            expected = bool(keys) and keys[-1] is not None
        elif expected and sign[0] == '"' and keys and (seen := keys[-1]) is not None:
            key = str(json.loads(sign, strict=True))
            if key in seen:
                return key, token.start()
            seen.add(key)
            expected = False
    return "", None


def first_constant(text: str) -> int | None:
    return next((found.start() for found in _TOKEN.finditer(text) if found.group().endswith(("NaN", "Infinity"))), None)


def first_long_number(text: str, digits: int = 4_300) -> int | None:
    numbers = (found for found in _TOKEN.finditer(text) if found.group()[0] in "-0123456789")
    return next((found.start() for found in numbers if len(found.group().lstrip("-")) > digits), None)


def first_half_pair(text: str) -> int | None:
    """The first half of a surrogate pair that stands alone (RFC 8259, 8.2)."""
    high_at: int | None = None
    high_end = -1
    for escape in _ESCAPE.finditer(text):
        code = int(escape.group(1) or "0", 16)
        if high_at is not None:
            if escape.start() == high_end and 0xDC00 <= code < 0xE000:
                high_at = None
                continue
            return high_at
        if 0xD800 <= code < 0xDC00:
            high_at, high_end = escape.start(), escape.end()
        elif 0xDC00 <= code < 0xE000:
            return escape.start()
    return high_at
