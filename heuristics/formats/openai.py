"""OpenAI's tools: Chat Completions (`{type, function: {…}}`), Responses (`{type, name, …}`), and `functions` of old."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.declared_tool import DeclaredTool
from heuristics.formats.building import Fields, build
from heuristics.formats.source import At, Source, value_at

__all__ = ["read"]

_FLAT: Final = Fields()
_NESTED: Final = {
    kind: Fields((kind, "name"), (kind, "description"), ((kind, "parameters"),)) for kind in ("function", "custom")
}


def read(source: Source, at: At) -> Iterator[DeclaredTool]:
    """One entry of `tools`. A namespace holds tools of its own."""
    entry = value_at(source.value, at)
    kind = entry.get("type", "function")
    if kind == "namespace":
        for index, inner in enumerate(entry["tools"]):
            if isinstance(inner, dict):
                yield from read(source, (*at, "tools", index))
        return
    nested = isinstance(entry.get(kind), dict) if kind in _NESTED else False
    yield build(source, at, "openai", _NESTED[kind] if nested else _FLAT)
