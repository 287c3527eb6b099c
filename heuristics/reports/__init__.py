"""A lint run's findings in each form that `oncegate lint --format` can give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from heuristics.reports.as_github import as_github
from heuristics.reports.as_json import as_json
from heuristics.reports.as_sarif import as_sarif
from heuristics.reports.as_text import as_text
from heuristics.reports.run import Run, Unread

__all__ = ["FORMS", "Run", "Unread"]

FORMS: Final[Mapping[str, Callable[[Run], str]]] = MappingProxyType(
    {"text": as_text, "json": as_json, "sarif": as_sarif, "github": as_github}
)
