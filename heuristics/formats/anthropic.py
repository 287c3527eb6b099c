"""Anthropic's tools: `{name, description, input_schema}`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.declared_tool import DeclaredTool
from heuristics.formats.building import Fields, build
from heuristics.formats.source import At, Source

__all__ = ["read"]

_FIELDS: Final = Fields(parameters=(("input_schema",),))


def read(source: Source, at: At) -> Iterator[DeclaredTool]:
    yield build(source, at, "anthropic", _FIELDS)
