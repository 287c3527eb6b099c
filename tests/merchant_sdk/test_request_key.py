"""K7-05, K7-08, K7-09: when two purchases are one."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merchant_sdk import KeyInputError, Line, request_key

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "request_key.json").read_text())

ANY = {"buyer": "b-1", "cart": [Line("pizza", 2, Decimal("5.00"))], "currency": "USD", "window_s": 1200}


def key(**changed: Any) -> str:
    return request_key("place_order", **{**ANY, **changed}).text


def cart(*lines: Line) -> list[Line]:
    return list(lines)


def line_of(data: dict[str, Any]) -> Line:
    price = data.get("price")
    return Line(
        data["sku"],
        Decimal(data["quantity"]) if isinstance(data["quantity"], str) else data["quantity"],
        Decimal(price) if isinstance(price, str) else price,
        data.get("options", {}),
    )


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda v: v["name"])
def test_the_golden_vectors_hold(vector: dict[str, Any]) -> None:
    """A key made by last year's release, or in another language, is the same key."""
    given = dict(vector["input"])
    made = request_key(given.pop("purpose"), cart=[line_of(line) for line in given.pop("cart")], **given)
    assert {"key": made.text, "fingerprint": made.fingerprint} == vector["output"]


def test_the_first_vector_can_be_made_by_hand() -> None:
    """The format as `docs/merchants.md` describes it, written out without the SDK."""
    parts = [
        "oncegate.request-key.v1",
        "window",
        "",
        "",
        "place_order",
        "b-1",
        "USD",
        "1",
        "pizza",
        "0",
        "500",
        "2000000",
    ]
    text = "".join(f"{len(part)}:{part}," for part in parts)
    assert "v1." + hashlib.sha256(text.encode()).hexdigest() == VECTORS["vectors"][0]["output"]["key"]


@pytest.mark.parametrize(
    "changed",
    [
        {"cart": cart(Line("pizza", 1, 500), Line("pizza", 1, Decimal("5")))},
        {"cart": cart(Line("pizza", Decimal("2.0"), 500))},
        {"cart": cart(Line("pizza", Decimal("0.5"), 500), Line("pizza", Decimal("1.5"), 500))},
        {"window_s": 60},
        {"details": {"address": "Kochi"}},
    ],
    ids=["merged", "quantity", "halves", "window length", "details"],
)
def test_k7_09_what_is_equal_has_the_same_key(changed: dict[str, Any]) -> None:
    """K7-09: the spelling of numbers and the way lines are split do not count."""
    assert key(**changed) == key()


@pytest.mark.parametrize(
    "changed",
    [
        {"cart": cart(Line("pizza", 1, 1000))},
        {"cart": cart(Line("pasta", 2, 500))},
        {"cart": cart(Line("pizza", 2, 501))},
        {"cart": cart(Line("pizza", 2, 500, {"size": "L"}))},
        {"currency": "EUR"},
        {"buyer": "b-2"},
        {"window_s": None, "session": "s-1"},
        {"window_s": None, "session": "s-2"},
        {"again_after": "O-1"},
        {"again_after": "O-2"},
    ],
)
def test_k7_08_what_differs_has_another_key(changed: dict[str, Any]) -> None:
    """K7-08: an equal total does not make an equal purchase."""
    others = {key(), *(key(**other) for other in ({"buyer": "b-3"}, {"cart": cart(Line("soup", 2, 500))}))}
    assert key(**changed) not in others


def test_k7_08_every_difference_is_a_key_of_its_own() -> None:
    """K7-08: no two of these share a key."""
    changes = [
        {}, {"buyer": "b-2"}, {"currency": "EUR"}, {"again_after": "O-1"}, {"window_s": None, "session": "O-1"},
        {"cart": cart(Line("pizza", 1, 1000))}, {"cart": cart(Line("pizza", 20, 50))}, {"cart": cart(Line("pizza2", 2, 500))},
        {"cart": cart(Line("pizza", 2, 500, {"a": "bc"}))}, {"cart": cart(Line("pizza", 2, 500, {"ab": "c"}))},
        {"cart": cart(Line("pizza", 2, 500), Line("a", 1))}, {"cart": cart(Line("pizza", 2))},
    ]  # fmt: skip
    assert len({key(**change) for change in changes}) == len(changes)


def test_k7_09_kuwait_keeps_three_decimals_apart() -> None:
    """K7-09: 1.234 and 1.23 KWD are two prices; 500 and 500.00 JPY are one."""
    assert key(currency="KWD", cart=cart(Line("a", 1, Decimal("1.234")))) != key(
        currency="KWD", cart=cart(Line("a", 1, Decimal("1.23")))
    )
    assert key(currency="JPY", cart=cart(Line("a", 1, 500))) == key(
        currency="JPY", cart=cart(Line("a", 1, Decimal("500.00")))
    )


@pytest.mark.parametrize("amount", [500, Decimal("5"), Decimal("5.0"), Decimal("5.00")])
def test_k7_09_five_dollars_however_written_are_one_purchase_and_never_five_euros(amount: Any) -> None:
    """K7-09: equal amounts are equal keys and equal fingerprints; the currency is part of both."""
    dollars, euros = (key(currency=code, cart=cart(Line("a", 1, amount))) for code in ("USD", "EUR"))
    assert dollars == key(currency="USD", cart=cart(Line("a", 1, Decimal("5.000"))))
    assert dollars != euros


