"""Declared verdicts in the order of 3.3: the tool's own, the company's (exact name, then glob), the platform's.

Names are matched byte for byte as registered: `catalog.query` and `catalog_query` are two tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

__all__ = ["Override", "declared", "glob_order"]


class Override(NamedTuple):
    """A declaration that applies: its verdict, its source as in `Verdict.source`, and the rule that matched."""

    side_effecting: bool
    source: str
    reason: str


def declared(
    name: str, tool: bool | None, company: Mapping[str, bool], platform: Mapping[str, bool]
) -> Override | None:
    """The first declaration that applies, or None."""
    if tool is not None:
        return Override(tool, "tool", "declared by the tool itself")
    for source, rules in (("company", company), ("platform_override", platform)):
        if rules and (match := _match(name, rules)) is not None:
            rule, how = match
            return Override(rules[rule], source, f"{how} {rule!r}")
    return None


def glob_order(rule: str, side_effecting: bool) -> tuple[int, int, bool, str]:
    """Sort key of globs, the one to ask first at the front.

    The most literal characters win, then the fewest wildcards, then the protecting one, then the alphabet. Not the
    order of declaration: overrides travel as JSON objects, whose order nobody has to keep.
    """
    wildcards = sum(rule.count(mark) for mark in "*?[")
    return (wildcards - len(rule), wildcards, not side_effecting, rule)


def _match(name: str, rules: Mapping[str, bool]) -> tuple[str, str] | None:
    if name in rules:
        return name, "override for the exact name"
    matching = [rule for rule in rules if ("*" in rule or "?" in rule or "[" in rule) and fnmatchcase(name, rule)]
    if not matching:
        return None
    return min(matching, key=lambda rule: glob_order(rule, rules[rule])), "override by the glob"
