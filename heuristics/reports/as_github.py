"""Findings as GitHub Actions shows them: workflow commands, which become annotations beside the lines."""

from __future__ import annotations

from typing import Final

from heuristics.declared_tool import Place
from heuristics.reports.as_text import summary
from heuristics.reports.run import Run

__all__ = ["as_github"]

_COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def as_github(run: Run) -> str:
    lines = [
        _command(_COMMANDS[each.severity], each.place, f"{each.code} {each.rule}", f"{each.tool}: {each.message}")
        for each in run.findings
    ]
    lines += [_command("error", each.place, "not read", each.message) for each in run.unread]
    return "".join(f"{line}\n" for line in [*lines, summary(run)])


def _command(command: str, place: Place, title: str, message: str) -> str:
    where = [f"file={_property(place.path)}"]
    if place.line is not None:
        where += [f"line={place.line}", f"col={place.column or 1}"]
    return f"::{command} {','.join([*where, f'title={_property(title)}'])}::{_data(message)}"


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
