"""K7-08, K7-09: a key that somebody else gave, and carts that no shop sells."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from merchant_sdk import CallKey, KeyConflict, KeyInputError, Line, SQLiteStore, given_key, once, request_key
from merchant_sdk.fingerprint import differing, fingerprint, named_fingerprint

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "given_key.json").read_text())
TWO_A = {"purpose": "order", "buyer": "b-1", "cart": [Line("A", 2, Decimal("5.00"))], "currency": "USD"}
ONE_B = [Line("B", 1, Decimal("10.00"))]


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"cart": ONE_B}, ("cart",)),
        ({"buyer": "b-2"}, ("buyer",)),
        ({"cart": ONE_B, "buyer": "b-2"}, ("buyer", "cart")),
        ({"details": {"address": "Delhi"}}, ("details",)),
        ({"purpose": "refund"}, ("purpose",)),
        ({"currency": "EUR"}, ("cart",)),
    ],
)
def test_k7_08_one_key_for_two_purchases_is_a_conflict_that_names_what_differs(
    store: SQLiteStore, rows: Callable[..., list[Any]], clock: Any, changed: dict[str, Any], fields: tuple[str, ...]
) -> None:
    """K7-08: an equal total is not an equal cart; told apart from "already done", the other's order unseen."""

    def place(**purchase: Any) -> Any:
        with once(store, given_key("K", **purchase), now=clock) as work:
            if not work.done:
                work.db.execute("INSERT INTO orders (buyer, item) VALUES ('b-1', 'A')")
                work.reply({"order_id": "O-1"})
        return work.answer.result

    place(**TWO_A)
    with pytest.raises(KeyConflict) as caught:
        place(**{**TWO_A, **changed})
    assert caught.value.fields == fields
    assert all(field in caught.value.message for field in fields)
    assert "O-1" not in caught.value.message
    again = place(**{**TWO_A, "cart": [Line("A", 1, 500), Line("A", Decimal("1.0"), Decimal("5"))]})
    assert again["order_id"] == "O-1"
    assert "already_done" in again
    assert len(rows()) == 1


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_the_golden_vectors_hold(vector: dict[str, Any]) -> None:
    """Made by another language or last year's release, it is the same key."""
    given = dict(vector["input"])
    cart = [Line(line["sku"], line["quantity"], Decimal(line["price"])) for line in given.pop("cart")]
    made = given_key(given.pop("key"), cart=cart, **given)
    assert {"key": made.text, "fingerprint": made.fingerprint} == vector["output"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not empty"),
        ("k" * 10_240, "at most 1024 bytes"),
        ("é" * 600, "at most 1024 bytes"),
        ("\ud800", "surrogate"),
    ],
)
def test_a_key_that_no_database_should_hold_is_refused_with_the_reason(text: str, why: str) -> None:
    """A key of 10 KB, for one; nothing is cut, because a key that is cut is somebody else's."""
    with pytest.raises(KeyInputError, match=why):
        given_key(text, **TWO_A)


@pytest.mark.parametrize("text", ["", "k" * 10_240, "a\0b", "é" * 600, "\ud800"])
def test_a_call_key_is_bounded_and_never_cut(text: str) -> None:
    """The same for the gateway's key, and for a fingerprint, which decides about conflicts."""
    with pytest.raises(ValueError, match=r"1 to 1,024 bytes|surrogates"):
        CallKey(text, "f")
    with pytest.raises(ValueError, match=r"1 to 1,024 bytes|surrogates"):
        CallKey("k", text)


LINE = Line("A", 1, 500)
ABSURD: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({"cart": []}, "the cart is empty"),
    "too many lines": ({"cart": [LINE] * 1001}, "at most 1000 lines"),
    "negative money": ({"cart": [Line("A", 1, -1)]}, "not negative"),
    "negative decimal": ({"cart": [Line("A", 1, Decimal("-0.01"))]}, "not negative"),
    "NaN": ({"cart": [Line("A", 1, Decimal("NaN"))]}, "not NaN"),
    "signalling NaN": ({"cart": [Line("A", 1, Decimal("sNaN"))]}, "not NaN"),
    "infinite": ({"cart": [Line("A", 1, Decimal("Infinity"))]}, "not NaN or Infinity"),
    "float": ({"cart": [Line("A", 1, 0.1 + 0.2)]}, "binary floats"),  # type: ignore[arg-type]
    "text money": ({"cart": [Line("A", 1, "5.00")]}, "not str"),  # type: ignore[arg-type]
    "a third decimal": ({"cart": [Line("A", 3, Decimal("2.345"))]}, "at most 2 decimal places"),
    "huge exponent": ({"cart": [Line("A", 1, Decimal("1e999999"))]}, "at most 40 digits"),
    "tiny exponent": ({"cart": [Line("A", 1, Decimal("1e-999999"))]}, "decimal places"),
    "no currency": ({"currency": None}, "needs a currency"),
    "unknown currency": ({"currency": "EURO"}, "ISO 4217"),
    "small letters": ({"currency": "usd"}, "ISO 4217"),
    "no quantity": ({"cart": [Line("A", 0, 500)]}, "above zero"),
    "negative quantity": ({"cart": [Line("A", -1, 500)]}, "above zero"),
    "quantity NaN": ({"cart": [Line("A", Decimal("NaN"), 500)]}, "finite"),
    "float quantity": ({"cart": [Line("A", 1.5, 500)]}, "not float"),  # type: ignore[arg-type]
    "true": ({"cart": [Line("A", True, 500)]}, "not bool"),
    "absurd quantity": ({"cart": [Line("A", Decimal("1e500"), 500)]}, "absurd"),
    "no sku": ({"cart": [Line("", 1, 500)]}, "sku"),
    "long sku": ({"cart": [Line("A" * 10_240, 1, 500)]}, "sku is at most"),
    "no buyer": ({"buyer": "  "}, "a guest without an id needs an issued token"),
    "no buyer at all": ({"buyer": None}, "buyer is required"),
}


@pytest.mark.parametrize("case", ABSURD)
def test_k7_09_an_absurd_purchase_makes_no_key_and_says_why(case: str) -> None:
    """K7-09: refused before anything is stored, the same way for every kind of key."""
    changed, why = ABSURD[case]
    for make in (lambda **p: given_key("K", **p), lambda **p: request_key(p.pop("purpose"), session="s", **p)):
        with pytest.raises(KeyInputError, match=why):
            make(**{**TWO_A, **changed})


def test_plain_fingerprints_name_no_fields() -> None:
    """A record of a release that did not name them is still a conflict."""
    assert differing(fingerprint("a"), fingerprint("b")) == ()
    assert differing(fingerprint("a"), named_fingerprint({"a": "a"})) == ()
    assert differing(named_fingerprint({"a": 1, "b": 2}), named_fingerprint({"a": 1, "c": 2})) == ("b", "c")
