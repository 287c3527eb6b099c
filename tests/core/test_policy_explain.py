"""Why a rule decides and why the others do not, in words (7.3)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.identity import Kind
from gateway.core.model import Role
from gateway.core.policy import PolicyCall
from gateway.core.policy_bundle import read_bundle
from gateway.core.policy_explain import explain
from gateway.core.strict_json import parse


def rule(id_: str, priority: int, decision: Any, **when: Any) -> dict[str, Any]:
    said = {"decision": decision} if isinstance(decision, str) else decision
    return {"id": id_, "priority": priority, "when": when, "then": said}


def call(arguments: str = "{}", **changes: Any) -> PolicyCall:
    stated = {"kind": Kind.TOOL_CALL, "target": "place_order", "company": "acme", "side_effecting": True, **changes}
    return PolicyCall(arguments=parse(arguments), **stated)


def why(when: Any, asked: PolicyCall, decision: str = "deny") -> str:
    (only,) = explain(read_bundle({"default_action": "allow", "rules": [rule("r", 1, decision, **when)]}), asked).rules
    return only.why


@pytest.mark.parametrize(
    ("when", "asked", "expected"),
    [
        ({"target": "get_*"}, call(), 'target "place_order" is not "get_*"'),
        ({"targets": ["a", "b", "c", "d", "e", "f"]}, call(), 'target "place_order" is not one of "a", "b", "c", "d", "e" and 1 more'),
        ({"kind": ["local", "llm_call"]}, call(), 'kind is "tool_call", and must be one of "llm_call", "local"'),
        ({"company": "b"}, call(), 'company is "acme", and must be "b"'),
        ({"role": "operator"}, call(role=Role.RUNTIME), 'role is "runtime", and must be "operator"'),
        ({"role": "operator"}, call(), 'role is not known, and must be "operator"'),
        ({"side_effecting": False}, call(), "it is side-effecting, and must be read-only"),
        ({"side_effecting": False}, call(side_effecting=None), "it is neither side-effecting nor read-only, and must be read-only"),
        ({"step": 2}, call(step=3), "step is 3, and must be 2"),
        ({"step": {"ge": 2, "lt": 9}}, call(), "step is not stated, and must be at least 2 and below 9"),
        ({"arguments": {"/t": {"gt": 5}}}, call(), "/t is not there"),
        ({"arguments": {"/t": {"gt": 5, "le": 9}}}, call('{"t": 5.00}'), "/t is 5.00, and must be above 5 and at most 9"),
        ({"arguments": {"/t": {"gt": "5000.10"}}}, call('{"t": 5}'), "/t is 5, and must be above 5000.10"),
        ({"arguments": {"/t": {"equals": "x"}}}, call('{"t": "é"}'), '/t is "é", and must be equal to "x"'),
        ({"arguments": {"/t": {"one_of": ["x", 1]}}}, call('{"t": null}'), "/t is not there"),
        ({"arguments": {"/t": {"one_of": ["x", "y"]}}}, call('{"t": "z"}'), '/t is "z", and must be one of "x", "y"'),
        ({"arguments": {"/t": {"contains": "x"}}}, call('{"t": "z"}'), '/t is "z", and must be something that contains "x"'),
        ({"arguments": {"/t": {"regex": "^x"}}}, call('{"t": "z"}'), '/t is "z", and must be a text that matches "^x"'),
        ({"arguments": {"/t": {"exists": False}}}, call('{"t": 0}'), "/t is there, and must not be"),
        ({"arguments": {"": {"equals": {"a": 1}}}}, call(), 'the whole of the arguments is {}, and must be equal to {"a":1}'),
        ({"arguments": {"/t": {"exists": True}}}, call('{"t": 0}'), "every condition is met"),
        (
            {"arguments": {"/t": {"gt": 5}}},
            call('{"t": "5,000"}'),
            '/t is the text "5,000", which cannot be judged as above 5; what cannot be compared meets a rule that denies or asks',
        ),
        ({"arguments": {"/t": {"regex": "x"}}}, call('{"t": ' + "[" * 3 + "]" * 3 + "}"), "/t is an array, which cannot be judged as a text that matches \"x\"; what cannot be compared meets a rule that denies or asks"),
    ],
)  # fmt: skip
def test_p7_3_the_first_condition_that_fails_is_said_in_words(when: Any, asked: PolicyCall, expected: str) -> None:
    """7.3: enough to mend the rule or the call without reading the code."""
    assert why(when, asked) == expected


def test_p7_3_an_allow_says_that_what_cannot_be_compared_does_not_meet_it() -> None:
    """7.3: the other way round than for a rule that denies."""
    said = why({"arguments": {"/t": {"lt": 5}}}, call('{"t": true}'), "allow")
    assert (
        said == "/t is a boolean, which cannot be judged as below 5; what cannot be compared meets no rule that allows"
    )


def test_p7_3_the_whole_of_an_explanation() -> None:
    """7.3: one line for the answer, one for each rule in the order they are asked, and the bundle's version."""
    limit = {"max": 1000, "window_s": 60, "per": "/buyer", "sum_of": "/total"}
    rules = [
        rule("last", 30, "deny", target="*"),
        rule("ask", 20, {"decision": "require_approval", "reason": "costly", "rate_limit": limit}, target="place_*"),
        rule("local", 10, "deny", kind="local"),
    ]
    bundle = read_bundle({"default_action": "allow", "rules": rules})
    found = explain(bundle, call('{"buyer": "b", "total": 5}'))
    assert [(each.rule_id, each.outcome, each.place) for each in found.rules] == [
        ("local", "does_not_match", 2),
        ("ask", "decides", 1),
        ("last", "matches", 0),
    ]
    assert found.text.splitlines() == [
        "require_approval: rule ask decides; reason: costly; asks operator within 900 s; at most 1000 as the sum of "
        "/total in 60 s per /buyer (rule ask)",
        '        10  local (deny): kind is "tool_call", and must be "local"',
        "->      20  ask (require_approval): every condition is met",
        " ~      30  last (deny): would match, but ask comes first",
        f"bundle {bundle.version}",
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.TOOL_CALL, "deny: no rule matches, and default_action decides"),
        (Kind.LOCAL, "allow: no rule matches, and a local effect is then allowed whatever default_action says"),
    ],
)
def test_p7_3_the_default_is_explained(kind: Kind, expected: str) -> None:
    """7.3: the exception for local effects too."""
    assert explain(read_bundle({"default_action": "deny"}), call(kind=kind)).text.splitlines()[0] == expected


