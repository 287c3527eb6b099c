"""What policy conditions compare: where a JSON Pointer leads, and exact numbers. Pure.

Null counts as nothing there, as it does where a model must send every optional field (7.3): a pointer to it leads
nowhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, TypeAlias

import msgspec

from gateway.core.strict_json import Json, Number

Amount: TypeAlias = int | Decimal
"""An exact number; the two compare with each other without rounding."""

MAX_POINTER: Final = 512
_PLAIN: Final = re.compile(r"-?[0-9]{1,1000}(?:\.[0-9]{1,1000})?").fullmatch
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}").fullmatch
_BAD_ESCAPE: Final = re.compile(r"~(?![01])").search


class Pointer(msgspec.Struct, frozen=True):
    """A JSON Pointer (RFC 6901), split into its reference tokens: each a name and, where it can be one, an index."""

    text: str
    tokens: tuple[tuple[str, int | None], ...]

    def find(self, document: Json) -> Json:
        """The value it leads to; None if that is null or nothing is there."""
        at = document
        for name, index in self.tokens:
            if type(at) is dict:
                at = at.get(name)
            elif type(at) is list and index is not None and index < len(at):
                at = at[index]
            else:
                return None
        return at


def pointer_problem(text: str) -> str | None:
    """What is wrong with a JSON Pointer, if anything."""
    if len(text) > MAX_POINTER:
        return f"is a JSON Pointer of over {MAX_POINTER} characters"
    if text and not text.startswith("/"):
        return "must be a JSON Pointer, which starts with /"
    if _BAD_ESCAPE(text):
        return "is not a JSON Pointer: ~ is written ~0, and / within a name ~1"
    return None


def pointer(text: str) -> Pointer:
    """Expects one without a `pointer_problem`."""
    # ~1 first: the other way round ~01 would become a slash.
    names = (token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:])
    return Pointer(text, tuple((name, int(name) if _INDEX(name) else None) for name in names))


def number_of(value: Json) -> Amount | None:
    """The exact number that a value is, or that its whole text writes as a plain decimal (`"24000.00"`); else None.

    Not numbers: booleans, and texts with a sign of plus, an exponent, spaces, separators or a currency.
    """
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is Number:
        return Decimal(value.text)
    if kind is str:
        return Decimal(value) if _PLAIN(value) else None
    if kind is float and math.isfinite(value):
        return Decimal(repr(value))
    return None


class Interval(msgspec.Struct, frozen=True):
    """Numbers between two bounds; None is no bound."""

    lower: Amount | None = None
    upper: Amount | None = None
    above: bool = False
    """The lower bound itself is out (`gt`)."""
    below: bool = False
    """The upper bound itself is out (`lt`)."""

    def holds(self, number: Amount) -> bool:
        lower, upper = self.lower, self.upper
        if lower is not None and (number <= lower if self.above else number < lower):
            return False
        return upper is None or (number < upper if self.below else number <= upper)

    @property
    def empty(self) -> bool:
        if self.lower is None or self.upper is None:
            return False
        return self.lower > self.upper or (self.lower == self.upper and (self.above or self.below))

    def within(self, other: Interval) -> bool:
        """Every number in it is in the other."""
        if other.lower is not None:
            if self.lower is None or self.lower < other.lower:
                return False
            if self.lower == other.lower and other.above and not self.above:
                return False
        if other.upper is not None:
            if self.upper is None or self.upper > other.upper:
                return False
            if self.upper == other.upper and other.below and not self.below:
                return False
        return True

    def bounds(self) -> Iterator[tuple[str, Amount]]:
        """As operators of a condition: `("gt", 5000)`."""
        if self.lower is not None:
            yield ("gt" if self.above else "ge"), self.lower
        if self.upper is not None:
            yield ("lt" if self.below else "le"), self.upper
