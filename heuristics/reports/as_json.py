"""Findings for programs: one JSON object."""

from __future__ import annotations

import json

from heuristics.reports.run import Run

__all__ = ["as_json"]


def as_json(run: Run) -> str:
    findings = [
        {
            "code": each.code,
            "rule": each.rule,
            "severity": each.severity,
            "message": each.message,
            "tool": each.tool,
            "path": each.place.path,
            "line": each.place.line,
            "column": each.place.column,
            "pointer": each.place.pointer,
        }
        for each in run.findings
    ]
    unread = [
        {"message": each.message, "path": each.place.path, "line": each.place.line, "column": each.place.column}
        for each in run.unread
    ]
    whole = {"tools": run.tools, "files": run.files, "known": run.known, "findings": findings, "unread": unread}
    return json.dumps(whole, indent=1) + "\n"