def test_long_values_are_cut() -> None:
    said = why({"arguments": {"/t": {"equals": "x"}}}, call(f'{{"t": "{"y" * 5_000}"}}'))
    assert len(said) < 150


@pytest.mark.parametrize(
    ("arguments", "on_error", "expected"),
    [
        ('{"amount": 1, "buyer": "b"}', "deny", None),
        ('{"amount": -1, "buyer": "b"}', "deny", "is denied (on_error)"),
        ('{"amount": 1}', "deny", "is denied (on_error)"),
        ('{"amount": -1, "buyer": "b"}', "allow", "goes on uncounted (on_error)"),
    ],
)
def test_p7_3_what_a_limit_cannot_count_is_said(arguments: str, on_error: str, expected: str | None) -> None:
    """7.3, 7.5: an allow whose limit cannot be counted is no plain allow."""
    limit = {"max": 2000, "window_s": 60, "per": "/buyer", "sum_of": "/amount", "on_error": on_error}
    bundle = read_bundle(
        {
            "default_action": "deny",
            "rules": [rule("r", 1, {"decision": "allow", "rate_limit": limit}, target="place_order")],
        }
    )
    said = explain(bundle, call(arguments)).why
    assert (expected is None) == ("what is to be counted" not in said)
    assert expected is None or expected in said
