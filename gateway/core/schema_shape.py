"""What a tool's parameters may be made of, before any library reads them (2.9, 9.4). Pure.

A schema comes from one merchant and is checked against on a gateway that all share. So: nothing in it may be
fetched, it is bounded in size and nesting, and so is the work that it can cause. The last is the subtle one:
forty definitions that each name the next one twice are two kilobytes and a trillion visits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

SENSITIVE: Final = "x-sensitive"
"""What marks a value that nobody but the merchant sees (9.3)."""

Problem = tuple[str, str]
"""A JSON pointer into the schema, and what is wrong there."""

MAX_BYTES: Final = 65_536
MAX_DEPTH: Final = 48
MAX_VISITS_IN_ONE: Final = 5_000
"""Visits of subschemas that a flat object may cause on its way to any one of its fields."""
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
DEEPEST_VALUE: Final = 64

# Where subschemas stand. IN_PLACE ones judge the same value, the others a part of it.
_IN_PLACE_ONE: Final = ("not", "if", "then", "else")
_IN_PLACE_LIST: Final = ("allOf", "anyOf", "oneOf")
_IN_PLACE_MAP: Final = ("dependentSchemas",)
_PART_ONE: Final = (
    "additionalProperties",
    "propertyNames",
    "items",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
)
_PART_LIST: Final = ("prefixItems",)
_PART_MAP: Final = ("properties", "patternProperties")
_KEPT_MAP: Final = ("$defs", "definitions")
_VALUES: Final = ("enum", "const", "default", "examples")
_REFUSED: Final = {
    "$dynamicRef": "is not supported here; use $ref",
    "$recursiveRef": "is not part of JSON Schema 2020-12; use $ref",
    "$id": "is not needed here, and would change what $ref means",
}


def shape_problems(schema: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a schema's shape; an empty list means that a library may look at it."""
    size = len(json.dumps(schema, ensure_ascii=False).encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        return [("", f"must have at most {MAX_BYTES:,} bytes as JSON, not {size:,}")]
    if _depth(schema) > MAX_DEPTH:
        return [("", f"must not be nested deeper than {MAX_DEPTH} levels")]
    problems = list(_root_problems(schema))
    nodes = list(_subschemas(schema))
    problems += _mark_problems(schema, {id(node) for _, node in nodes})
    for pointer, node in nodes:
        problems += [(f"{pointer}/{key}", why) for key, why in _REFUSED.items() if key in node]
        if "$ref" in node:
            problems += [(f"{pointer}/$ref", why) for why in _ref_problems(schema, node["$ref"])]
    return problems or _work_problems(schema)


def visits(schema: Mapping[str, Any]) -> tuple[int, ...]:
    """For values nested 0 to 64 deep, how many subschemas at most judge on the way to any one part of the value.

    Counted with repetition, since a validator remembers nothing. Expects a schema whose shape has no problem
    but possibly this one; stops counting at a billion. Raises RecursionError where a $ref leads back to itself
    without going into the value.
    """
    order = _in_place_order(schema)
    counts: list[int] = []
    deeper: dict[int, int] = {}
    for _ in range(DEEPEST_VALUE + 1):
        here: dict[int, int] = {}
        for links in order:
            total = 1 + sum(here[child] for child in links.in_place)
            if deeper:
                total += max((deeper[child] for child in links.one_of), default=0)
                total += sum(deeper[child] for child in links.all_of)
            here[links.node] = min(total, 1_000_000_000)
        counts.append(here[id(schema)])
        if here == deeper:
            break
        deeper = here
    return tuple(counts + [counts[-1]] * (DEEPEST_VALUE + 1 - len(counts)))


def resolved(schema: Mapping[str, Any], ref: object) -> Mapping[str, Any] | bool | None:
    """What a reference inside the schema (`#` or `#/…`) stands for; None if nothing stands there."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    at: Any = schema
    for token in ref.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(at, Mapping):
            at = at.get(key)
        elif isinstance(at, list) and key.isdecimal() and key.isascii() and len(key) < 6 and int(key) < len(at):
            at = at[int(key)]
        else:
            return None
    return at if isinstance(at, Mapping | bool) else None


@dataclass(frozen=True, slots=True)
class _Links:
    """One subschema and those it hands on to: on the same value, on one of several parts, on any part."""

    node: int
    in_place: list[int]
    one_of: list[int]
    all_of: list[int]


def _root_problems(schema: Mapping[str, Any]) -> Iterator[Problem]:
    dialect = schema.get("$schema", DIALECT)
    if dialect not in (DIALECT, DIALECT + "#"):
        yield "/$schema", f"must be {DIALECT}, or left out if the schema is valid as such"
    types = schema.get("type", "object")
    if types != "object" and not (isinstance(types, list) and "object" in types):
        yield "/type", "must be object: arguments always are one"


def _ref_problems(schema: Mapping[str, Any], ref: object) -> Iterator[str]:
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        yield "must point into this schema (# or #/…): nothing is fetched"
    elif "%" in ref or resolved(schema, ref) is None:
        yield "points at nothing in this schema"


def _mark_problems(schema: Mapping[str, Any], subschemas: set[int]) -> Iterator[Problem]:
    """A mark that hides nothing must not look like one: of another form than true, or where no schema stands."""
    todo: list[tuple[str, Any]] = [("", schema)]
    while todo:
        pointer, node = todo.pop()
        if isinstance(node, list):
            todo.extend((f"{pointer}/{place}", part) for place, part in enumerate(node))
        if not isinstance(node, Mapping):
            continue
        judges = id(node) in subschemas
        mark = node.get(SENSITIVE, False)
        if judges and not isinstance(mark, bool):
            yield f"{pointer}/{SENSITIVE}", "must be true or false"
        elif not judges and mark is True:
            yield f"{pointer}/{SENSITIVE}", "marks nothing here: it belongs into the schema of the value it hides"
        todo.extend((f"{pointer}/{_token(key)}", part) for key, part in node.items() if not (judges and key in _VALUES))


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _work_problems(schema: Mapping[str, Any]) -> list[Problem]:
    try:
        flat = visits(schema)[1]
    except RecursionError:
        return [("", "has a $ref that leads back to itself without going into the arguments")]
    if flat > MAX_VISITS_IN_ONE:
        return [("", "has parts that refer to each other so often that even small arguments take too long to check")]
    return []


def _depth(value: object) -> int:
    deepest, todo = 0, [(value, 1)]
    while todo:
        item, level = todo.pop()
        deepest = max(deepest, level)
        if isinstance(item, Mapping):
            todo.extend((part, level + 1) for part in item.values())
        elif isinstance(item, list):
            todo.extend((part, level + 1) for part in item)
    return deepest


def _children(node: Mapping[str, Any], kinds: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Subschemas right under a node, with the rest of their pointer; booleans judge nothing further."""
    one, listed, mapped = _KINDS[kinds]
    for key in one:
        if isinstance(node.get(key), Mapping):
            yield f"/{key}", node[key]
    for key in listed:
        parts = node.get(key)
        for place, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, Mapping):
                yield f"/{key}/{place}", part
    for key in mapped:
        parts = node.get(key)
        for name, part in parts.items() if isinstance(parts, Mapping) else ():
            if isinstance(part, Mapping):
                yield f"/{key}/{_token(name)}", part


