"""What a rule asks of one argument, with three answers: yes, no, and cannot be compared. Pure.

The third is why this file exists. A rule that holds orders above an amount must not let one pass because the model
wrote the amount as `"24,000"` or as an array. So a value that is there, but is of a kind that the condition cannot
compare, is neither yes nor no (None): a rule that denies or asks then matches, one that allows does not (7.3).

| condition | compares | answers None for |
|---|---|---|
| `gt`, `ge`, `lt`, `le` | numbers, and texts that are a plain decimal | anything else |
| `equals`, `one_of` | values of one kind; a number also with a text that is a plain decimal | another kind |
| `contains` | a text within a text; an item in an array | anything else |
| `regex` | texts up to 8,192 bytes | anything else |
| `exists` | whether it is there and not null | nothing |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from gateway.core.policy_patterns import Pattern
from gateway.core.policy_values import Interval, Pointer, number_of
from gateway.core.strict_json import Json, Number, canonical_bytes

Answer: TypeAlias = bool | None
"""None: cannot be compared."""
Check: TypeAlias = Callable[[Json], Answer]


class Wanted(msgspec.Struct, frozen=True):
    """Everything that a rule asks of one argument; all of it must hold."""

    at: Pointer
    exists: bool | None = None
    interval: Interval | None = None
    equals: Json = None
    one_of: tuple[Json, ...] = ()
    contains: Json = None
    regex: Pattern | None = None


class ArgumentCondition:
    """A `Wanted`, made ready to be asked often."""

    __slots__ = ("_absent", "_find", "_key", "checks", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.checks = tuple(_checks(wanted))
        self._absent = wanted.exists is False
        self._find = wanted.at.find
        self._key = wanted.at.tokens[0][0] if len(wanted.at.tokens) == 1 else None

    def answer(self, arguments: dict[str, Json]) -> Answer:
        value = arguments.get(self._key) if self._key is not None else self._find(arguments)
        if value is None or self._absent:
            return (value is None) is self._absent
        said: Answer = True
        for _, check in self.checks:
            answer = check(value)
            if answer is False:
                return False
            if answer is None:
                said = None
        return said


def _checks(wanted: Wanted) -> Iterable[tuple[str, Check]]:
    """Each under the operator that a person would look for."""
    if wanted.interval is not None:
        yield " and ".join(name for name, _ in wanted.interval.bounds()), _between(wanted.interval)
    if wanted.equals is not None:
        yield "equals", _equal_to(wanted.equals)
    if wanted.one_of:
        yield "one_of", _one_of(wanted.one_of)
    if wanted.contains is not None:
        yield "contains", _containing(wanted.contains)
    if wanted.regex is not None:
        yield "regex", _matching(wanted.regex)


def _between(interval: Interval) -> Check:
    def check(value: Json) -> Answer:
        number = number_of(value)
        return None if number is None else interval.holds(number)

    return check


def _equal_to(operand: Json) -> Check:
    kind = type(operand)
    if kind is str or kind is bool:
        return lambda value: value == operand if type(value) is kind else None
    if kind is int or kind is Number:
        wanted = number_of(operand)

        def same_number(value: Json) -> Answer:
            number = number_of(value)
            return None if number is None else number == wanted

        return same_number
    form = canonical_bytes(operand)[0]
    return lambda value: canonical_bytes(value)[0] == form if type(value) is kind else None


def _one_of(operands: tuple[Json, ...]) -> Check:
    if all(type(operand) is str for operand in operands):
        texts = frozenset(operands)
        return lambda value: value in texts if type(value) is str else None
    checks = tuple(_equal_to(operand) for operand in operands)
    return lambda value: _any(check(value) for check in checks)


def _containing(operand: Json) -> Check:
    equal = _equal_to(operand)

    def check(value: Json) -> Answer:
        if type(value) is list:
            return _any(False if item is None else equal(item) for item in value)
        if type(value) is str and type(operand) is str:
            return operand in value
        return None

    return check


def _matching(pattern: Pattern) -> Check:
    return lambda value: pattern.found_in(value) if type(value) is str else None


def _any(answers: Iterable[Answer]) -> Answer:
    said: Answer = False
    for answer in answers:
        if answer:
            return True
        if answer is None:
            said = None
    return said
