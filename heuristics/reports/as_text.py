"""Findings for people: one a line, then what they come to."""

from __future__ import annotations

from collections import Counter

from heuristics.finding import SEVERITIES
from heuristics.reports.run import Run, printable, spot

__all__ = ["as_text", "statistics", "summary"]

_LONGEST_NAME = 80


def as_text(run: Run) -> str:
    lines = [
        f"{spot(each.place)}: {each.severity} {each.code} {_name(each.tool)}: {printable(each.message)} [{each.rule}]"
        for each in run.findings
    ]
    return "".join(f"{line}\n" for line in [*lines, summary(run)])


def statistics(run: Run) -> str:
    """How many findings each rule has, the most first."""
    counted = Counter((each.code, each.rule, each.severity) for each in run.findings)
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"{count:6}  {code}  {severity:8} {rule}" for (code, rule, severity), count in ordered]
    return "".join(f"{line}\n" for line in [*lines, summary(run)])


def summary(run: Run) -> str:
    counted = Counter(each.severity for each in run.findings)
    told = [_count(counted[severity], severity) for severity in SEVERITIES if counted[severity]]
    text = f"{_count(run.tools, 'tool')} in {_count(run.files, 'file')}: {', '.join(told) if told else 'no findings'}"
    if run.unread:
        text += f"; {_count(len(run.unread), 'file')} not read"
    return text + (f"; {run.known:,} known from the baseline" if run.known else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _name(name: str) -> str:
    shown = printable(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…")
    return shown or "(no name)"
