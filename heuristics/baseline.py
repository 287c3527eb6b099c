"""The baseline: findings that were there before, so that old tools do not block new ones. Pure; a JSON document.

An entry is a file, a tool, a code and a count, no line: what moves is not new.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from heuristics.finding import Finding

__all__ = ["BaselineError", "new_since", "read_baseline", "write_baseline"]

_VERSION: Final = 1
Key = tuple[str, str, str]


class BaselineError(ValueError):
    """A baseline that cannot be read; the message is one line."""


def write_baseline(findings: Iterable[Finding], relative: Callable[[str], str]) -> str:
    """The file's text, in a stable order. `relative` makes a path relative to the baseline's own folder."""
    counted = Counter((relative(each.place.path), each.tool, each.code) for each in findings)
    entries = [
        {"path": path, "tool": tool, "code": code, "count": count}
        for (path, tool, code), count in sorted(counted.items())
    ]
    return json.dumps({"version": _VERSION, "findings": entries}, indent=1) + "\n"


def read_baseline(text: str) -> Mapping[Key, int]:
    """Raises BaselineError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise BaselineError(f"is not a baseline: {broken}") from None
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise BaselineError(f"is not a baseline of version {_VERSION}; write it with --write-baseline")
    findings = document.get("findings")
    if not isinstance(findings, list):
        raise BaselineError("is not a baseline: it has no list of findings")
    return dict(_entry(each) for each in findings)


def new_since(findings: Sequence[Finding], known: Mapping[Key, int], relative: Callable[[str], str]) -> list[Finding]:
    """The findings that the baseline does not count, in their order."""
    left = dict(known)
    new = []
    for each in findings:
        key = (relative(each.place.path), each.tool, each.code)
        if left.get(key, 0) > 0:
            left[key] -= 1
        else:
            new.append(each)
    return new


def _entry(each: Any) -> tuple[Key, int]:
    try:
        path, tool, code, count = each["path"], each["tool"], each["code"], each["count"]
    except (TypeError, KeyError):
        raise BaselineError("holds an entry without path, tool, code and count; write it anew") from None
    if not (all(isinstance(part, str) for part in (path, tool, code)) and type(count) is int):
        raise BaselineError("holds an entry of the wrong kind; write it anew")
    return (path, tool, code), count
