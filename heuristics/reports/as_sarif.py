"""Findings as SARIF 2.1.0 (OASIS), which code-scanning services read."""

from __future__ import annotations

import json
import re
from typing import Any, Final
from urllib.parse import quote

from heuristics.declared_tool import Place
from heuristics.finding import Finding
from heuristics.reports.run import Run
from heuristics.rules import RULES, Rule

__all__ = ["SCHEMA", "as_sarif"]

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_DRIVE: Final = re.compile(r"[A-Za-z]:[/\\]")
_INDEX: Final = {rule.code: place for place, rule in enumerate(RULES)}


def as_sarif(run: Run) -> str:
    notifications = [
        {"level": "error", "message": {"text": each.message}, "locations": [_location(each.place)]}
        for each in run.unread
    ]
    invocation: dict[str, Any] = {"executionSuccessful": not run.unread}
    if notifications:
        invocation["toolExecutionNotifications"] = notifications
    driver = {"name": "oncegate", "version": run.version, "rules": [_rule(rule) for rule in RULES]}
    whole = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "invocations": [invocation],
                "results": [_result(each) for each in run.findings],
            }
        ],
    }
    return json.dumps(whole, indent=1) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.what},
        "help": {"text": rule.why},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(finding: Finding) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "ruleIndex": _INDEX[finding.code],
        "level": finding.severity,
        "message": {"text": f"{finding.tool}: {finding.message}"},
        "locations": [_location(finding.place, finding.tool)],
    }


def _location(place: Place, tool: str | None = None) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(place.path)}}
    if place.line is not None:
        physical["region"] = {"startLine": place.line, "startColumn": place.column or 1}
    location: dict[str, Any] = {"physicalLocation": physical}
    if tool:
        location["logicalLocations"] = [{"name": tool, "kind": "function"}]
    return location


def _uri(path: str) -> str:
    """A URI reference (RFC 3986): a live server's own, `file:` for a whole path, else relative to where lint ran.

    A file's name may hold bytes that are no UTF-8 (surrogates in Python), and a colon that would make it a scheme.
    """
    if "://" in path:
        return quote(path, safe="/:?&=", errors="surrogateescape")
    plain = quote(path.replace("\\", "/"), errors="surrogateescape")
    if _DRIVE.match(path):
        return "file:///" + plain.replace("%3A", ":", 1)
    return "file://" + plain if plain.startswith("/") else plain
