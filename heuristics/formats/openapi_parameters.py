"""An operation's parameters and request body as the one object schema that a model is given."""

from __future__ import annotations

from typing import Any, Final

from heuristics.formats.building import refuse
from heuristics.formats.openapi_refs import followed
from heuristics.formats.source import At, Source, pointer_of
from heuristics.formats.unreadable import kind_of

__all__ = ["Parts", "merged"]

Parts = dict[str, tuple[At, At, Any]]
"""Pointer below the tool to where that part stands in the document, where its own parts do from there, and itself."""
_MOST_SCHEMAS: Final = 500
"""Looked at for the properties of one body: references in `allOf` could double at every level."""
_AT: Final = "/parameters/properties"


def merged(
    source: Source, item: dict[str, Any], item_at: At, operation: dict[str, Any], at: At
) -> tuple[dict[str, Any], Parts]:
    """The schema, and where its properties come from. Schemas within are the document's own, references and all.

    A body whose schema is an object gives its properties; any other body is one property, `body`. Where a parameter
    and a property of the body have one name, the parameter is called `name__in`, as `id__path`.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    parts: Parts = {}
    closed = _body(source, operation, at, properties, required, parts)
    for (name, place), (parameter, where) in _parameters(source, item, item_at, operation, at).items():
        called = f"{name}__{place}" if name in properties else name
        schema, inner = _schema_of(parameter)
        if isinstance(parameter.get("description"), str) and "description" not in schema and "$ref" not in schema:
            schema = {**schema, "description": parameter["description"]}
        properties[called] = schema
        parts[_AT + pointer_of((called,))] = (where, inner, schema)
        if parameter.get("required") is True:
            required.append(called)
    schema = {"type": "object", "properties": properties, "required": required}
    return {**schema, "additionalProperties": False} if closed else schema, parts


def _parameters(
    source: Source, item: dict[str, Any], item_at: At, operation: dict[str, Any], at: At
) -> dict[tuple[str, str], tuple[dict[str, Any], At]]:
    """By name and place; an operation's own replace those of its path."""
    found: dict[tuple[str, str], tuple[dict[str, Any], At]] = {}
    for holder, where in ((item, item_at), (operation, at)):
        stated = holder.get("parameters")
        if stated is None:
            continue
        if not isinstance(stated, list):
            refuse(source, (*where, "parameters"), f"parameters must be a list, not {kind_of(stated)}")
        for index, each in enumerate(stated):
            parameter, there = followed(source.value, each, (*where, "parameters", index))
            if not isinstance(parameter, dict):
                refuse(source, there, f"a parameter must be an object, not {kind_of(parameter)}")
            name = parameter.get("name")
            if name is None and isinstance(parameter.get("$ref"), str):  # not in this document
                name = parameter["$ref"].rpartition("/")[2]
            if not isinstance(name, str):
                refuse(source, there, "this parameter has no name")
            found[name, str(parameter.get("in", "query"))] = (parameter, there)
    return found


def _schema_of(parameter: dict[str, Any]) -> tuple[dict[str, Any], At]:
    if isinstance(parameter.get("schema"), dict):
        return parameter["schema"], ("schema",)
    content = parameter.get("content")
    for kind, each in content.items() if isinstance(content, dict) else ():
        if isinstance(each, dict) and isinstance(each.get("schema"), dict):
            return each["schema"], ("content", kind, "schema")
    return ({"$ref": parameter["$ref"]} if isinstance(parameter.get("$ref"), str) else {}), ()


def _body(
    source: Source, operation: dict[str, Any], at: At, properties: dict[str, Any], required: list[str], parts: Parts
) -> bool:
    """Whether the body's schema allows no other properties."""
    stated = operation.get("requestBody")
    body, where = followed(source.value, stated, (*at, "requestBody"))
    content = body.get("content") if isinstance(body, dict) else None
    kinds = (
        {kind: each for kind, each in content.items() if isinstance(each, dict)} if isinstance(content, dict) else {}
    )
    if not kinds:
        return False
    kind = next((kind for kind in kinds if "json" in kind), next(iter(kinds)))
    schema = kinds[kind].get("schema")
    where = (*where, "content", kind, "schema")
    if not isinstance(schema, dict):
        return False
    found: dict[str, tuple[Any, At]] = {}
    needed: list[str] = []
    needs_body = isinstance(body, dict) and body.get("required") is True
    if not _object_properties(source.value, schema, where, found, needed, [_MOST_SCHEMAS]):
        properties["body"] = schema
        parts[f"{_AT}/body"] = (where, (), schema)
        required += ["body"] if needs_body else []
        return False
    for name, (part, place) in found.items():
        properties[name] = part
        parts[_AT + pointer_of((name,))] = (place, (), part)
    required += [name for name in needed if name in found] if needs_body else []
    whole, _ = followed(source.value, schema, where)
    return isinstance(whole, dict) and whole.get("additionalProperties") is False


def _object_properties(
    document: Any, schema: Any, at: At, found: dict[str, tuple[Any, At]], needed: list[str], left: list[int]
) -> bool:
    """Collects the properties of an object schema, through references and `allOf`; False where it may be otherwise."""
    schema, at = followed(document, schema, at)
    left[0] -= 1
    if not isinstance(schema, dict) or left[0] < 0:
        return False
    if any(key in schema for key in ("oneOf", "anyOf", "not", "if", "$ref")):
        return False
    parts = schema.get("allOf")
    stated = schema.get("properties")
    if not isinstance(parts, list) and not isinstance(stated, dict):
        return False
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        if not _object_properties(document, part, (*at, "allOf", index), found, needed, left):
            return False
    for name, part in stated.items() if isinstance(stated, dict) else ():
        found[name] = (part, (*at, "properties", name))
    names = schema.get("required")
    needed += [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return True
