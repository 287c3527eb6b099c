"""Tools' parameters as JSON Schema 2020-12: checked once at registration, and every call's arguments against them.

Nothing is ever fetched, and no message repeats a value of a call (9.3).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from gateway.core.masking import hidden_at
from gateway.core.model import Tool
from gateway.core.schema_shape import DEEPEST_VALUE, shape_problems, visits

Problem = dict[str, str]
"""`{"field": JSON pointer, "problem": words}`."""

MOST_PROBLEMS: Final = 20
MOST_COMPILED: Final = 1_024
MOST_VISITS: Final = 2_000_000
"""Visits of subschemas that one check may cause: well under a second."""
CHEAP_VISITS: Final = 200
"""Up to so many on the way to any part of a value, at any depth, its size is not even looked at."""

_MASK: Final = "the value"
# Plain patterns run in linear time; those that need backtracking are given up after so many steps.
_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000, size_limit=1 << 20, dfa_size_limit=1 << 20)
_SAID: Final = {
    "falseSchema": "is not allowed here",
    "not": "has a form that is not allowed here",
    "propertyNames": "has a field whose name is not allowed",
}
_TOO_DEEP: Final = "is too large and too deeply nested to be checked against this tool's parameters"


class Schemas:
    """Compiled parameters, kept by company, tool and version; the ones used longest ago give way."""

    def __init__(self, *, most: int = MOST_COMPILED) -> None:
        self._most = most
        self._compiled: OrderedDict[tuple[str, str, int], _Compiled] = OrderedDict()

    def problems(self, tool: Tool, value: Any) -> list[Problem]:
        """What is wrong with a call's arguments, given as `strict_json.plain` has them; at most twenty."""
        key = (tool.company, tool.name, tool.version)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = _Compiled.of(tool.parameters)
            if len(self._compiled) > self._most:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(key)
        return compiled.problems(value)

    def schema_problems(self, parameters: Mapping[str, Any]) -> list[Problem]:
        """What is wrong with a tool's parameters; what has none will compile when it is called."""
        found = shape_problems(parameters)
        if found:
            return [{"field": "/parameters" + pointer, "problem": problem} for pointer, problem in found]
        try:
            _Compiled.of(parameters)
        except jsonschema_rs.ValidationError as wrong:
            return [{"field": "/parameters" + _pointer(wrong.instance_path), "problem": _schema_problem(wrong)}]
        except (ValueError, jsonschema_rs.ReferencingError):
            return [{"field": "/parameters", "problem": "is not a usable JSON Schema"}]
        return []


@dataclass(frozen=True, slots=True)
class _Compiled:
    schema: Mapping[str, Any]
    validator: jsonschema_rs.Draft202012Validator
    visits: tuple[int, ...]

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> _Compiled:
        schema = dict(parameters)
        validator = jsonschema_rs.Draft202012Validator(
            schema, mask=_MASK, offline=True, validate_formats=False, pattern_options=_PATTERNS
        )
        return cls(schema, validator, visits(schema))

    def problems(self, value: Any) -> list[Problem]:
        if self.cheap or self._affordable(value):
            if self.validator.is_valid(value):
                return []
            errors = islice(self.validator.iter_errors(value), MOST_PROBLEMS)
            return list(islice((each for error in errors for each in self._of(error, value)), MOST_PROBLEMS))
        return [{"field": "/arguments", "problem": _TOO_DEEP}]

    @property
    def cheap(self) -> bool:
        return self.visits[-1] <= CHEAP_VISITS

    def _affordable(self, value: Any) -> bool:
        parts, deepest, todo = 0, 0, [(value, 0)]
        while todo:
            item, depth = todo.pop()
            parts, deepest = parts + 1, max(deepest, depth)
            if isinstance(item, dict):
                todo.extend((part, depth + 1) for part in item.values())
            elif isinstance(item, list):
                todo.extend((part, depth + 1) for part in item)
        return parts * self.visits[min(deepest, DEEPEST_VALUE)] <= MOST_VISITS

    def _of(self, error: jsonschema_rs.ValidationError, value: Any) -> Iterator[Problem]:
        kind: Any = error.kind
        path = list(error.instance_path)
        hidden = hidden_at(self.schema, path)
        if hidden is not None:
            # Below a sensitive field even the names may be data.
            field = "/arguments" + _pointer(path[:hidden])
            yield {"field": field, "problem": f"does not fit its schema ({kind.name}; the field is sensitive)"}
            return
        field = "/arguments" + _pointer(path)
        if kind.name == "required":
            yield {"field": f"{field}{_pointer([kind.property])}", "problem": "is required"}
        elif kind.name in ("additionalProperties", "unevaluatedProperties") or _allows_no_field(error):
            # The library does not name them where the schema allows no field at all.
            for name in getattr(kind, "unexpected", None) or _at(value, path):
                yield {"field": f"{field}{_pointer([name])}", "problem": "is not a field of this tool"}
        else:
            yield {"field": field, "problem": _SAID.get(kind.name) or _without_mask(error.message)}


def _allows_no_field(error: jsonschema_rs.ValidationError) -> bool:
    return error.kind.name == "falseSchema" and error.evaluation_path[-1:] == ["additionalProperties"]


def _at(value: Any, path: list[str | int]) -> Any:
    for word in path:
        value = value[word]
    return value


def _pointer(path: list[str | int]) -> str:
    return "".join("/" + str(part)[:200].replace("~", "~0").replace("/", "~1") for part in path)


def _without_mask(message: str) -> str:
    return message.removeprefix(f"{_MASK} ")[:300]


def _schema_problem(wrong: jsonschema_rs.ValidationError) -> str:
    return f"is not valid JSON Schema 2020-12: {wrong.message[:300]}"