_KINDS: Final = {
    "in_place": (_IN_PLACE_ONE, _IN_PLACE_LIST, _IN_PLACE_MAP),
    "one_part": ((), _PART_LIST, ("properties",)),
    "any_part": (_PART_ONE, (), ("patternProperties",)),
    "all": (
        _IN_PLACE_ONE + _PART_ONE,
        _IN_PLACE_LIST + _PART_LIST,
        _IN_PLACE_MAP + _PART_MAP + _KEPT_MAP,
    ),
}


def _subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every subschema once, with its pointer; also those that only a $ref reaches, wherever they stand."""
    todo, seen = [("", schema)], set[int]()
    while todo:
        pointer, node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield pointer, node
        todo.extend((pointer + rest, child) for rest, child in _children(node, "all"))
        target = resolved(schema, node.get("$ref"))
        if isinstance(target, Mapping):
            todo.append((str(node["$ref"])[1:], target))


def _in_place_order(schema: Mapping[str, Any]) -> list[_Links]:
    """All subschemas that can judge anything, each after those it hands the same value to."""
    order: list[_Links] = []
    done: dict[int, bool] = {}  # False while on the way down
    roots: list[Mapping[str, Any]] = [schema]
    while roots:
        todo: list[tuple[Mapping[str, Any], bool]] = [(roots.pop(), False)]
        while todo:
            node, leaving = todo.pop()
            if leaving:
                done[id(node)] = True
                order.append(_links(schema, node))
            elif id(node) not in done:
                done[id(node)] = False
                todo.append((node, True))
                todo.extend((child, False) for child in _in_place(schema, node))
                # Parts are roots of their own: what comes back through one has gone into the value.
                roots.extend(child for kind in ("one_part", "any_part") for _, child in _children(node, kind))
            elif not done[id(node)]:
                raise RecursionError("a $ref leads back to itself")
    return order


def _in_place(schema: Mapping[str, Any], node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [child for _, child in _children(node, "in_place")]
    target = resolved(schema, node.get("$ref"))
    return [*found, target] if isinstance(target, Mapping) else found


def _links(schema: Mapping[str, Any], node: Mapping[str, Any]) -> _Links:
    return _Links(
        id(node),
        [id(child) for child in _in_place(schema, node)],
        [id(child) for _, child in _children(node, "one_part")],
        [id(child) for _, child in _children(node, "any_part")],
    )
