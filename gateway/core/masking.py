"""Argument values that nobody but the merchant sees: what a tool's parameters mark `x-sensitive: true` (9.3). Pure.

Any branch that marks a place masks it: whether `anyOf`, `if` or `not` would apply is not asked, since a value must not
show because it failed to fit. Nor because it has another form than the one whose parts are marked, an object where
items are, say. Under a marked place names are data too, so the whole of it is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.schema_shape import SENSITIVE, resolved

MASK: Final = "***"
MOST_PARTS: Final = 100_000
"""Of a value and its schema that are looked at; what lies beyond is masked, not shown."""

_IN_PLACE_ONE: Final = ("not", "if", "then", "else")
_IN_PLACE_LIST: Final = ("allOf", "anyOf", "oneOf")
_ANY_FIELD: Final = ("additionalProperties", "unevaluatedProperties")
_ANY_ITEM: Final = ("items", "unevaluatedItems", "contains")
_JSON_TEXT: Final = ("contentSchema",)
_OF_OBJECTS: Final = ("properties", "patternProperties", "propertyNames", *_ANY_FIELD)
_OF_LISTS: Final = ("prefixItems", *_ANY_ITEM)

Schema = Mapping[str, Any]


class _Spent:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_PARTS

    def take(self, parts: int = 1) -> bool:
        self.left -= parts
        return self.left >= 0


def masked(parameters: Schema, arguments: Any) -> Any:
    """A copy of the arguments, every sensitive value in it replaced by `***`."""
    return _masked(parameters, [parameters], arguments, _Spent())


def hidden_at(parameters: Schema, path: list[str | int]) -> int | None:
    """How many steps into the arguments the outermost sensitive place on the way to `path` lies; None if none does."""
    spent, schemas = _Spent(), [parameters]
    for down in range(len(path) + 1):
        judging = _in_place(parameters, schemas, spent)
        if judging is None or any(schema.get(SENSITIVE) is True for schema in judging):
            return down
        if down == len(path):
            break
        word = path[down]
        if isinstance(word, str) and any(_names_marked(parameters, schema, spent) for schema in judging):
            return down
        schemas = _of_field(judging, word) if isinstance(word, str) else _of_item(judging, word)
    return None


def marks_any(parameters: Schema) -> bool:
    """Whether anything in the parameters is marked at all: most tools' have no such mark, and need no walk."""
    todo: list[Any] = [parameters]
    while todo:
        node = todo.pop()
        if isinstance(node, Mapping):
            if node.get(SENSITIVE) is True:
                return True
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)
    return False


def _masked(root: Schema, schemas: list[Schema], value: Any, spent: _Spent) -> Any:
    judging = _in_place(root, schemas, spent)
    if judging is None or any(schema.get(SENSITIVE) is True for schema in judging):
        return MASK
    if value is not None and _marked_in_other_forms(root, judging, value, spent):
        return MASK
    if isinstance(value, Mapping):
        shown: dict[str, Any] = {}
        for name, part in value.items():
            if any(_names_marked(root, schema, spent) for schema in judging):
                return MASK
            shown[name] = _masked(root, _of_field(judging, name), part, spent)
        return shown
    if isinstance(value, list):
        return [_masked(root, _of_item(judging, place), part, spent) for place, part in enumerate(value)]
    return value


def _marked_in_other_forms(root: Schema, judging: list[Schema], value: Any, spent: _Spent) -> bool:
    """Whether any part is marked that only a value of another form has; a text that holds a document of its own is not
    looked into, so its parts count as such."""
    others: tuple[str, ...] = _JSON_TEXT
    if not isinstance(value, Mapping):
        others += _OF_OBJECTS
    if not isinstance(value, list):
        others += _OF_LISTS
    below = [schema[key] for schema in judging for key in others if key in schema]
    return bool(below) and _marks_below(root, below, spent)


def _marks_below(root: Schema, nodes: list[Any], spent: _Spent) -> bool:
    """As `marks_any`, and by reference too."""
    met: set[int] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if id(node) in met:
            continue
        met.add(id(node))
        if not spent.take():
            return True
        if isinstance(node, Mapping):
            if node.get(SENSITIVE) is True:
                return True
            todo.extend(node.values())
            todo.append(resolved(root, node.get("$ref")))
        elif isinstance(node, list):
            todo.extend(node)
    return False


def _names_marked(root: Schema, schema: Schema, spent: _Spent) -> bool:
    names = schema.get("propertyNames")
    if not isinstance(names, Mapping):
        return False
    judging = _in_place(root, [names], spent)
    return judging is None or any(each.get(SENSITIVE) is True for each in judging)


def _in_place(root: Schema, schemas: list[Schema], spent: _Spent) -> list[Schema] | None:
    """Every schema that may judge the same value; None where there are too many to look at."""
    found: dict[int, Schema] = {}
    todo = list(schemas)
    while todo:
        schema = todo.pop()
        if id(schema) in found:
            continue
        if not spent.take():
            return None
        found[id(schema)] = schema
        todo.extend(_beside(root, schema))
    return list(found.values())


def _beside(root: Schema, schema: Schema) -> Iterator[Schema]:
    parts = [schema.get(key) for key in _IN_PLACE_ONE]
    for key in _IN_PLACE_LIST:
        listed = schema.get(key)
        parts += listed if isinstance(listed, list) else []
    dependent = schema.get("dependentSchemas")
    parts += list(dependent.values()) if isinstance(dependent, Mapping) else []
    parts.append(resolved(root, schema.get("$ref")))
    return (part for part in parts if isinstance(part, Mapping))


def _of_field(schemas: list[Schema], name: str) -> list[Schema]:
    found: list[Any] = []
    for schema in schemas:
        properties, patterns = schema.get("properties"), schema.get("patternProperties")
        found.append(properties.get(name) if isinstance(properties, Mapping) else None)
        if isinstance(patterns, Mapping):
            found += [part for pattern, part in patterns.items() if _may_match(pattern, name)]
        found += [schema.get(key) for key in _ANY_FIELD]
    return [part for part in found if isinstance(part, Mapping)]


def _of_item(schemas: list[Schema], place: int) -> list[Schema]:
    found: list[Any] = []
    for schema in schemas:
        first = schema.get("prefixItems")
        if isinstance(first, list) and place < len(first):
            found.append(first[place])
        found += [schema.get(key) for key in _ANY_ITEM]
    return [part for part in found if isinstance(part, Mapping)]


_PLAIN: Final = re.compile(r"\^?[A-Za-z0-9_-]+\$?")


def _may_match(pattern: str, name: str) -> bool:
    """Whether a name may fit a pattern. Only plain text is compared: a merchant's pattern run here could run for ever,
    so any other may match, and masks more rather than less."""
    if _PLAIN.fullmatch(pattern) is None:
        return True
    text = pattern.strip("^$")
    if pattern.startswith("^") and pattern.endswith("$"):
        return name == text
    if pattern.startswith("^"):
        return name.startswith(text)
    return name.endswith(text) if pattern.endswith("$") else text in name
