"""A tool as somebody wrote it down: what every format is read into and every lint rule looks at. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .hints import Hints

__all__ = ["DeclaredTool", "Place"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: `path` as given (`-` for stdin, a URL for a live server), `line` and `column` from 1,
    or None where the source has none; `pointer` is the JSON Pointer (RFC 6901) inside the document."""

    path: str
    line: int | None = None
    column: int | None = None
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """One tool's declaration. What its format cannot say is None or empty.

    `format` names the reader (`openai`, `anthropic`, `gemini`, `mcp`, `openapi`, `oncegate`, `python`).
    `parameters` is its JSON Schema with local references still in it; `document` the whole that `#/…` refers to.
    `extras` holds what only Oncegate manifests and the SDK can say, under the names of the wire: `idempotency`,
    `on_repeat`, `timeout_s`, `status_endpoint`, `unavailable_means_not_executed`.
    `places` maps a JSON Pointer below the tool (`/name`, `/parameters/properties/price`) to where that stands.
    """

    name: str
    place: Place
    format: str
    company: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    document: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    hints: Hints = field(default_factory=Hints)
    side_effecting: bool | None = None
    extras: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    tags: tuple[str, ...] = ()
    places: Mapping[str, Place] = field(default_factory=lambda: _NOTHING)
