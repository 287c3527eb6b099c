"""Tools as people have them: bytes in, `DeclaredTool`s out. Pure; docs/lint/formats.md says what is read."""

from __future__ import annotations

from heuristics.formats.limits import MAX_BYTES
from heuristics.formats.reading import FORMATS, find_tools, looks_like_tools, read_document, read_tools
from heuristics.formats.unreadable import UnreadableSource

__all__ = [
    "FORMATS",
    "MAX_BYTES",
    "UnreadableSource",
    "find_tools",
    "looks_like_tools",
    "read_document",
    "read_tools",
]
