"""What `oncegate lint` reads: files, folders, globs, standard input, live MCP servers. Bytes in, tools out."""

from __future__ import annotations

import glob
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from heuristics.declared_tool import DeclaredTool, Place
from heuristics.formats import MAX_BYTES, UnreadableSource, find_tools, read_tools
from heuristics.formats.yaml_source import parse_yaml
from heuristics.lint_settings import SettingsError
from heuristics.reports import Unread
from heuristics.waivers import KEY, MARK, Waiver, in_comments, in_objects

_ENDINGS: Final = (".json", ".yaml", ".yml", ".toml", ".py", ".jsonl")
_PASSED_OVER: Final = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "dist", "build"})
_GLOB: Final = frozenset("*?[")


@dataclass
class Gathered:
    """What all sources held together."""

    tools: list[DeclaredTool] = field(default_factory=list)
    waivers: list[Waiver] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    files: int = 0


@dataclass(frozen=True, slots=True)
class Live:
    """How live MCP servers are asked: a program to start, headers for those that are URLs (never shown), and seconds
    after which one that has not answered is given up."""

    command: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    deadline_s: float = 30.0

    @classmethod
    def of(cls, command: str | None, headers: Sequence[str], deadline_s: float = 30.0) -> Live:
        """Raises SettingsError; a header's value is in no message."""
        named: dict[str, str] = {}
        for header in headers:
            name, colon, value = header.partition(":")
            if not colon or not name.strip():
                raise SettingsError("--header must be NAME: VALUE")
            named[name.strip()] = value.strip()
        try:
            words = [] if command is None else shlex.split(command)
        except ValueError as wrong:
            raise SettingsError(f"--stdio: {wrong}") from None
        if command is not None and not words:
            raise SettingsError("--stdio: names no program")
        if not 0 < deadline_s < float("inf"):
            raise SettingsError("--timeout must be more than 0 seconds")
        return cls(words, named, deadline_s)


def gather(paths: Sequence[str], format_: str, live: Live, progress: Callable[[int], None]) -> Gathered:
    """Read every source once, in the order given, folders sorted. What cannot be read is in `unread`."""
    found = Gathered()
    if live.command:
        _ask(partial(_tools_of_program, live), found)
    seen: set[str] = set()
    for number, (path, met) in enumerate(_sources(paths, found)):
        real = path if path == "-" or _is_url(path) else os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            if _is_url(path):
                _ask(partial(_tools_of_server, path, live), found)
            else:
                _read(path, format_, met, found)
        if number % 100 == 99:
            progress(number + 1)
    return found


def _sources(paths: Sequence[str], found: Gathered) -> Iterator[tuple[str, bool]]:
    """Each file, and whether it was met on a walk rather than named."""
    for path in paths:
        if path == "-" or _is_url(path):
            yield path, False
        elif os.path.isdir(path):
            for file in _walk(path):
                yield file, True
        elif not os.path.exists(path) and not _GLOB.isdisjoint(path):
            matching = sorted(glob.glob(path, recursive=True))
            if not matching:
                found.unread.append(Unread("no file matches", Place(path)))
            for each in matching:
                for file in _walk(each) if os.path.isdir(each) else (each,):
                    yield file, True
        else:
            yield path, False


def _walk(folder: str) -> Iterator[str]:
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _PASSED_OVER and not name.startswith("."))
        for name in sorted(files):
            if name.endswith((*_ENDINGS, ".toml.example")) and not name.startswith("."):
                yield os.path.normpath(os.path.join(at, name))


def _read(path: str, format_: str, met: bool, found: Gathered) -> None:
    try:
        data = _bytes(path)
        walked = met and format_ == "auto"
        tools = find_tools(data, path) if walked else read_tools(data, path, format=format_)
    except UnreadableSource as wrong:
        found.unread.append(Unread(wrong.message, wrong.place))
    except OSError as wrong:
        found.unread.append(Unread(f"cannot be read: {wrong.strerror or wrong}", Place(path)))
    else:
        if tools is not None:
            _keep(tools, data, path, found)


def _ask(server: Callable[[], list[DeclaredTool]], found: Gathered) -> None:
    try:
        tools = server()
    except UnreadableSource as wrong:
        found.unread.append(Unread(wrong.message, wrong.place))
    else:
        _keep(tools, b"", tools[0].place.path if tools else "", found)


def _tools_of_server(url: str, live: Live) -> list[DeclaredTool]:
    import asyncio

    from gateway.commands.mcp_tools import tools_at_url  # both take longer to import than most files to lint

    return asyncio.run(tools_at_url(url, headers=live.headers, deadline_s=live.deadline_s))


def _tools_of_program(live: Live) -> list[DeclaredTool]:
    import asyncio

    from gateway.commands.mcp_tools import tools_of_command

    return asyncio.run(tools_of_command(live.command, deadline_s=live.deadline_s))


def _keep(tools: list[DeclaredTool], data: bytes, path: str, found: Gathered) -> None:
    found.files += 1
    first = len(found.tools)
    found.tools += tools
    numbered = list(enumerate(tools, first))
    if KEY.encode() in data:
        found.waivers += in_objects(numbered, _document(data, path))
    if MARK.encode() in data:  # in JSON only ever inside a text, where it follows no sign of a comment
        found.waivers += in_comments(data.decode("utf-8", "replace"), numbered, path)


def _document(data: bytes, path: str) -> object:
    """The document that was read once already, for what readers do not keep of it."""
    text = data.decode("utf-8-sig", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return parse_yaml(text, path).value
    except UnreadableSource:
        return None


def _bytes(path: str) -> bytes:
    """At most one byte above the limit, so that a reader can say that there are too many."""
    if path == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with Path(path).open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _is_url(path: str) -> bool:
    return path.startswith(("http://", "https://"))
