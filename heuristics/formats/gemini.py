"""Gemini's function declarations. Their types are those of OpenAPI 3.0 in capitals: read as JSON Schema's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from heuristics.declared_tool import DeclaredTool
from heuristics.formats.building import Fields, build, refuse
from heuristics.formats.source import At, Source, value_at
from heuristics.formats.unreadable import kind_of

__all__ = ["CAPITALS", "GROUPS", "read"]

GROUPS: Final = ("functionDeclarations", "function_declarations")
CAPITALS: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL", "TYPE_UNSPECIFIED"})
_JSON_SCHEMA: Final = ("parametersJsonSchema", "parameters_json_schema")
_FIELDS: Final = Fields(parameters=(*((key,) for key in _JSON_SCHEMA), ("parameters",)))
_VALUES: Final = frozenset({"enum", "default", "example", "examples", "const", "required"})


def read(source: Source, at: At) -> Iterator[DeclaredTool]:
    """A tool of a request, which groups declarations, or one declaration."""
    entry = value_at(source.value, at)
    group = next((key for key in GROUPS if key in entry), None)
    if group is None:
        yield _one(source, at, entry)
        return
    declarations = entry[group]
    if not isinstance(declarations, list):
        refuse(source, (*at, group), f"{group} must be a list, not {kind_of(declarations)}")
    for index, declaration in enumerate(declarations):
        if not isinstance(declaration, dict):
            refuse(source, (*at, group, index), f"a declaration must be an object, not {kind_of(declaration)}")
        yield _one(source, (*at, group, index), declaration)


def _one(source: Source, at: At, entry: dict[str, Any]) -> DeclaredTool:
    given = entry.get("parameters")
    written = not any(entry.get(key) is not None for key in _JSON_SCHEMA)
    parameters = _small_types(given) if written and isinstance(given, dict) else None
    return build(source, at, "gemini", _FIELDS, parameters=parameters)


def _small_types(schema: dict[str, Any]) -> dict[str, Any]:
    """A copy with small letters in `type`; what values say is left alone. Nesting is bounded by the source."""
    copied: dict[str, Any] = {}
    for key, part in schema.items():
        if key == "type" and isinstance(part, str) and part in CAPITALS:
            copied[key] = part.lower()
        elif key == "properties" and isinstance(part, dict):
            copied[key] = {name: _small_types(each) if isinstance(each, dict) else each for name, each in part.items()}
        elif key in _VALUES:
            copied[key] = part
        elif isinstance(part, dict):
            copied[key] = _small_types(part)
        elif isinstance(part, list):
            copied[key] = [_small_types(each) if isinstance(each, dict) else each for each in part]
        else:
            copied[key] = part
    return copied
