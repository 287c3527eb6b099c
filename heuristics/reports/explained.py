"""A rule's page as text, and the list of all rules: `oncegate lint --explain`."""

from __future__ import annotations

import textwrap

from heuristics.rules import BY_CODE, RULES, Rule

__all__ = ["explained", "language_of"]

_WIDTH = 100


def explained(code: str) -> str | None:
    """The rule of that code or name; all rules, a line each, for `all`; None for no rule."""
    if code == "all":
        return "".join(f"{rule.code}  {rule.severity:8} {rule.name}\n" for rule in RULES)
    rule = BY_CODE.get(code.upper()) or next((rule for rule in RULES if rule.name == code), None)
    return None if rule is None else _page(rule)


def language_of(sample: str) -> str:
    """What an example is written in."""
    return "json" if sample.startswith("{") else "toml" if sample.startswith("[") else "yaml"


def _page(rule: Rule) -> str:
    parts = [f"{rule.code} {rule.name} ({rule.severity})", _wrapped(rule.what), "Why: " + _wrapped(rule.why)]
    parts += ["Example:", textwrap.indent(rule.example, "  ").rstrip()]
    parts += ["Instead:", textwrap.indent(rule.instead, "  ").rstrip()]
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
