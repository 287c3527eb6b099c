"""Tools of the Model Context Protocol: an entry of a `tools/list` result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.declared_tool import DeclaredTool
from heuristics.formats.building import Fields, build, mcp_hints
from heuristics.formats.source import At, Source, value_at

__all__ = ["read"]

_FIELDS: Final = Fields(parameters=(("inputSchema",),))


def read(source: Source, at: At) -> Iterator[DeclaredTool]:
    hints = mcp_hints(source, (*at, "annotations"), value_at(source.value, at).get("annotations"))
    yield build(source, at, "mcp", _FIELDS, hints=hints)
