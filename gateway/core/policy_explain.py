"""Why a bundle says what it says of one call: the rule that decides, and what each other rule misses (7.3). Pure.

An explanation shows values of the call's arguments, some of which may be sensitive (9.3): it is for the person who
gave them, not for logs and events.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final, Literal

import msgspec

from gateway.core.identity import Kind
from gateway.core.policy import Action, Bundle, PolicyCall, Rule, Ruling, When, decide
from gateway.core.policy_conditions import ArgumentCondition, Wanted
from gateway.core.policy_limits import counted
from gateway.core.policy_values import Interval
from gateway.core.strict_json import Json, Number, dumps

SHOWN: Final = 60
"""Characters of a value that are shown."""

Outcome = Literal["decides", "matches", "does_not_match"]


class RuleExplained(msgspec.Struct, frozen=True):
    """One rule. `matches`: it would decide, but for one before it. `why` is a sentence without its full stop."""

    rule_id: str
    priority: int
    place: int
    decision: str
    outcome: Outcome
    why: str


class Explanation(msgspec.Struct, frozen=True):
    """The ruling on one call, and each rule in the order they are asked."""

    ruling: Ruling
    rules: tuple[RuleExplained, ...]
    why: str

    @property
    def text(self) -> str:
        lines = [f"{self.ruling.action.value}: {self.why}"]
        marks = {"decides": "->", "matches": " ~", "does_not_match": "  "}
        lines += [
            f"{marks[rule.outcome]} {rule.priority:>7}  {rule.rule_id} ({rule.decision}): {rule.why}"
            for rule in self.rules
        ]
        return "\n".join([*lines, f"bundle {self.ruling.bundle}"])


def explain(bundle: Bundle, call: PolicyCall) -> Explanation:
    """Says the same as `decide`, and why."""
    ruling = decide(bundle, call)
    rules: list[RuleExplained] = []
    decided: Rule | None = None
    for rule in bundle.rules:
        missed = next(_missed(rule, call), None)
        outcome: Outcome = "does_not_match"
        if missed is None:
            outcome = "decides" if decided is None else "matches"
        why = missed or "; ".join(
            [*_unclear(rule, call), "every condition is met" if not _unclear(rule, call) else _MET]
        )
        if outcome == "matches" and decided is not None:
            why = f"would match, but {decided.id} comes first"
        if outcome == "decides":
            decided = rule
        rules.append(RuleExplained(rule.id, rule.priority, rule.place, rule.ruling.action.value, outcome, why))
    return Explanation(ruling, tuple(rules), _because(bundle, ruling, decided, call))


_MET: Final = "what cannot be compared meets a rule that denies or asks"
_NOT_MET: Final = "what cannot be compared meets no rule that allows"


def _because(bundle: Bundle, ruling: Ruling, decided: Rule | None, call: PolicyCall) -> str:
    said = f"rule {decided.id} decides" if decided is not None else "no rule matches, and default_action decides"
    if decided is None and call.kind is Kind.LOCAL and bundle.default.action is not Action.ALLOW:
        said = "no rule matches, and a local effect is then allowed whatever default_action says"
    parts = [said, *([f"reason: {ruling.reason}"] if ruling.reason else [])]
    if ruling.approval is not None:
        parts.append(f"asks {', '.join(ruling.approval.approvers)} within {ruling.approval.timeout_s} s")
    for limit in ruling.limits:
        counts = "calls" if limit.sum_of is None else f"as the sum of {limit.sum_of.text}"
        per = limit.per if isinstance(limit.per, str) else limit.per.text
        parts.append(f"at most {_number(limit.max)} {counts} in {limit.window_s} s per {per} (rule {limit.rule_id})")
        if counted(limit, call.company, "any", "any", call.arguments) is None:
            ends = "is denied" if limit.on_error == "deny" else "goes on uncounted"
            parts.append(f"but this call does not say what is to be counted, and {ends} (on_error)")
    return "; ".join(parts)


def _missed(rule: Rule, call: PolicyCall) -> Iterator[str]:
    """What keeps the rule from matching, in words, the first first."""
    when = rule.when
    yield from _not_about(when, call)
    if when.step is not None and call.step is None:
        yield f"step is not stated, and must be {_bounds(when.step)}"
    elif when.step is not None and call.step is not None and not when.step.holds(call.step):
        yield f"step is {call.step}, and must be {_bounds(when.step)}"
    for condition in when.arguments:
        if condition.answer(call.arguments) is False:
            yield _no(condition, call.arguments)
    if not rule.guards:
        yield from (f"{unclear}; {_NOT_MET}" for unclear in _unclear(rule, call))


def _not_about(when: When, call: PolicyCall) -> Iterator[str]:
    if when.targets is not None and not when.targets.fit(call.target):
        yield f"target {_shown(call.target)} is not {_among(when.targets.patterns)}"
    for name, value, wanted in (
        ("kind", call.kind.value, when.kinds),
        ("company", call.company, when.companies),
        ("role", None if call.role is None else call.role.value, when.roles),
    ):
        if wanted is not None and value not in wanted:
            is_ = "is not known" if value is None else f"is {_shown(value)}"
            yield f"{name} {is_}, and must be {_among(sorted(wanted))}"
    if when.side_effecting is not None and call.side_effecting is not when.side_effecting:
        said = {True: "side-effecting", False: "read-only", None: "neither side-effecting nor read-only"}
        yield f"it is {said[call.side_effecting]}, and must be {said[when.side_effecting]}"


def _no(condition: ArgumentCondition, arguments: dict[str, Json]) -> str:
    wanted = condition.wanted
    value = wanted.at.find(arguments)
    if value is None:
        return f"{_at(wanted)} is not there"
    if wanted.exists is False:
        return f"{_at(wanted)} is there, and must not be"
    failed = next(name for name, check in condition.checks if check(value) is False)
    return f"{_at(wanted)} is {_shown(value)}, and must be {_words(wanted, failed)}"


def _unclear(rule: Rule, call: PolicyCall) -> list[str]:
    found = []
    for condition in rule.when.arguments:
        if condition.answer(call.arguments) is None:
            value = condition.wanted.at.find(call.arguments)
            words = _words(condition.wanted, next(name for name, check in condition.checks if check(value) is None))
            found.append(f"{_at(condition.wanted)} is {_kind(value)}, which cannot be judged as {words}")
    return found


def _words(wanted: Wanted, name: str) -> str:
    if name == "equals":
        return f"equal to {_shown(wanted.equals)}"
    if name == "one_of":
        return _among([_shown(each) for each in wanted.one_of], quoted=True)
    if name == "contains":
        return f"something that contains {_shown(wanted.contains)}"
    if name == "regex":
        assert wanted.regex is not None
        return f"a text that matches {_shown(wanted.regex.text)}"
    assert wanted.interval is not None
    return _bounds(wanted.interval)


_BOUNDS: Final = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def _bounds(interval: Interval) -> str:
    if interval.lower is not None and interval.lower == interval.upper:
        return _number(interval.lower)
    return " and ".join(f"{_BOUNDS[name]} {_number(bound)}" for name, bound in interval.bounds())


def _among(names: list[str] | tuple[str, ...], *, quoted: bool = False) -> str:
    shown = list(names[:5]) if quoted else [_shown(name) for name in names[:5]]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"one of {', '.join(shown)}{more}" if len(names) > 1 else shown[0]


def _at(wanted: Wanted) -> str:
    return wanted.at.text or "the whole of the arguments"


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | Number):
        return "a number"
    if isinstance(value, str):
        return f"the text {_shown(value)}"
    return "an array" if isinstance(value, list) else "an object"


def _number(number: int | Decimal) -> str:
    return format(number, "f") if isinstance(number, Decimal) and -400 < number.adjusted() < 400 else str(number)


def _shown(value: Json) -> str:
    text = dumps(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
