"""A policy bundle, read strictly from a parsed document: usable as a whole, or refused with all that is wrong. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, Final

from gateway.core.policy import Action, Bundle, Rule, Ruling
from gateway.core.policy_patterns import MAX_PROGRAMS
from gateway.core.policy_reading import Path, PolicyProblem, PolicyRefused, Reading, exact
from gateway.core.policy_shadows import shadowed
from gateway.core.policy_then import read_then
from gateway.core.policy_values import number_of
from gateway.core.policy_when import read_when
from gateway.core.strict_json import Json, canonical_bytes

KEYS: Final = ("default_action", "rules")
RULE_KEYS: Final = ("id", "priority", "when", "then")
MAX_RULES: Final = 1_000
MAX_BYTES: Final = 262_144
"""Of the canonical JSON."""
MAX_ID: Final = 128
MAX_PRIORITY: Final = 1_000_000
_ID: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]+").fullmatch


def read_bundle(document: Any, company: str | None = None) -> Bundle:
    """`{"default_action", "rules": [...]}` as parsed from JSON or TOML; floats are taken for the shortest decimal that
    gives them, so exact money comes as `Number`, int or text. `company`: whose own bundle it is; None: the platform's.

    Raises PolicyRefused.
    """
    whole = Reading()
    parsed = exact(document, whole)
    if not isinstance(parsed, dict):
        raise PolicyRefused([PolicyProblem((), "a policy must be a table of default_action and rules")])
    canonical = canonical_bytes(parsed)[0]
    if len(canonical) > MAX_BYTES:
        raise PolicyRefused(
            [PolicyProblem((), f"must have at most {MAX_BYTES:,} bytes as JSON, not {len(canonical):,}")]
        )
    version = hashlib.sha256(canonical).hexdigest()[:16]
    table = whole.table((), parsed, KEYS, ("default_action",)) or {}
    default = None
    if "default_action" in table:
        default = whole.choice(("default_action",), table["default_action"], (Action.ALLOW.value, Action.DENY.value))
    rules, problems = _rules(table.get("rules", []), version, company)
    problems = _once([*whole.problems, *problems])
    if problems or default is None:
        raise PolicyRefused(problems)
    return Bundle(
        version=version,
        default=Ruling(Action(default), version, owner=company or ""),
        rules=tuple(rules),
        document=parsed,
        owner=company or "",
        companies=frozenset(name for rule in rules for name in rule.when.companies or ()),
    )


def _rules(value: Json, version: str, company: str | None) -> tuple[list[Rule], list[PolicyProblem]]:
    """In the order they are asked: the lowest priority number first."""
    if not isinstance(value, list):
        return [], [PolicyProblem(("rules",), "must be a list of rules: [[rules]]")]
    if len(value) > MAX_RULES:
        return [], [PolicyProblem(("rules",), f"must have at most {MAX_RULES:,} entries, not {len(value):,}")]
    problems: list[PolicyProblem] = []
    rules: list[Rule] = []
    for place, entry in enumerate(value):
        shown = entry.get("id") if isinstance(entry, dict) else None
        read = Reading(shown[:MAX_ID] if isinstance(shown, str) else None)
        rule = _rule(read, place, entry, version, company)
        problems += read.problems
        if rule is not None:
            rules.append(rule)
    problems += _twice(value, "id")
    problems += _twice(value, "priority")
    problems += _too_many_patterns(rules)
    rules.sort(key=lambda rule: rule.priority)
    if not problems:
        problems = [
            PolicyProblem(
                ("rules", later.place), f"is never reached: rules[{earlier.place}] ({earlier.id!r}) comes first and "
                "matches whatever this one would", later.id,
            )
            for later, earlier in shadowed(rules)
        ]  # fmt: skip
    return rules, problems


def _rule(read: Reading, place: int, entry: Json, version: str, company: str | None) -> Rule | None:
    at: Path = ("rules", place)
    table = read.table(at, entry, RULE_KEYS, RULE_KEYS)
    if table is None:
        return None
    id_ = read.text((*at, "id"), table["id"], MAX_ID) if "id" in table else None
    if id_ is not None and not _ID(id_):
        read.wrong((*at, "id"), "must not hold control characters")
    priority = read.whole((*at, "priority"), table["priority"], 0, MAX_PRIORITY) if "priority" in table else None
    when = read_when(read, (*at, "when"), table["when"]) if "when" in table else None
    if when is not None and company is not None and when.companies is not None and company not in when.companies:
        read.wrong((*at, "when", "company"), "can never be met: this is another company's policy")
    then = read_then(read, (*at, "then"), table["then"], version, id_ or "", company or "") if "then" in table else None
    if read.problems or id_ is None or priority is None or when is None or then is None:
        return None
    return Rule(id_, priority, place, when, then)


def _twice(entries: list[Json], key: str) -> Iterable[PolicyProblem]:
    """Ids name rules in events, and priorities order them: each is one rule's."""
    first: dict[object, int] = {}
    for place, entry in enumerate(entries):
        value = entry.get(key) if isinstance(entry, dict) else None
        value = value if key == "id" and isinstance(value, str) else number_of(value)  # 10 and 10.0 are one
        if value is None:
            continue
        if value in first:
            yield PolicyProblem(("rules", place, key), f"is also the {key} of rules[{first[value]}]", _id_of(entry))
        first.setdefault(value, place)


def _too_many_patterns(rules: Iterable[Rule]) -> Iterable[PolicyProblem]:
    """One call may be compared with all of them."""
    total = 0
    for rule in sorted(rules, key=lambda rule: rule.place):
        for condition in rule.when.arguments:
            pattern = condition.wanted.regex
            total += pattern.size if pattern is not None else 0
            if pattern is not None and total > MAX_PROGRAMS:
                at = ("rules", rule.place, "when", "arguments", condition.wanted.at.text, "regex")
                yield PolicyProblem(at, "makes the regular expressions of all rules together too large", rule.id)
                return


def _id_of(entry: Json) -> str | None:
    id_ = entry.get("id")
    return id_[:MAX_ID] if isinstance(id_, str) else None


def _once(problems: Iterable[PolicyProblem]) -> list[PolicyProblem]:
    """One for each place, the first; in the order of the document's rules."""
    found: dict[Path, PolicyProblem] = {}
    for problem in problems:
        found.setdefault(problem.at, problem)
    return sorted(
        found.values(), key=lambda each: each.at[1] if len(each.at) > 1 and isinstance(each.at[1], int) else -1
    )
