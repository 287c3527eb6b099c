"""What a registration remarks about a tool (3.5): a table of rules over the verdict, the name and the hints. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from gateway.core.registration import Declared
from heuristics import Verdict, classify, shared_prefix

Severity = Literal["warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`warning`: with `on_finding = "refuse"` the tool is not registered until it is renamed or declared (3.5);
    `note`: worth knowing, and refuses nothing."""

    code: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class Looked:
    """What the rules look at. `by_name` is what the name alone says, `others` the company's other names."""

    name: str
    declared: Declared
    verdict: Verdict
    by_name: Verdict
    others: Collection[str]


def findings(name: str, declared: Declared, verdict: Verdict, names: Collection[str]) -> list[Finding]:
    """Every rule's remark on one tool, in the order of RULES."""
    others = [other for other in names if other != name]
    by_name = classify(name, prefix=shared_prefix(sorted({*names, name})))
    looked = Looked(name, declared, verdict, by_name, others)
    return [finding for rule in RULES for finding in rule(looked)]


def _no_known_verb(at: Looked) -> Iterator[Finding]:
    if at.verdict.source == "heuristic:words" and at.verdict.side_effecting and at.verdict.verb is None:
        yield Finding(
            "no_known_verb",
            "warning",
            "The name has no verb that says what it does, so it is taken for side-effecting. "
            "Rename it, or declare side_effecting.",
        )


def _hint_against_name(at: Looked) -> Iterator[Finding]:
    if at.declared.side_effecting is not None:
        return
    if at.verdict.source == "hint":
        yield Finding(
            "hint_contradicts_name",
            "warning",
            "The name reads, but a hint says that it changes something; it is taken for side-effecting. "
            "Rename it, or declare side_effecting.",
        )
    elif at.declared.hints.read_only and at.verdict.source.startswith("heuristic:") and at.verdict.side_effecting:
        yield Finding(
            "hint_contradicts_name",
            "warning",
            "readOnlyHint says that it only reads, but its name does not; a hint never lowers protection. "
            "Rename it, or declare side_effecting.",
        )


def _read_only_with_a_mutating_verb(at: Looked) -> Iterator[Finding]:
    if not at.verdict.side_effecting and at.by_name.side_effecting and at.by_name.verb is not None:
        yield Finding(
            "read_only_with_mutating_verb",
            "note",
            f"It is taken for read-only ({at.verdict.source}) though its name holds '{at.by_name.verb}': "
            "its calls are neither recorded nor kept from running twice.",
        )


def _declared_against_hint(at: Looked) -> Iterator[Finding]:
    hints = at.declared.hints
    if at.declared.side_effecting is False and (hints.read_only is False or hints.destructive):
        yield Finding(
            "declared_against_hint",
            "note",
            "It is declared read-only, but its hints say that it changes something; the declaration counts.",
        )


def _confusable(at: Looked) -> Iterator[Finding]:
    alike = sorted(other for other in at.others if _folded(other) == _folded(at.name))
    if alike:
        yield Finding(
            "confusable_name",
            "note",
            f"Only letter case or punctuation tells it from {', '.join(map(repr, alike[:5]))}. They are kept "
            "apart here, but a model or a client that replaces characters may not.",
        )


def _not_portable(at: Looked) -> Iterator[Finding]:
    if not PORTABLE_NAME.fullmatch(at.name):
        yield Finding(
            "name_not_portable",
            "note",
            "Some model providers take only letters, digits, _ and -, at most 64, in a tool's name.",
        )


PORTABLE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

RULES: Final[tuple[Callable[[Looked], Iterator[Finding]], ...]] = (
    _no_known_verb,
    _hint_against_name,
    _read_only_with_a_mutating_verb,
    _declared_against_hint,
    _confusable,
    _not_portable,
)


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold() or name
