"""Which syntax a text is in, by its first line that says something."""

from __future__ import annotations

import re
from typing import Final

from heuristics.declared_tool import Place
from heuristics.formats.unreadable import UnreadableSource

__all__ = ["syntax_of"]

_FIRST: Final = re.compile(r"\s*+(?:\#[^\n]*+\s*+)*+")
_WORD: Final = r"(?!(?:true|false|null)\s*[\],])[A-Za-z_][\w-]*+"
_PYTHON: Final = re.compile(
    r"(?:from\s+[\w.]+\s+import\b|import\s+\w|async\s+def\s|def\s+\w+\s*\(|class\s+\w+\s*[(:]|@\w[\w.]*|if\s+\w"
    r"|[rRuU]?(?:\"\"\"|'''))"
)
_PYTHON_SINGLE: Final = re.compile(r"(?:\"[^\"\n]*\"|'[^'\n]*')[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
_PYTHON_LATER: Final = re.compile(
    r"^(?:from\s+[\w.]+\s+import\b|import\s+\w|(?:async\s+)?def\s+\w|class\s+\w|@\w)", re.MULTILINE
)
_TOML_TABLE: Final = re.compile(rf"\[\[?[ \t]*{_WORD}(?:[ \t]*\.[ \t]*(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+'))*[ \t]*\]")
_KEY: Final = r"(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')"
_ASSIGNED: Final = re.compile(rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*[ \t]*(?::[ \t]*[\w.\[\], ]+)?=(?!=)")
_YAML: Final = re.compile(
    rf"---(?:\s|\Z)|%YAML|[-?][ \t\n]|(?:{_KEY}|[^\s\[\]{{}},#&*!|>'\"%@`:][^\n:]*+)[ \t]*:(?:\s|\Z)|[!&*]"
)
_YAML_FLOW: Final = re.compile(r"\{\s*[A-Za-z_$'*&!]|\[\s*(?:['&*!]|\{\s*[A-Za-z_$'])")
_BY_ENDING: Final = {"json": "json", "yaml": "yaml", "yml": "yaml", "toml": "toml", "py": "python", "pyi": "python"}


def syntax_of(text: str, path: str) -> str:
    """`json`, `yaml`, `toml` or `python`. Only where the text itself says nothing is the file's ending asked, so that
    an error speaks of the right syntax. Raises UnreadableSource for an empty text and for another."""
    match = _FIRST.match(text)
    start = match.end() if match is not None else 0
    if start == len(text):
        raise UnreadableSource("is empty", Place(path, 1, 1))
    sign = text[start]
    if sign == "{":
        return "yaml" if _YAML_FLOW.match(text, start) else "json"
    if sign == "[":
        if _TOML_TABLE.match(text, start):
            return "toml"
        return "yaml" if _YAML_FLOW.match(text, start) else "json"
    if _PYTHON.match(text, start) or _PYTHON_SINGLE.match(text, start):
        return "python"
    if _ASSIGNED.match(text, start):
        return "python" if _PYTHON_LATER.search(text) else "toml"
    if _YAML.match(text, start):
        return "yaml"
    named = _BY_ENDING.get(path.rpartition(".")[2].lower())
    if named is None:
        raise UnreadableSource("is neither JSON, YAML, TOML nor Python", Place(path, 1, 1))
    return named
