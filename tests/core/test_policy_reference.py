"""The compiled policy says what a plain reading of the document says, over random bundles and calls (7.3)."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gateway.core.identity import Kind
from gateway.core.model import Role
from gateway.core.policy import PolicyCall, decide
from gateway.core.policy_bundle import read_bundle
from gateway.core.policy_explain import explain
from gateway.core.policy_reading import PolicyRefused
from gateway.core.strict_json import Number

# A plain interpreter of the document. It shares no code with what it checks: fractions for numbers, the standard
# library's patterns, and every rule looked at for every call.

GUARDS = ("deny", "require_approval")


def number(value: Any) -> Fraction | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, Number):
        return Fraction(value.text)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value):
        return Fraction(value)
    return None


def lookup(at: str, value: Any) -> Any:
    for token in at.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name in map(str, range(len(value))):
            value = value[int(name)]
        else:
            return None
    return value


def identical(one: Any, other: Any) -> bool:
    if isinstance(one, int | Number) and isinstance(other, int | Number) and bool not in (type(one), type(other)):
        return number(one) == number(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(identical, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(identical(one[key], other[key]) for key in one)
    return bool(one == other)


def equal(wanted: Any, value: Any) -> bool | None:
    if isinstance(wanted, int | Number) and not isinstance(wanted, bool):
        return None if number(value) is None else number(value) == number(wanted)
    return identical(wanted, value) if type(wanted) is type(value) else None


def any_of(answers: list[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def holds(operator: str, wanted: Any, value: Any) -> bool | None:
    if operator == "exists":
        return bool(wanted) is (value is not None)
    if value is None:
        return False
    if operator in ("gt", "ge", "lt", "le"):
        amount, bound = number(value), number(wanted)
        assert bound is not None
        if amount is None:
            return None
        return {"gt": amount > bound, "ge": amount >= bound, "lt": amount < bound, "le": amount <= bound}[operator]
    if operator == "equals":
        return equal(wanted, value)
    if operator == "one_of":
        return any_of([equal(each, value) for each in wanted])
    if operator == "contains" and isinstance(value, list):
        return any_of([False if item is None else equal(wanted, item) for item in value])
    if operator == "contains" and isinstance(value, str) and isinstance(wanted, str):
        return wanted in value
    if operator == "regex" and isinstance(value, str):
        return re.search(wanted, value) is not None
    return None


def listed(wanted: Any) -> list[Any]:
    return wanted if isinstance(wanted, list) else [wanted]


def matches(rule: Any, call: PolicyCall) -> bool:
    when, answers = rule["when"], []
    for key, wanted in when.items():
        if key in ("target", "targets"):
            answers.append(any(each == call.target or fnmatchcase(call.target, each) for each in listed(wanted)))
        elif key == "step":
            bounds = wanted if isinstance(wanted, dict) else {"ge": wanted, "le": wanted}
            answers += [call.step is not None and holds(name, bound, call.step) for name, bound in bounds.items()]
        elif key == "side_effecting":
            answers.append(call.side_effecting is wanted)
        elif key in ("kind", "company", "role"):
            stated = getattr(call, key)
            answers.append((stated if stated is None else str(stated)) in listed(wanted))
        else:
            for at, predicate in wanted.items():
                answers += [holds(name, each, lookup(at, call.arguments)) for name, each in predicate.items()]
    return False not in answers and (None not in answers or rule["then"]["decision"] in GUARDS)


def reference(document: Any, call: PolicyCall) -> tuple[str, str | None]:
    for rule in sorted(document["rules"], key=lambda each: each["priority"]):
        if matches(rule, call):
            return rule["then"]["decision"], rule["id"]
    return ("allow" if call.kind == "local" else document["default_action"]), None


# Few words and few numbers, so that conditions and calls meet often.

TARGETS = ("a", "ab", "abc", "b", "bc", "a[b]c")
PATTERNS = (*TARGETS, "*", "a*", "*c", "?b*", "[ab]", "*b*")
NUMBERS = (0, 1, 2, 3, -1, 2**53, 2**53 + 1, Number("1.0"), Number("1.5"), Number("2e0"), Number("0.1"))
TEXTS = ("x", "xy", "yx", "1", "1.50", "2.", "9007199254740993", "é")
POINTERS = ("/n", "/m", "/o/p", "/l/0", "/a~1b")

numbers = st.sampled_from(NUMBERS)
texts = st.sampled_from(TEXTS)
scalars = st.one_of(numbers, texts, st.booleans())
values = st.one_of(scalars, st.none(), st.lists(st.one_of(scalars, st.none()), max_size=2), st.just({"p": 1}))
operands = st.one_of(scalars, st.lists(scalars, min_size=1, max_size=2), st.just({"p": Number("1.0")}))


@st.composite
def predicates(draw: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for operator, wanted in (
        (draw(st.sampled_from(["gt", "ge"])), numbers),
        (draw(st.sampled_from(["lt", "le"])), st.one_of(numbers, st.sampled_from(["1.50", "2"]))),
        ("equals", operands),
        ("one_of", st.lists(operands, min_size=1, max_size=3)),
        ("contains", operands),
        ("regex", st.sampled_from(["x", "^x", "y$", "^[0-9]+$", "."])),
        ("exists", st.booleans()),
    ):
        if draw(st.integers(0, 3)) == 0:
            found[operator] = draw(wanted)
    return found or {"exists": True}


def some(choices: Any) -> st.SearchStrategy[Any]:
    return st.one_of(st.sampled_from(choices), st.lists(st.sampled_from(choices), min_size=1, max_size=2, unique=True))


@st.composite
def whens(draw: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, wanted in (
        ("targets", st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2, unique=True)),
        ("kind", some(["tool_call", "llm_call", "local"])),
        ("company", some(["acme", "other"])),
        ("role", some(["runtime", "operator"])),
        ("side_effecting", st.booleans()),
        ("step", st.one_of(st.integers(1, 3), st.dictionaries(st.sampled_from(["ge", "lt"]), st.integers(1, 3), min_size=1))),
        ("arguments", st.dictionaries(st.sampled_from(POINTERS), predicates(), min_size=1, max_size=2)),
    ):  # fmt: skip
        if draw(st.integers(0, 3 if key != "arguments" else 1)) == 0:
            found[key] = draw(wanted)
    return found or {"target": "*"}


@st.composite
def documents(draw: Any) -> dict[str, Any]:
    priorities = draw(st.lists(st.integers(0, 50), max_size=5, unique=True))
    rules = [
        {"id": f"r{place}", "priority": priority, "when": draw(whens()), "then": {"decision": draw(st.sampled_from(["allow", *GUARDS]))}}
        for place, priority in enumerate(priorities)
    ]  # fmt: skip
    return {"default_action": draw(st.sampled_from(["allow", "deny"])), "rules": rules}


calls = st.builds(
    PolicyCall,
    kind=st.sampled_from(list(Kind)),
    target=st.sampled_from(TARGETS),
    company=st.sampled_from(["acme", "other", "third"]),
    arguments=st.fixed_dictionaries(
        {}, optional={"n": values, "m": values, "o": st.fixed_dictionaries({"p": values}), "l": values, "a/b": values}
    ),
    side_effecting=st.sampled_from([True, False, None]),
    step=st.sampled_from([None, 1, 2, 3]),
    role=st.sampled_from([None, *Role]),
)


def agree(document: Any, asked: list[PolicyCall]) -> None:
    try:
        bundle = read_bundle(document)
    except PolicyRefused as refused:
        told = [each.problem for each in refused.problems]
        assert all("can never be met" in each or "is never reached" in each for each in told), told
        assume(False)
    for call in asked:
        ruling = decide(bundle, call)
        assert (ruling.action.value, ruling.rule_id) == reference(document, call), call
        explained = explain(bundle, call)
        assert explained.ruling == ruling
        outcomes = {rule.rule_id: rule.outcome for rule in explained.rules}
        assert [id_ for id_, outcome in outcomes.items() if outcome == "decides"] == [
            id_ for id_ in [ruling.rule_id] if id_
        ]
        for rule in document["rules"]:
            assert (outcomes[rule["id"]] != "does_not_match") is matches(rule, call)


def never_too_much(document: Any, asked: list[PolicyCall]) -> None:
    """A rule that is refused as unreachable is one that the plain reading never reaches either."""
    try:
        read_bundle(document)
        assume(False)
    except PolicyRefused as refused:
        unreachable = [each.rule for each in refused.problems if "is never reached" in each.problem]
    assume(unreachable)
    for call in asked:
        assert reference(document, call)[1] not in unreachable, call


FEW = settings(max_examples=150, suppress_health_check=list(HealthCheck))


@FEW
@given(documents(), st.lists(calls, min_size=1, max_size=8))
def test_p7_3_decisions_and_explanations_are_those_of_a_plain_reading(document: Any, asked: list[PolicyCall]) -> None:
    """7.3: rules by priority, first match wins, the default otherwise."""
    agree(document, asked)


@st.composite
def pairs(draw: Any) -> dict[str, Any]:
    """A rule, and one that narrows it: most are shadowed."""
    wide = draw(whens())
    narrow = {**draw(whens()), **wide}
    for at, predicate in draw(st.dictionaries(st.sampled_from(POINTERS), predicates(), max_size=1)).items():
        narrow["arguments"] = {**wide.get("arguments", {}), at: {**predicate, **wide.get("arguments", {}).get(at, {})}}
    if "target" in narrow and "targets" in narrow:
        del narrow["target"]
    decisions = st.sampled_from(["allow", *GUARDS])
    rules = [
        {"id": id_, "priority": priority, "when": when, "then": {"decision": draw(decisions)}}
        for id_, priority, when in (("wide", 1, wide), ("narrow", 2, narrow))
    ]
    return {"default_action": "allow", "rules": rules}


@FEW
@given(pairs(), st.lists(calls, min_size=10, max_size=30))
def test_p7_3_no_rule_is_refused_as_unreachable_that_a_call_could_reach(document: Any, asked: list[PolicyCall]) -> None:
    """7.3: a refusal here would keep an operator from writing a rule that does something."""
    never_too_much(document, asked)


@pytest.mark.slow
@settings(max_examples=1_500, suppress_health_check=list(HealthCheck))
@given(documents(), st.lists(calls, min_size=1, max_size=12))
def test_p7_3_decisions_are_those_of_a_plain_reading_at_length(document: Any, asked: list[PolicyCall]) -> None:
    """7.3: the same, searched for longer."""
    agree(document, asked)


@pytest.mark.slow
@settings(max_examples=1_500, suppress_health_check=list(HealthCheck))
@given(pairs(), st.lists(calls, min_size=20, max_size=50))
def test_p7_3_nothing_reachable_is_refused_at_length(document: Any, asked: list[PolicyCall]) -> None:
    """7.3: the same, searched for longer."""
    never_too_much(document, asked)
