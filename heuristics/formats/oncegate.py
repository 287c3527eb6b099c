"""Oncegate's own: the body of `PUT …/tools/{tool}`, what `GET …/tools` answers, and `config/merchants/*.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from heuristics.declared_tool import DeclaredTool
from heuristics.formats.building import Fields, build, mcp_hints, optional_bool, refuse
from heuristics.formats.json_source import parse_json
from heuristics.formats.source import At, Source, Target, ToolPlaces, value_at
from heuristics.formats.toml_source import TomlSource
from heuristics.formats.unreadable import UnreadableSource, kind_of

__all__ = ["read", "read_table"]

_EXTRAS: Final = ("idempotency", "on_repeat", "timeout_s", "status_endpoint", "unavailable_means_not_executed")
_WITH_SCHEMA: Final = Fields()
_WITHOUT: Final = Fields(parameters=())


def read(source: Source, at: At) -> Iterator[DeclaredTool]:
    """An entry with its name; one body alone may leave the name to its file, as `oncegate tools put` does."""
    entry = value_at(source.value, at)
    name = entry.get("name")
    if name is None and not at:
        name = _stem(source.path)
        if not name:
            refuse(source, at, "this tool has no name; put it into a file that is called as the tool")
        yield _one(source, at, entry, entry.get("company"), name)
    else:
        yield _one(source, at, entry, entry.get("company"), None)


def read_table(source: Source) -> Iterator[DeclaredTool]:
    """A company's file: `[company]` and `[tools.NAME]`."""
    company = source.value.get("company")
    named = company.get("name") if isinstance(company, dict) else None
    if named is not None and not isinstance(named, str):
        refuse(source, ("company", "name"), f"company.name must be a text, not {kind_of(named)}")
    for name, entry in source.value["tools"].items():
        if not isinstance(entry, dict):
            refuse(source, ("tools", name), f"a tool must be a table, not {kind_of(entry)}")
        yield _one(source, ("tools", name), entry, named or _stem(source.path) or None, name)


def _one(source: Source, at: At, entry: dict[str, Any], company: Any, name: str | None) -> DeclaredTool:
    if company is not None and not isinstance(company, str):
        refuse(source, (*at, "company"), f"company must be a text, not {kind_of(company)}")
    embedded = entry.get("parameters")
    tool = build(
        source,
        at,
        "oncegate",
        _WITHOUT if isinstance(embedded, str) else _WITH_SCHEMA,
        name=name,
        hints=mcp_hints(source, (*at, "hints"), entry.get("hints")),
        company=company,
        side_effecting=optional_bool(source, at, entry, "side_effecting"),
        extras={key: entry[key] for key in _EXTRAS if entry.get(key) is not None},
    )
    return _with_json(source, at, tool, embedded) if isinstance(embedded, str) else tool


def _with_json(source: Source, at: At, tool: DeclaredTool, text: str) -> DeclaredTool:
    """Parameters written as JSON in a string. Only in a literal string of TOML each sign stands for itself."""
    where = (*at, "parameters")
    spot = source.spot(where, of_value=True)
    inner: Source
    literal = False
    if isinstance(source, TomlSource) and source.lines is not None and spot is not None:
        start = source.lines.offset(*spot)
        literal = source.text.startswith("'''", start)
    if literal and isinstance(source, TomlSource) and source.lines is not None:
        end = source.text.index("'''", start + 3)
        inner = parse_json(source.text, source.path, lines=source.lines, start=start + 3, end=end)
    else:
        try:
            inner = parse_json(text, source.path)
        except UnreadableSource as broken:
            refuse(source, where, broken.message)
    schema = inner.value
    if not isinstance(schema, dict):
        refuse(source, where, f"parameters must be an object, not {kind_of(schema)}")
    places = tool.places
    assert isinstance(places, ToolPlaces)
    target = Target(inner, ()) if literal else Target(source, where, whole=True)
    targets = {**places.targets, "/parameters": target}
    below = {**places.below, "/parameters": schema}
    return replace(tool, parameters=schema, document=schema, places=ToolPlaces(targets, below))


def _stem(path: str) -> str:
    """The file's name without its ending; none for standard input."""
    last = re.split(r"[/\\]", path)[-1]
    stem = last.rpartition(".")[0] or last
    return "" if stem == "-" else stem
