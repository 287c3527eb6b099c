"""A tool's arguments, flattened: every property of its schema, through references, nesting and combinations. Pure.

Whatever the schema, the walk ends: each schema is entered once, and at most MAX_SCHEMAS of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

__all__ = ["MAX_DEPTH", "Field", "Fields", "fields_of"]

MAX_SCHEMAS: Final = 2_000
MAX_DEPTH: Final = 48
"""As deep as a registration accepts (gateway/core/schema_shape)."""
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf")
_PARTS: Final = ("items", "additionalProperties", "contains")
_OTHERS: Final = frozenset({*_IN_PLACE, *_PARTS})
_INSIDE: Final = frozenset({"properties", *_OTHERS})


class Field(NamedTuple):
    """One property: its name, where it stands below the tool, its schema with references followed, and whether it is
    an argument of the tool itself rather than a part of one."""

    name: str
    pointer: str
    schema: Mapping[str, Any]
    top: bool

    @property
    def types(self) -> tuple[str, ...]:
        """JSON types in lower case (Gemini writes them in capitals), those of alternatives included."""
        return tuple(_types(self.schema))


@dataclass(frozen=True, slots=True)
class Fields:
    """`root` is the schema of all arguments with references followed, None without one; `problems` are pairs of a
    pointer and what is wrong there."""

    root: Mapping[str, Any] | None
    all: tuple[Field, ...]
    problems: tuple[tuple[str, str], ...]


def fields_of(parameters: Mapping[str, Any] | None, document: Mapping[str, Any]) -> Fields:
    """Every property below `parameters`; `#/…` refers to `document`."""
    if not parameters:
        return Fields(parameters, (), ())
    fields: list[Field] = []
    problems: list[tuple[str, str]] = []
    root, problem = _followed(parameters, document)
    if problem is not None:
        problems.append(("/parameters", problem))
    entered: set[int] = set()
    # `above`: the schemas that judge the same value, from the outermost.
    todo: list[tuple[str, Any, int, tuple[int, ...]]] = [("/parameters", parameters, 0, ())]
    while todo and len(entered) < MAX_SCHEMAS:
        pointer, stated, depth, above = todo.pop()
        schema, problem = _followed(stated, document)
        if problem is not None and depth:
            problems.append((pointer, problem))
        if schema is None:
            continue
        if id(schema) in above:
            problems.append((pointer, "leads back to itself without going into the value"))
        if id(schema) in entered:
            continue
        entered.add(id(schema))
        if depth > MAX_DEPTH:
            problems.append((pointer, f"is nested deeper than {MAX_DEPTH} levels"))
            break
        if _INSIDE.isdisjoint(schema):
            continue
        properties = schema.get("properties")
        if isinstance(properties, dict):
            for name, part in properties.items():
                below = f"{pointer}/properties/{_escaped(name) if type(name) is str else name}"
                found = part if type(part) is dict and "$ref" not in part else _followed(part, document)[0]
                fields.append(Field(str(name), below, found if found is not None else {}, depth == 0))
                if found is None or found is not part or not _INSIDE.isdisjoint(part):
                    todo.append((below, part, depth + 1, ()))
        if not _OTHERS.isdisjoint(schema):
            todo.extend(_parts(pointer, schema, depth, above))
    return Fields(root, tuple(fields), tuple(dict.fromkeys(problems)) if problems else ())


def _parts(
    pointer: str, schema: Mapping[str, Any], depth: int, above: tuple[int, ...]
) -> Iterator[tuple[str, Any, int, tuple[int, ...]]]:
    for key in _IN_PLACE:
        listed = schema.get(key)
        if isinstance(listed, list):
            for place, part in enumerate(listed):
                yield f"{pointer}/{key}/{place}", part, depth + 1, (*above, id(schema))
    for key in _PARTS:
        part = schema.get(key)
        if isinstance(part, dict):
            yield f"{pointer}/{key}", part, depth + 1, ()


def _followed(schema: Any, document: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str | None]:
    """The schema that a chain of references ends at, or None and what is wrong with the chain."""
    if not isinstance(schema, dict) or "$ref" not in schema:
        return (schema, None) if isinstance(schema, dict) else (None, None)
    seen: set[str] = set()
    at: Any = schema
    while isinstance(at, dict) and "$ref" in at:
        ref = at["$ref"]
        if not isinstance(ref, str):
            return None, "has a $ref that is not a text"
        if not ref.startswith("#"):
            return None, f"refers to {_short(ref)}, which is outside this document and is not fetched"
        if ref in seen:
            return None, f"refers to {_short(ref)}, which leads back to itself without going into the value"
        seen.add(ref)
        at = _at(document, ref)
    if isinstance(at, bool):
        return None, None
    if not isinstance(at, dict):
        return None, f"refers to {_short(str(schema['$ref']))}, where there is no schema"
    return at, None


def _at(document: Any, ref: str) -> Any:
    at = document
    if ref == "#":
        return at
    if not ref.startswith("#/"):
        return None
    for token in ref[2:].split("/"):
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(at, Mapping):
            at = at.get(key)
        elif isinstance(at, list) and key.isdecimal() and len(key) < 7 and int(key) < len(at):
            at = at[int(key)]
        else:
            return None
    return at


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    stated = schema.get("type")
    for each in stated if isinstance(stated, list) else (stated,):
        if isinstance(each, str):
            yield each.lower()
    for key in ("anyOf", "oneOf"):
        listed = schema.get(key)
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict) and isinstance(each.get("type"), str):
                yield each["type"].lower()


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name


def _short(text: str) -> str:
    cut = text if len(text) <= 80 else text[:79] + "…"
    return repr(cut)
