"""Where `oncegate lint` finds its settings: `oncegate.toml`, or `[tool.oncegate.lint]` in `pyproject.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gateway.adapters.text_files import read_text, unreadable
from heuristics.lint_settings import LintSettings, SettingsError, read_settings

OWN: Final = "oncegate.toml"
SHARED: Final = "pyproject.toml"


def find_settings(named: Path | None, start: Path) -> tuple[LintSettings, Path]:
    """The settings, and the folder that their paths are relative to.

    Without `named`, the first `oncegate.toml`, or `pyproject.toml` with `[tool.oncegate.lint]`, from `start` upwards.
    Raises SettingsError, which names the file.
    """
    if named is not None:
        return _read(named, named.name == SHARED), named.parent
    for folder in (start, *start.parents):
        if (folder / OWN).is_file():
            return _read(folder / OWN, shared=False), folder
        if (folder / SHARED).is_file() and _ours(_parsed(folder / SHARED), folder / SHARED) is not None:
            return _read(folder / SHARED, shared=True), folder
    return LintSettings(), start


def _read(file: Path, shared: bool) -> LintSettings:
    document = _parsed(file)
    table: Any = _ours(document, file) or {}
    if not shared and not table:
        table = document.get("lint", {key: value for key, value in document.items() if key != "tool"})
    if not isinstance(table, Mapping):
        raise SettingsError(f"{file}: lint must be a table")
    try:
        return read_settings(table)
    except SettingsError as wrong:
        raise SettingsError(f"{file}: {wrong}") from None


def _ours(document: Mapping[str, Any], file: Path) -> Mapping[str, Any] | None:
    at: Any = document
    for key in ("tool", "oncegate", "lint"):
        at = at.get(key) if isinstance(at, Mapping) else None
    if at is not None and not isinstance(at, Mapping):
        raise SettingsError(f"{file}: tool.oncegate.lint must be a table")
    return at


def _parsed(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(read_text(file))
    except (OSError, UnicodeDecodeError) as wrong:
        raise SettingsError(f"{file}: {unreadable(wrong)}") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as wrong:
        raise SettingsError(f"{file}: is not valid TOML: {wrong}") from None
