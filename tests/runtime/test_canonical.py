"""One text for one value: what the names of a turn's effects rest on."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.runtime.canonical import canonical, digest
from gateway.runtime.exact_json import decode, encode
from gateway.runtime.model_request import LONGEST_TEXT, NOISE, question_of

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_p2_10_a_value_that_went_through_a_record_has_the_same_text(value):
    """2.10: a float that comes back as a Decimal, or the other way, names the same effect."""
    assert canonical(decode(encode(value))) == canonical(value)


@given(VALUES)
def test_the_text_does_not_depend_on_the_order_of_keys(value):
    assert canonical(_turned(value)) == canonical(value)


def _turned(value):
    match value:
        case dict():
            return {name: _turned(value[name]) for name in reversed(value)}
        case list():
            return tuple(map(_turned, value))
    return value


@pytest.mark.parametrize(
    "same",
    [(1, 1.0, Decimal("1"), Decimal("1.00"), Decimal("1E0")), (0, -0.0, Decimal("-0.000")), (1e21, 10**21)],
)
def test_p2_10_numbers_of_one_value_are_one(same):
    """2.10"""
    assert len({canonical(number) for number in same}) == 1


@pytest.mark.parametrize(
    "values",
    [
        (1, "1", True, [1], {"1": 1}, None, "", [], {}),
        (2**53, 2**53 + 1, Decimal(2**53) + Decimal("0.5")),
        ("e\u0301", "\u00e9"),
        ({"a": None}, {}),
        ([1, 2], [2, 1]),
    ],
)
def test_p2_10_other_values_are_others(values):
    """2.10: neighbours beyond 2^53, text unnormalised, null and absent, the order of a list."""
    assert len({canonical(value) for value in values}) == len(values)


@pytest.mark.parametrize("value", [float("nan"), Decimal("Infinity"), {1: 1}, {1}, object(), [b""]])
def test_what_is_no_json_has_no_text(value):
    with pytest.raises(ValueError, match="JSON"):
        canonical(value)


def test_endless_nesting_has_no_text():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="deeply"):
        canonical(endless)


def test_a_digest_tells_apart_where_one_part_ends():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a", "") != digest("a")
    assert digest("\ud800") != digest("?"), "half a pair is no reason to fail: the gateway says what is wrong with it"


def test_p7_2_noise_is_left_out_at_the_top_only():
    """7.2"""
    noisy = dict.fromkeys(NOISE, 1)
    assert question_of({"a": 1, **noisy, "in": noisy}) == {"a": 1, "in": noisy}
    assert question_of({"a": 1, "b": 2}, frozenset({"b"})) == {"a": 1}


def test_p9_4_only_what_is_too_long_is_shortened():
    """9.4"""
    short, long = "x" * LONGEST_TEXT, "x" * (LONGEST_TEXT + 1)
    shown = question_of({"a": [short, {"b": (long,)}]})
    assert shown["a"][0] == short
    assert shown["a"][1]["b"] == [{"sha256": digest(long), "characters": len(long)}]
    assert len(json.dumps(shown)) < LONGEST_TEXT + 200
