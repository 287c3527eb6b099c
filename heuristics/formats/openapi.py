"""OpenAPI 3: each operation as the tool that generators make of it. References stay; nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from heuristics.declared_tool import DeclaredTool
from heuristics.formats.building import Fields, build, refuse
from heuristics.formats.openapi_parameters import Parts, merged
from heuristics.formats.openapi_refs import followed
from heuristics.formats.source import At, Source, Target, ToolPlaces
from heuristics.formats.unreadable import kind_of
from heuristics.hints import Hints

__all__ = ["read"]

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_WORDS: Final = re.compile(r"[^\W_]+")
_NO_PARAMETERS: Final = Fields(parameters=())


def read(source: Source) -> Iterator[DeclaredTool]:
    """Every operation below `paths`, in the document's order."""
    paths = source.value.get("paths")
    if paths is None:
        return
    if not isinstance(paths, dict):
        refuse(source, ("paths",), f"paths must be an object, not {kind_of(paths)}")
    for path in paths:
        item, at = followed(source.value, paths[path], ("paths", path))
        if not isinstance(item, dict):
            if path.startswith("/"):
                refuse(source, ("paths", path), f"a path must hold an object, not {kind_of(item)}")
            continue
        for method in item:
            if method in _METHODS:
                yield _operation(source, path, item, at, method)


def _operation(source: Source, path: str, item: dict[str, Any], item_at: At, method: str) -> DeclaredTool:
    at = (*item_at, method)
    operation = item[method]
    if not isinstance(operation, dict):
        refuse(source, at, f"an operation must be an object, not {kind_of(operation)}")
    named = operation.get("operationId")
    described = "description" if operation.get("description") else "summary"
    schema, targets = merged(source, item, item_at, operation, at)
    # References are into the whole document, not into the schema made here.
    return build(
        source,
        at,
        "openapi",
        Fields(("operationId",), (described,), ()),
        name=None if named is not None else _name(method, path),
        parameters=schema,
        document=source.value,
        hints=Hints(http_method=method.upper()),
        tags=tuple(tag for tag in _listed(operation.get("tags")) if isinstance(tag, str)),
        places=_places(source, at, named, operation.get(described), described, schema, targets),
    )


def _places(
    source: Source,
    at: At,
    named: Any,
    description: Any,
    described: str,
    schema: dict[str, Any],
    parts: Parts,
) -> ToolPlaces:
    targets = {"": Target(source, at), "/name": Target(source, at), "/parameters": Target(source, at, whole=True)}
    below: dict[str, Any] = {"/parameters": schema}
    if named is not None:
        targets["/name"] = Target(source, (*at, "operationId"), of_value=True)
    if description is not None:
        targets["/description"] = Target(source, (*at, described))
    for pointer, (where, inner, value) in parts.items():
        targets[pointer] = Target(source, where, inner=inner)
        below[pointer] = value
    return ToolPlaces(targets, below)


def _name(method: str, path: str) -> str:
    """`POST /carts/{id}/complete` without an operationId is called post_carts_id_complete."""
    return "_".join([method, *_WORDS.findall(path)])


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
