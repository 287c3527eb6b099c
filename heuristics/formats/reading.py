"""From bytes to declared tools: decode, find the syntax, parse, find the format, read. Pure: nothing is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from heuristics.declared_tool import DeclaredTool, Place
from heuristics.formats import anthropic, gemini, mcp, oncegate, openai, openapi, python
from heuristics.formats.detect import entries_of
from heuristics.formats.json_source import parse_json
from heuristics.formats.source import At, Source, Unlocated, place_of
from heuristics.formats.syntax import syntax_of
from heuristics.formats.text import decode
from heuristics.formats.toml_source import parse_toml
from heuristics.formats.unreadable import UnreadableSource, kind_of
from heuristics.formats.yaml_source import parse_yaml

__all__ = ["FORMATS", "find_tools", "looks_like_tools", "read_document", "read_tools"]

FORMATS: Final[tuple[str, ...]] = ("auto", "openai", "anthropic", "gemini", "mcp", "openapi", "oncegate", "python")

_PARSERS: Final[Mapping[str, Callable[[str, str], Source]]] = {
    "json": parse_json,
    "yaml": parse_yaml,
    "toml": parse_toml,
}
_ONE: Final[Mapping[str, Callable[[Source, At], Iterator[DeclaredTool]]]] = {
    "openai": openai.read,
    "anthropic": anthropic.read,
    "gemini": gemini.read,
    "mcp": mcp.read,
    "oncegate": oncegate.read,
}
_WHOLE: Final[Mapping[str, Callable[[Source], Iterator[DeclaredTool]]]] = {
    "openapi": openapi.read,
    "oncegate": oncegate.read_table,
}
_SIGNS: Final = re.compile(
    r"input_?[sS]chema\b|function_?[dD]eclarations\b|parametersJsonSchema\b|parameters_json_schema\b"
    r"|\bopenapi[\"']?\s*:|^\s*\[\s*tools\s*\.|\boperationId\b|\bendpoint[\"']?\s*[:=]"
    r"|\btype[\"']?\s*:\s*[\"']?function\b|\bparameters[\"']?\s*:",
    re.MULTILINE,
)
"""What at least one tool of any format but Python's says. A file without any is passed over when a folder is walked."""
_CERTAIN: Final = re.compile(
    r"[\"']?(?:input_schema|inputSchema|functionDeclarations|function_declarations)[\"']?\s*:|\bopenapi[\"']?\s*:\s*[\"']?3"
    r"|^\s*\[\s*tools\s*\.",
    re.MULTILINE,
)
"""What makes a broken file worth a word even where nobody named it."""
_NO_TOOLS: Final = "declares no tools in any format that is read ({})".format(", ".join(FORMATS[1:]))


def read_tools(data: bytes, path: str, *, format: str = "auto") -> list[DeclaredTool]:  # noqa: A002 (as --from is told)
    """The tools of one source that somebody named. `path` is told in places (`-` for standard input); its last part
    names an Oncegate body or company that does not name itself. `format` is one of `FORMATS`.

    Raises UnreadableSource for whatever cannot be read or holds no tools, ValueError for an unknown format.
    """
    if format not in FORMATS:
        raise ValueError(f"{format!r} is not one of {', '.join(FORMATS)}")
    text = decode(data, path)
    found = _read(text, path, None if format == "auto" else format)
    if found is None:
        wanted = _NO_TOOLS if format == "auto" else f"declares no {format} tools"
        raise UnreadableSource(wanted, Place(path, 1, 1))
    return found


def find_tools(data: bytes, path: str) -> list[DeclaredTool] | None:
    """The tools of a file that was met on a walk; None if it plainly holds something else.

    Raises UnreadableSource only where tools are meant and cannot be read.
    """
    try:
        text = decode(data, path)
    except UnreadableSource:
        return None
    if not (_SIGNS.search(text) or python.signs(text)):
        return None
    try:
        return _read(text, path, None)
    except UnreadableSource:
        if _CERTAIN.search(text) or python.signs(text):
            raise
        return None


def looks_like_tools(data: bytes, path: str) -> bool:
    """Whether `find_tools` has something to say of a file: its tools, or why they cannot be read."""
    try:
        return find_tools(data, path) is not None
    except UnreadableSource:
        return True


def read_document(value: Any, path: str, *, format: str = "auto") -> list[DeclaredTool]:  # noqa: A002 (as --from is told)
    """As `read_tools` for a document that is parsed already, such as a live server's answer: without lines."""
    found = _read_source(Unlocated(path, value), None if format == "auto" else format)
    if found is None:
        raise UnreadableSource(_NO_TOOLS, Place(path))
    return found


def _read(text: str, path: str, forced: str | None) -> list[DeclaredTool] | None:
    syntax = "python" if forced == "python" else syntax_of(text, path)
    if syntax == "python":
        if forced not in (None, "python"):
            raise UnreadableSource(f"is a Python module, not {forced}", Place(path, 1, 1))
        return python.read(text, path, forced=forced is not None)
    return _read_source(_PARSERS[syntax](text, path), forced)


def _read_source(source: Source, forced: str | None) -> list[DeclaredTool] | None:
    if not isinstance(source.value, dict | list):
        raise UnreadableSource(f"holds {kind_of(source.value)}, not tools", place_of(source))
    entries = entries_of(source, forced)
    if entries is None:
        return None
    if entries.format is None:
        return []
    if entries.whole:
        return list(_WHOLE[entries.format](source))
    if entries.format not in _ONE:
        return None
    read = _ONE[entries.format]
    return [tool for at in entries.at for tool in read(source, at)]
