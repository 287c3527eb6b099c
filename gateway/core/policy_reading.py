"""Reading a policy's parts strictly: every problem is collected with its place, and no value is repeated. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from gateway.core.policy_values import Amount, number_of
from gateway.core.strict_json import Json, Number
from heuristics import nearest

Path: TypeAlias = tuple[str | int, ...]

MAX_TEXT: Final = 2_000
_BARE: Final = re.compile(r"[\w/~*-]+").fullmatch
_MEANT: Final = {
    "gte": "ge", "lte": "le", "min": "ge", "max": "le", "eq": "equals", "in": "one_of", "any_of": "one_of",
    "matches": "regex", "pattern": "regex", "tool": "target", "tools": "targets", "model": "target",
    "action": "decision",
}  # fmt: skip
"""What other systems call these; letters alone would not find them."""


class PolicyProblem(msgspec.Struct, frozen=True):
    """One thing that is wrong. `rule` is the id of the rule it is in, if that can be read."""

    at: Path
    problem: str
    rule: str | None = None

    @property
    def path(self) -> str:
        """`rules[3].when.arguments./total.gt`; rules are counted from 0, as they stand in the document."""
        shown = ""
        for part in self.at:
            if isinstance(part, int):
                shown += f"[{part}]"
            else:
                shown += ("." if shown else "") + (part if _BARE(part) else json.dumps(part[:80], ensure_ascii=False))
        return shown

    @property
    def pointer(self) -> str:
        """The same place as a JSON Pointer, for problems of a request's body."""
        return "".join("/" + str(part)[:80].replace("~", "~0").replace("/", "~1") for part in self.at)

    def __str__(self) -> str:
        inside = f' (rule "{self.rule}")' if self.rule is not None else ""
        return f"{self.path}: {self.problem}{inside}" if self.at else f"{self.problem}{inside}"


class PolicyRefused(ValueError):
    """A bundle that cannot be used, with all that is wrong with it."""

    def __init__(self, problems: list[PolicyProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class Reading:
    """What is read of one rule, or of the bundle around them; the getters give None for what is missing or wrong."""

    def __init__(self, rule: str | None = None) -> None:
        self.problems: list[PolicyProblem] = []
        self._rule = rule

    def wrong(self, at: Path, problem: str) -> None:
        self.problems.append(PolicyProblem(at, problem, self._rule))

    def table(
        self, at: Path, value: Json, known: Collection[str], required: Iterable[str] = ()
    ) -> dict[str, Json] | None:
        """A table of known keys, the unknown ones reported and left out."""
        if not isinstance(value, dict):
            self.wrong(at, "must be a table")
            return None
        for key in value:
            if key not in known:
                self.wrong((*at, key), _unknown(key, known))
        for key in required:
            if key not in value:
                self.wrong((*at, key), "is required")
        return {key: inner for key, inner in value.items() if key in known}

    def text(self, at: Path, value: Json, longest: int = MAX_TEXT) -> str | None:
        if not isinstance(value, str):
            self.wrong(at, "must be a text")
        elif not value.strip():
            self.wrong(at, "must not be empty")
        elif len(value) > longest:
            self.wrong(at, f"must have at most {longest:,} characters")
        else:
            return value
        return None

    def choice(self, at: Path, value: Json, choices: Collection[str]) -> str | None:
        if isinstance(value, str) and value in choices:
            return value
        self.wrong(at, "must be " + _either(choices))
        return None

    def texts(self, at: Path, value: Json, longest: int = MAX_TEXT, choices: Collection[str] = ()) -> list[str] | None:
        """A text, or a list of one or more."""
        if isinstance(value, list) and not value:
            self.wrong(at, "must not be empty")
            return None
        items = value if isinstance(value, list) else [value]
        places = [(*at, place) if isinstance(value, list) else at for place in range(len(items))]
        read = [
            self.choice(place, item, choices) if choices else self.text(place, item, longest)
            for place, item in zip(places, items, strict=True)
        ]
        for place, item in enumerate(items):
            if isinstance(item, str) and item in items[:place]:
                self.wrong(places[place], "stands twice")
        found = [item for item in read if item is not None]
        return found if len(found) == len(items) else None

    def flag(self, at: Path, value: Json) -> bool | None:
        if isinstance(value, bool):
            return value
        self.wrong(at, "must be true or false")
        return None

    def amount(self, at: Path, value: Json) -> Amount | None:
        """An exact number, or a text that is a plain decimal: money is often written so."""
        number = number_of(value)
        if number is None:
            self.wrong(at, "must be a number")
        return number

    def whole(self, at: Path, value: Json, least: int, most: int) -> int | None:
        number = number_of(value) if type(value) in (int, Number) else None
        if number is not None and least <= number <= most and number == int(number):
            return int(number)
        self.wrong(at, f"must be a whole number from {least:,} to {most:,}")
        return None


def exact(value: Any, reading: Reading, at: Path = (), deepest: int = 16) -> Json:
    """The document with exact numbers, in types of JSON only; anything else is reported and becomes a zero."""
    kind = type(value)
    if kind in (str, bool, int, Number) or value is None:
        if kind is str and not _encodes(value):
            reading.wrong(at, "holds half of a surrogate pair")
            return 0
        return value
    if kind is float:
        if number_of(value) is None:
            reading.wrong(at, "must be a finite number")
            return 0
        text = repr(value)
        return Number(text)
    if len(at) >= deepest:
        reading.wrong(at, f"is nested deeper than {deepest} levels")
    elif isinstance(value, Mapping):
        found: dict[str, Json] = {}
        for key, inner in value.items():
            if isinstance(key, str) and _encodes(key):
                found[key] = exact(inner, reading, (*at, key), deepest)
            else:
                reading.wrong(at, "has a key that is not a text")
        return found
    elif isinstance(value, list | tuple):
        return [exact(inner, reading, (*at, place), deepest) for place, inner in enumerate(value)]
    else:
        reading.wrong(at, "must be a text, a number, true, false, a list or a table")
    return 0


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown(key: str, known: Collection[str]) -> str:
    meant = _MEANT.get(key)
    near = [meant] if meant in known else nearest(key, known, 1)
    return f"is not a known field; did you mean {near[0]}?" if near else "is not a known field"


def _either(choices: Collection[str]) -> str:
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last