def test_k7_08_another_address_keeps_the_key_and_changes_the_fingerprint() -> None:
    """K7-08: so that `once` meets it as a conflict, neither a repeat nor a second order."""
    kochi, delhi = (request_key("p", **ANY, details={"address": city}) for city in ("Kochi", "Delhi"))
    assert kochi.text == delhi.text
    assert kochi.fingerprint != delhi.fingerprint


def test_text_is_compared_in_nfc() -> None:
    """The same letter typed as one code point or as two is the same letter."""
    assert key(buyer="caf\u00e9") == key(buyer="cafe\u0301")
    assert key(buyer="cafe") != key(buyer="caf\u00e9")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"window_s": None}, "time scope"),
        ({"session": "s"}, "time scope"),
        ({"window_s": 0}, "positive"),
        ({"window_s": -5}, "positive"),
        ({"window_s": 1.5}, "whole"),
        ({"window_s": True}, "whole"),
        ({"window_s": None, "session": ""}, "session"),
        ({"again_after": ""}, "again_after"),
        ({"buyer": ""}, "buyer is required"),
        ({"buyer": "  "}, "buyer is required"),
        ({"buyer": None}, "buyer is required"),
        ({"buyer": 4711}, "buyer is a text, not int"),
        ({"buyer": "\ud83d"}, "surrogate"),
        ({"buyer": "x" * 10_240}, "1024 bytes"),
        ({"buyer": "ü" * 600}, "1024 bytes"),
        ({"currency": None}, "needs a currency"),
        ({"currency": "usd"}, "ISO 4217"),
        ({"cart": []}, "empty"),
        ({"cart": [Line("a", 1)] * 1001}, "1000 lines"),
        ({"cart": cart(Line("", 1))}, "sku"),
        ({"cart": cart(Line("a", 0))}, "above zero"),
        ({"cart": cart(Line("a", -1))}, "above zero"),
        ({"cart": cart(Line("a", Decimal("-0.5")))}, "above zero"),
        ({"cart": cart(Line("a", 10**13))}, "10\\*\\*12"),
        ({"cart": cart(Line("a", 1.0))}, "float"),  # type: ignore[arg-type]
        ({"cart": cart(Line("a", True))}, "bool"),
        ({"cart": cart(Line("a", Decimal("NaN")))}, "finite"),
        ({"cart": cart(Line("a", Decimal("1E+999999")))}, "absurd"),
        ({"cart": cart(Line("a", Decimal("1E-999999")))}, "6 decimal places"),
        ({"cart": cart(Line("a", Decimal("0.0000001")))}, "6 decimal places"),
        ({"cart": cart(Line("a", 1, 0.3))}, "float"),  # type: ignore[arg-type]
        ({"cart": cart(Line("a", 3, Decimal("2.345")))}, "decimal places"),
        ({"cart": cart(Line("a", 1, Decimal("NaN")))}, "NaN"),
        ({"cart": cart(Line("a", 1, -5))}, "negative"),
        ({"cart": cart(Line("a", 1, 5, {"\u00e9": "1", "e\u0301": "2"}))}, "twice"),
        ({"details": {"address": ""}}, "details"),
        ({"details": {"tip": 1.5}}, "a value in details is a text, not float"),
        ({"details": {"": "x"}}, "a name in details is a text that is not empty"),
        ({"cart": cart(Line(17, 1))}, "sku is a text, not int"),  # type: ignore[arg-type]
        ({"details": ["address"]}, "details is a mapping"),
        ({"details": 0}, "details is a mapping"),
        ({"cart": None}, "empty"),
        ({"cart": 5}, "list of Line"),
        ({"cart": "abc"}, "list of Line"),
        ({"cart": [{"sku": "a", "quantity": 1}]}, "list of Line"),
        ({"cart": iter(cart(Line("a", 1)))}, "list of Line"),
        ({"cart": cart(Line("a", 1, options=None))}, "options is a mapping"),  # type: ignore[arg-type]
        ({"cart": cart(Line("a", 1, options=[("size", "L")]))}, "options is a mapping"),  # type: ignore[arg-type]
    ],
)
def test_k7_09_what_makes_no_key_is_refused_with_the_reason(changed: dict[str, Any], reason: str) -> None:
    """K7-09: a cart that is not exact never gets a key that is nearly right."""
    with pytest.raises(KeyInputError, match=reason):
        key(**changed)


lines = st.builds(
    Line,
    st.sampled_from("abc"),
    st.integers(1, 9),
    st.none() | st.integers(0, 3),
    st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2),
)


@given(st.lists(lines, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_order_and_splitting_of_lines_never_count(made: list[Line], random: Any) -> None:
    """K7-09: searched: shuffled, and every line of n split into one and the rest."""
    split = [part for line in made for part in _split(line)]
    random.shuffle(split)
    assert key(cart=split) == key(cart=made)


@given(st.lists(lines, min_size=1, max_size=4), st.lists(lines, min_size=1, max_size=4))
def test_carts_share_a_key_exactly_when_they_hold_the_same(one: list[Line], other: list[Line]) -> None:
    """K7-08: searched against a plain count of what each cart holds."""
    assert (key(cart=one) == key(cart=other)) == (_holds(one) == _holds(other))


def _split(line: Line) -> list[Line]:
    if line.quantity == 1:
        return [line]
    return [Line(line.sku, q, line.price, line.options) for q in (1, line.quantity - 1)]


def _holds(made: list[Line]) -> dict[Any, Any]:
    counted: dict[Any, Any] = {}
    for line in made:
        what = (line.sku, line.price, tuple(sorted(line.options.items())))
        counted[what] = counted.get(what, 0) + line.quantity
    return counted
