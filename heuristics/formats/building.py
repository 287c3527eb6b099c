"""From one entry of a manifest to a DeclaredTool: what every format does alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NoReturn

from heuristics.declared_tool import DeclaredTool, Place
from heuristics.formats.source import At, Source, Target, ToolPlaces, place_of
from heuristics.formats.unreadable import UnreadableSource, kind_of
from heuristics.hints import Hints

__all__ = ["Fields", "build", "mcp_hints", "optional_bool", "refuse"]

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Fields:
    """Where a format keeps what all have: keys from the entry. Of several `parameters` the first that is there."""

    name: At = ("name",)
    description: At = ("description",)
    parameters: tuple[At, ...] = (("parameters",),)


def refuse(source: Source, at: At, message: str) -> NoReturn:
    raise UnreadableSource(message, place_of(source, at))


def build(
    source: Source,
    at: At,
    format_: str,
    fields: Fields,
    *,
    name: str | None = None,
    hints: Hints | None = None,
    parameters: Mapping[str, Any] | None = None,
    document: Mapping[str, Any] | None = None,
    places: Mapping[str, Place] | None = None,
    **rest: Any,
) -> DeclaredTool:
    """The tool at `at`. `name` and `parameters` replace what the entry says; `rest` goes to DeclaredTool as it is.

    Raises UnreadableSource for a field of a wrong kind.
    """
    entry = source.value if not at else _inside(source.value, at)
    targets = {"": Target(source, at)}
    below: dict[str, Any] = {"": entry}
    if name is None:
        name = _text(source, at, entry, fields.name, required=True)
        targets["/name"] = Target(source, (*at, *fields.name), of_value=True)
    else:
        targets["/name"] = Target(source, at)
    description = _text(source, at, entry, fields.description)
    if description is not None:
        targets["/description"] = Target(source, (*at, *fields.description))
    for way in fields.parameters:
        found = _get(entry, way)
        if found is _MISSING or found is None:
            continue
        if not isinstance(found, dict):
            refuse(source, (*at, *way), f"{'.'.join(map(str, way))} must be an object, not {kind_of(found)}")
        parameters = found if parameters is None else parameters
        targets["/parameters"] = Target(source, (*at, *way))
        below["/parameters"] = parameters
        break
    return DeclaredTool(
        name=name or "",
        place=place_of(source, at),
        format=format_,
        description=description,
        parameters=parameters,
        document=document if document is not None else parameters if parameters is not None else _NOTHING,
        hints=hints if hints is not None else Hints(),
        places=places if places is not None else ToolPlaces(targets, below),
        **rest,
    )


def mcp_hints(source: Source, at: At, stated: Any) -> Hints:
    """MCP's annotations, also as Oncegate's `hints`; `httpMethod` is Oncegate's own."""
    if stated is None:
        return Hints()
    if not isinstance(stated, dict):
        refuse(source, at, f"{at[-1]} must be an object, not {kind_of(stated)}")
    method = stated.get("httpMethod")
    if method is not None and not isinstance(method, str):
        refuse(source, (*at, "httpMethod"), f"httpMethod must be a text, not {kind_of(method)}")
    names = ("readOnlyHint", "destructiveHint", "idempotentHint")
    read_only, destructive, idempotent = (optional_bool(source, at, stated, name) for name in names)
    return Hints(read_only, destructive, idempotent, method)


def optional_bool(source: Source, at: At, entry: Mapping[str, Any], key: str) -> bool | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, bool):
        refuse(source, (*at, key), f"{key} must be true or false, not {kind_of(value)}")
    return value


def _text(source: Source, at: At, entry: Any, way: At, *, required: bool = False) -> str | None:
    value = _get(entry, way)
    if value is _MISSING or value is None:
        if required:
            refuse(source, at, f"this tool has no {'.'.join(map(str, way))}")
        return None
    if not isinstance(value, str):
        refuse(source, (*at, *way), f"{'.'.join(map(str, way))} must be a text, not {kind_of(value)}")
    return value


def _get(value: Any, way: At) -> Any:
    for step in way:
        if not isinstance(value, dict) or step not in value:
            return _MISSING
        value = value[step]
    return value


def _inside(value: Any, at: At) -> Any:
    for step in at:
        value = value[step]
    return value
