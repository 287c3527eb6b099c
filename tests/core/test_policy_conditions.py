"""Conditions on arguments: what each operator says of each kind of value, and what cannot be compared (7.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.identity import Kind
from gateway.core.policy import PolicyCall, decide
from gateway.core.policy_bundle import read_bundle
from gateway.core.policy_conditions import ArgumentCondition
from gateway.core.policy_reading import Reading
from gateway.core.policy_values import number_of, pointer, pointer_problem
from gateway.core.policy_when import read_when
from gateway.core.strict_json import parse

YES, NO, UNCLEAR = True, False, None
ABOVE_2_TO_64 = "24000000000000000000"


def condition(predicate: str, at: str = "/v") -> ArgumentCondition:
    read = Reading()
    when = read_when(read, (), {"arguments": {at: parse(predicate)}})
    assert when is not None, read.problems
    return when.arguments[0]


@pytest.mark.parametrize(
    ("predicate", "value", "expected"),
    [
        # order: numbers, and texts that are a plain decimal
        ('{"gt": 5}', "5", NO),
        ('{"gt": 5}', "6", YES),
        ('{"ge": 5}', "5", YES),
        ('{"ge": 5}', "4", NO),
        ('{"lt": 5}', "5", NO),
        ('{"lt": 5}', "-6", YES),
        ('{"le": 5}', "5.0", YES),
        ('{"le": 5}', "5.0000000000000000000000000000001", NO),
        ('{"gt": 0, "le": 10}', "10", YES),
        ('{"gt": 0, "le": 10}', "0", NO),
        ('{"gt": 23999.99}', '"24000.00"', YES),
        ('{"gt": "23999.99"}', "24000", YES),
        ('{"gt": 24000}', '"24000.00"', NO),
        ('{"gt": 5}', "5e0", NO),
        ('{"gt": 5}', "6E+0", YES),
        ('{"ge": 0}', "-0", YES),
        ('{"ge": 1}', "0.1e1", YES),
        ('{"gt": 5}', '"-7"', NO),
        ('{"gt": 5}', '"007"', YES),
        *[('{"gt": 5}', text, UNCLEAR) for text in (
            '"24,000"', '" 7"', '"7 "', '"+7"', '"7e3"', '".7"', '"7."', '"$7"', '"٧"', '"7\\n"', '""', '"seven"', "true", "false",
            "[7]", "{}", '{"amount": 7}', '"NaN"', '"Infinity"', '"0x10"', '"1_000"',
        )],
        # exact beyond 2^53, and no binary fractions
        ('{"gt": 24000000000000000000}', "24000000000000000001", YES),
        ('{"gt": 24000000000000000001}', ABOVE_2_TO_64, NO),
        ('{"gt": 24000000000000000000}', '"24000000000000000000.01"', YES),
        ('{"equals": 9007199254740993}', "9007199254740992", NO),
        ('{"equals": 0.3}', "0.30000000000000004", NO),
        ('{"gt": 0.1}', "0.1", NO),
        ('{"gt": 0.1}', "0.10000000000000000000001", YES),
        ('{"lt": 1e300}', "1e299", YES),
        ('{"gt": 0}', "1e-999999", YES),
        # equality
        ('{"equals": 1}', "1.0", YES),
        ('{"equals": 1.0}', "1", YES),
        ('{"equals": 1}', "1e0", YES),
        ('{"equals": 1}', '"1"', YES),
        ('{"equals": 1}', '"1.00"', YES),
        ('{"equals": 1}', '"one"', UNCLEAR),
        ('{"equals": 1}', "true", UNCLEAR),
        ('{"equals": true}', "true", YES),
        ('{"equals": true}', "false", NO),
        ('{"equals": true}', "1", UNCLEAR),
        ('{"equals": true}', '"true"', UNCLEAR),
        ('{"equals": "1"}', '"1"', YES),
        ('{"equals": "1"}', '"1.0"', NO),
        ('{"equals": "1"}', "1", UNCLEAR),
        ('{"equals": "a"}', '"A"', NO),
        ('{"equals": "é"}', '"e\\u0301"', NO),
        ('{"equals": "日本"}', '"\\u65e5\\u672c"', YES),
        ('{"equals": [1, "x"]}', '[1.0, "x"]', YES),
        ('{"equals": [1, "x"]}', '["x", 1]', NO),
        ('{"equals": [1]}', '"[1]"', UNCLEAR),
        ('{"equals": {"a": 1, "b": null}}', '{"b": null, "a": 1}', YES),
        ('{"equals": {"a": 1}}', '{"a": 1, "b": null}', NO),
        ('{"equals": {"a": 1}}', "[1]", UNCLEAR),
        ('{"one_of": ["a", "b"]}', '"b"', YES),
        ('{"one_of": ["a", "b"]}', '"c"', NO),
        ('{"one_of": ["a", "b"]}', "3", UNCLEAR),
        ('{"one_of": ["a", 3]}', "3.0", YES),
        ('{"one_of": ["a", 3]}', "4", UNCLEAR),
        ('{"one_of": [2, 3]}', "4", NO),
        ('{"one_of": [2, 3]}', "[2]", UNCLEAR),
        # contains
        ('{"contains": "gift"}', '"a gift card"', YES),
        ('{"contains": "gift"}', '"a GIFT card"', NO),
        ('{"contains": "gift"}', '["gift", 1]', YES),
        ('{"contains": "gift"}', '["a gift"]', NO),
        ('{"contains": "gift"}', "[]", NO),
        ('{"contains": "gift"}', "[1]", UNCLEAR),
        ('{"contains": "gift"}', "[null]", NO),
        ('{"contains": "gift"}', '{"gift": 1}', UNCLEAR),
        ('{"contains": 3}', '[1, "3.0"]', YES),
        ('{"contains": 3}', "[1, 2]", NO),
        ('{"contains": 3}', '"3"', UNCLEAR),
        # regular expressions match anywhere
        ('{"regex": "^SKU-[0-9]+$"}', '"SKU-7"', YES),
        ('{"regex": "^SKU-[0-9]+$"}', '"SKU-7\\n"', NO),
        ('{"regex": "7"}', '"SKU-7"', YES),
        ('{"regex": "^.$"}', '"é"', YES),
        ('{"regex": "(?i)sku"}', '"SKU"', YES),
        ('{"regex": "7"}', "7", UNCLEAR),
        ('{"regex": "7"}', '["7"]', UNCLEAR),
        # there or not
        ('{"exists": true}', "0", YES),
        ('{"exists": true}', "false", YES),
        ('{"exists": true}', '""', YES),
        ('{"exists": true}', "null", NO),
        ('{"exists": false}', "null", YES),
        ('{"exists": false}', "0", NO),
        # several operators: a no decides, else what cannot be compared does
        ('{"regex": "^7", "gt": 5}', '"70"', YES),
        ('{"regex": "^7", "gt": 5}', '"7 pieces"', UNCLEAR),
        ('{"regex": "^8", "gt": 5}', '"7 pieces"', NO),
        ('{"exists": true, "gt": 5}', "6", YES),
    ],
)  # fmt: skip
def test_p7_3_each_operator_on_each_kind_of_value(predicate: str, value: str, expected: bool | None) -> None:
    """7.3: yes, no, or cannot be compared."""
    assert condition(predicate).answer(parse(f'{{"v": {value}}}')) is expected


@pytest.mark.parametrize("predicate", ['{"gt": 1}', '{"equals": 1}', '{"one_of": ["a"]}', '{"contains": "a"}', '{"regex": "."}', '{"exists": true}'])  # fmt: skip
@pytest.mark.parametrize("arguments", ["{}", '{"v": null}', '{"w": 5}'])
def test_p7_3_a_pointer_to_nothing_or_null_meets_no_condition(predicate: str, arguments: str) -> None:
    """7.3: only `exists` false is met by what is not there."""
    assert condition(predicate).answer(parse(arguments)) is False
    assert condition('{"exists": false}').answer(parse(arguments)) is True


@pytest.mark.parametrize(
    ("at", "arguments", "found"),
    [
        ("/a~1b", '{"a/b": 1}', True),
        ("/a~0b", '{"a~b": 1}', True),
        ("/a~01", '{"a~1": 1}', True),
        ("/a~01", '{"a/": 1}', False),
        ("/", '{"": 1}', True),
        ("//x", '{"": {"x": 1}}', True),
        ("", "{}", True),
        ("/items/0/qty", '{"items": [{"qty": 1}]}', True),
        ("/items/1/qty", '{"items": [{"qty": 1}]}', False),
        ("/items/-", '{"items": [1]}', False),
        ("/items/-1", '{"items": [1]}', False),
        ("/items/00", '{"items": [1]}', False),
        ("/items/+0", '{"items": [1]}', False),
        ("/items/٠", '{"items": [1]}', False),
        ("/items/99999999999999999999", '{"items": [1]}', False),
        ("/items/0", '{"items": {"0": 1}}', True),
        ("/items/-", '{"items": {"-": 1}}', True),
        ("/items/length", '{"items": [1]}', False),
        ("/text/0", '{"text": "abc"}', False),
        ("/größe", '{"größe": 1}', True),
        ("/größe", '{"gro\\u0308ße": 1}', False),
        ("/a.b", '{"a.b": 1}', True),
        ("/a%20b", '{"a b": 1}', False),
    ],
)
def test_p7_3_arguments_are_found_as_rfc_6901_says(at: str, arguments: str, found: bool) -> None:
    """7.3: escapes, array indices without leading zeros, and `-` which is always behind the end."""
    assert condition('{"exists": true}', at).answer(parse(arguments)) is found


@pytest.mark.parametrize("text", ["a", "a/b", "/a~", "/a~2", "~", "/~01~", "/" + "x" * 600])
def test_what_is_no_json_pointer_is_named(text: str) -> None:
    assert pointer_problem(text) is not None


def test_a_long_text_cannot_be_compared_with_a_pattern_and_a_backtracking_one_ends() -> None:
    """9.4: the pattern that stops a backtracking engine for ages is answered at once, or this test never ends."""
    slow = condition(json.dumps({"regex": "^(a+)+$"}))
    assert slow.answer({"v": "a" * 8_000 + "!"}) is NO
    assert condition(json.dumps({"regex": "(x+x+)+y"})).answer({"v": "x" * 8_000}) is NO
    assert slow.answer({"v": "a" * 8_192}) is YES
    assert slow.answer({"v": "a" * 8_193}) is UNCLEAR
    assert slow.answer({"v": "é" * 5_000}) is UNCLEAR


@pytest.mark.parametrize(
    ("decision", "default", "value", "rule"),
    [
        ("deny", "allow", '["24000"]', "r"),
        ("require_approval", "allow", '"24,000"', "r"),
        ("allow", "deny", '"24,000"', None),
        ("deny", "allow", "4000", None),
        ("allow", "deny", "24000", "r"),
        ("deny", "allow", "null", None),
    ],
)
def test_p7_3_an_amount_that_cannot_be_compared_meets_a_rule_that_denies_or_asks_and_none_that_allows(
    decision: str, default: str, value: str, rule: str | None
) -> None:
    """7.3: fail closed, both ways round; and the ruling says which argument it was."""
    rules = [{"id": "r", "priority": 1, "when": {"arguments": {"/v": {"gt": 5000}}}, "then": {"decision": decision}}]
    ruling = decide(read_bundle({"default_action": default, "rules": rules}), call(f'{{"v": {value}}}'))
    assert ruling.rule_id == rule
    assert ruling.not_comparable == (("/v",) if rule and decision != "allow" else ())


def test_booleans_and_what_is_nearly_a_number_are_none() -> None:
    assert [number_of(value) for value in (True, False, None, [], {}, "", float("nan"), float("inf"))] == [None] * 8


def test_a_number_is_found_in_nested_arguments_without_rounding() -> None:
    assert pointer("/a/0/b").find(parse('{"a": [{"b": 24000000000000000001}]}')) == 24000000000000000001


def call(arguments: str, **changes: Any) -> PolicyCall:
    return PolicyCall(Kind.TOOL_CALL, "place_order", "acme", parse(arguments), **changes)
