"""JSON as promises 2.9 and 2.10 want it: exact numbers, no repeated keys, nothing repaired.

A parsed document is made of dict, list, str, bool, None, int and `Number`. A `Number` is every literal that
a Python int would not give back digit for digit (`1.0`, `1e0`, `-0`); it keeps its text, so that the merchant
receives what the caller wrote.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, TypeAlias

import msgspec

MAX_DEPTH: Final = 64
MAX_DIGITS: Final = 1_000

Json: TypeAlias = Any
"""dict[str, Json] | list[Json] | str | bool | None | int | Number"""

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
# The closing quote is optional: were it not, text that never closes would be tried again from each of its quotes.
# The tail of an unterminated string counts as string too, and nothing backtracks: one pass over any bytes.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS: Final = bytes(code for code in range(256) if code not in b"[]{}")
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?")


class JsonRefused(ValueError):
    """The text is not acceptable JSON; the message says why, in words fit for an answer (promise 2.9)."""


class Number:
    """A number literal kept as written. `canonical` is its exact decimal value, one text a value (2.10)."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Number({self.text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.canonical() == other.canonical()

    def __hash__(self) -> int:
        return hash(self.canonical())

    def canonical(self) -> str:
        """Integer values as plain digits, others as `<digits>e<exponent>` without trailing zeros."""
        whole, _, fraction = self.text.partition(".")
        if fraction.isdecimal() and fraction[-1] != "0" and whole[0] not in "-0":
            return f"{whole}{fraction}e-{len(fraction)}"  # most numbers are prices
        found = _NUMBER.fullmatch(self.text)
        assert found is not None
        sign, whole, fraction, exponent = found.groups()
        digits = (whole + (fraction or "")).lstrip("0")
        power = int(exponent or 0) - len(fraction or "")
        stripped = digits.rstrip("0")
        if not stripped:
            return "0"
        power += len(digits) - len(stripped)
        if power >= 0:
            return sign + stripped + "0" * power
        return f"{sign}{stripped}e{power}"


def parse(text: str, *, max_depth: int = MAX_DEPTH) -> Json:
    """Parse one JSON document.

    Raises JsonRefused for malformed or truncated text, repeated keys at any depth, NaN and Infinity and what
    overflows to them, lone surrogates, nesting over `max_depth`, and numbers over 1,000 digits.
    """
    try:
        found = _plainly_written(text.encode(), max_depth)
    except UnicodeEncodeError:
        found = _OTHERWISE
    return _parsed(text, max_depth) if found is _OTHERWISE else found


def parse_bytes(data: bytes, *, max_depth: int = MAX_DEPTH) -> Json:
    """`parse` for bytes, which must be UTF-8. Raises JsonRefused."""
    found = _plainly_written(data, max_depth)
    if found is not _OTHERWISE:
        return found
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as broken:
        raise JsonRefused(f"not UTF-8 at byte {broken.start}") from None
    return _parsed(text, max_depth)


def _plainly_written(data: bytes, max_depth: int) -> Json:
    """The document, read by a parser that is three times as fast and less strict; _OTHERWISE where it may not be used.

    It may where the document, written again, is what came, white space apart: then no key stood twice, and every number
    is the one that was written. Whatever is refused, and many things that are not, are left to the strict one.
    """
    if len(data.translate(None, _NOT_BRACKETS)) > 2 * max_depth:
        return _OTHERWISE  # perhaps nested too deep
    if len(data) > MAX_DIGITS and _TOO_MANY_DIGITS in data.translate(_DIGITS):
        return _OTHERWISE
    try:
        value = _DECODE(data)
        again = _AS_SENT(value)
        return value if again == data or again == _without_blanks(data, indent=-1) else _OTHERWISE
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return _OTHERWISE


