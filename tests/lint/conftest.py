"""Lint over tools written in place, and the command in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main
from heuristics import Hints
from heuristics.declared_tool import DeclaredTool, Place
from heuristics.finding import Finding
from heuristics.lint import lint
from heuristics.lint_settings import LintSettings

CLOSED: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}}, "additionalProperties": False}


def a_tool(name: str, **changes: Any) -> DeclaredTool:
    """A tool in which lint finds nothing but what its name and the changes bring."""
    schema = changes.pop("parameters", CLOSED)
    given: dict[str, Any] = {
        "place": Place("tools.json"),
        "format": "mcp",
        "description": "What it does, in a sentence.",
        "parameters": schema,
        "document": schema if schema is not None else {},
        "hints": Hints(idempotent=True),
    }
    return DeclaredTool(name=name, **{**given, **changes})


@pytest.fixture
def found() -> Callable[..., list[Finding]]:
    """The findings on tools, given as names or as what `tool` makes."""

    def look(*tools: str | DeclaredTool, **settings: Any) -> list[Finding]:
        declared = [a_tool(each) if isinstance(each, str) else each for each in tools]
        return lint(declared, LintSettings(**settings))

    return look


@pytest.fixture
def tool() -> Callable[..., DeclaredTool]:
    return a_tool


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`oncegate lint` with these arguments in an empty folder: exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["lint", *arguments])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.fixture
def manifest(tmp_path: Path) -> Callable[..., Path]:
    """A file of MCP tools; names become tools without fault."""

    def write(*tools: str | dict[str, Any], file: str = "tools.json") -> Path:
        listed = [
            {
                "name": each,
                "description": "What it does, in a sentence.",
                "inputSchema": CLOSED,
                "annotations": {"idempotentHint": True},
            }
            if isinstance(each, str)
            else each
            for each in tools
        ]
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"tools": listed}, indent=1), encoding="utf-8")
        return path

    return write