def _parsed(text: str, max_depth: int) -> Json:
    if text.count("[") + text.count("{") > max_depth and deeper_than(max_depth, text.encode("utf-8", "surrogatepass")):
        raise JsonRefused(f"nested deeper than {max_depth} levels")
    try:
        value = _decode(text)
    except json.JSONDecodeError as broken:
        if broken.pos >= len(text.rstrip()) or broken.msg.startswith("Unterminated string"):
            raise JsonRefused("malformed JSON: the text looks truncated") from None
        raise JsonRefused(f"malformed JSON: {broken.msg} at character {broken.pos}") from None
    except RecursionError:
        raise JsonRefused(f"nested deeper than {max_depth} levels") from None
    if _SURROGATE_ESCAPE.search(text) or not text.isascii():
        _refuse_surrogates(value)
    return value


def dumps(value: Json, *, canonical: bool = False) -> str:
    """Write a parsed document without white space: as sent, or canonical (keys sorted, exact decimals)."""
    return (canonical_bytes(value)[0] if canonical else _AS_SENT(value)).decode()


def canonical_bytes(value: Json) -> tuple[bytes, bool]:
    """The canonical form in UTF-8, and whether the document holds a `Number` (so that `plain` would change it)."""
    try:
        return _WITHOUT_NUMBERS(value), False
    except _HasNumber:
        return _CANONICAL(value), True


def deeper_than(limit: int, data: bytes) -> bool:
    """Whether JSON text nests deeper. A scan, not a parse: a million open brackets must cost neither the stack nor
    the time of a parser."""
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    level = 0
    for sign in _STRING.sub(b"", data).translate(None, _NOT_BRACKETS):
        if sign in b"[{":
            level += 1
            if level > limit:
                return True
        else:
            level -= 1
    return False


def plain(value: Json) -> Json:
    """The same document with each Number as an int or float: for schema checks, never for identity."""
    if isinstance(value, Number):
        canonical = value.canonical()
        return float(value.text) if "e" in canonical else int(canonical)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


class _HasNumber(Exception):
    pass


def _refuse_number(_: Number) -> Json:
    raise _HasNumber


def _as_sent(number: Number) -> msgspec.Raw:
    return msgspec.Raw(number.text.encode())


def _exact_decimal(number: Number) -> msgspec.Raw:
    return msgspec.Raw(number.canonical().encode())


_AS_SENT: Final = msgspec.json.Encoder(enc_hook=_as_sent).encode
_CANONICAL: Final = msgspec.json.Encoder(enc_hook=_exact_decimal, order="deterministic").encode
_WITHOUT_NUMBERS: Final = msgspec.json.Encoder(enc_hook=_refuse_number, order="deterministic").encode


def _integer(text: str) -> int | Number:
    if len(text) < 18 and text != "-0":
        return int(text)
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise JsonRefused(f"a number has over {MAX_DIGITS:,} digits")
    return Number(text) if text == "-0" else int(text)


def _decimal(text: str) -> Number:
    if len(text) > MAX_DIGITS and sum(map(str.isdigit, text)) > MAX_DIGITS:
        raise JsonRefused(f"a number has over {MAX_DIGITS:,} digits")
    if math.isinf(float(text)):
        raise JsonRefused(f"the number {text[:40]} overflows to infinity")
    number = Number(text)
    # An exponent is free to write and dear to expand: without this, 1e-999999999 and its like would be
    # kept as a number no one downstream can hold.
    exponent = re.split("[eE]", text)[1:]
    if exponent and len(exponent[0].lstrip("+-0")) > 6:
        raise JsonRefused(f"the number {text[:40]} has an exponent out of range")
    return number


_OTHERWISE: Final = object()
_DECODE: Final = msgspec.json.Decoder(float_hook=_decimal).decode
_without_blanks: Final = msgspec.json.format
_DIGITS: Final = bytes(48 if 48 <= code <= 57 else 32 for code in range(256))
_TOO_MANY_DIGITS: Final = b"0" * (MAX_DIGITS + 1)


def _constant(name: str) -> Json:
    raise JsonRefused(f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonRefused(f"the key {key[:80]!r} stands twice in one object")
            seen.add(key)
    return found


_decode: Final = json.JSONDecoder(
    parse_int=_integer, parse_float=_decimal, parse_constant=_constant, object_pairs_hook=_object
).decode


def _refuse_surrogates(value: Json) -> None:
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError:
                raise JsonRefused("a string holds half of a surrogate pair") from None
        elif isinstance(item, dict):
            todo.extend(item)
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
