"""Issued tokens: one purchase, named by the shop."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merchant_sdk import KeyInputError, Line, SecretError, TokenRefused, issue_token, redeem

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()
NOW = 1_796_000_000
WHAT: dict[str, Any] = {"purpose": "order", "buyer": "b-1", "cart": [Line("pizza", 2, 500)], "currency": "USD"}


def issue(**changed: Any) -> str:
    return issue_token(changed.pop("secret", SECRET), **{**WHAT, "now": NOW, "ttl_s": 600, **changed})


def test_the_same_token_is_the_same_key_and_a_new_one_is_another() -> None:
    """K7-05 (a) and (b): a token is a purchase, not a cart."""
    first, second = issue(), issue()
    assert redeem(SECRET, first, **WHAT) == redeem(SECRET, first, **WHAT)
    assert redeem(SECRET, first, **WHAT).text != redeem(SECRET, second, **WHAT).text
    assert redeem(SECRET, first, **WHAT).fingerprint == redeem(SECRET, second, **WHAT).fingerprint


def test_a_token_with_a_given_nonce_never_changes() -> None:
    """A token issued before an upgrade is redeemed after it."""
    token = issue(nonce=bytes(12))
    assert token == "v1.AAAAAGsMy1gAAAAAAAAAAAAAAABeSVo1IPgqnMFGQdQ-XALw.IGGmD5v08mu90L1PvSEyLWDY7IXXILYR"
    assert redeem(SECRET, token, **WHAT).text == "v1.e1277e1d961c4c30527b4210c9d1c90f0866fd5a247683473c776c1d03b5aeb0"


def test_the_key_carries_the_expiry_for_a_first_use() -> None:
    """K7-05 (a): expiry is judged by `once`, since an order in time is found for ever."""
    assert redeem(SECRET, issue(), **WHAT).expires_at == NOW + 600


@pytest.mark.parametrize(
    "changed",
    [
        {"buyer": "b-2"},
        {"cart": [Line("pizza", 1, 1000)]},
        {"cart": [Line("pizza", 2, 600)]},
        {"purpose": "refund"},
        {"currency": "EUR"},
        {"details": {"address": "Kochi"}},
    ],
)
def test_k7_08_a_token_is_bound_to_its_purpose_buyer_cart_and_details(changed: dict[str, Any]) -> None:
    """K7-08: another cart or buyer is told apart from "already done" and from a forgery."""
    with pytest.raises(TokenRefused) as caught:
        redeem(SECRET, issue(), **{**WHAT, **changed})
    assert caught.value.code == "token_mismatch"


def test_a_rotated_secret_still_redeems() -> None:
    """Several secrets are valid while one replaces another."""
    token = issue()
    assert redeem([OTHER, SECRET], token, **WHAT) == redeem(SECRET, token, **WHAT)
    with pytest.raises(TokenRefused, match="not one"):
        redeem([OTHER], token, **WHAT)
    with pytest.raises(SecretError):
        redeem([], token, **WHAT)


GOOD = issue(nonce=bytes(12))


@pytest.mark.parametrize(
    "forged",
    ["", "T1", "v1.", "v2" + GOOD[2:], GOOD[:-1], GOOD + "A", GOOD.replace(".", ""), GOOD[:20] + "B" + GOOD[21:],
     GOOD[:-2] + "AA", GOOD[:50] + "\u00e9" + GOOD[51:], "\ud83d" * len(GOOD), "x" * 1_000_000, None, 7],
)  # fmt: skip
def test_a_forged_token_is_one_kind_of_refusal(forged: Any) -> None:
    """K6-07: whatever the model made up."""
    with pytest.raises(TokenRefused) as caught:
        redeem(SECRET, forged, **WHAT)
    assert caught.value.code == "token_invalid"


@given(st.text(max_size=100) | st.text(alphabet="v1.ABCab-_", min_size=84, max_size=84))
def test_no_text_is_a_token_by_chance(text: str) -> None:
    """K6-07: searched."""
    with pytest.raises(TokenRefused):
        redeem(SECRET, text, **WHAT)
    with pytest.raises(TokenRefused):
        redeem(SECRET, "v1." + text, **WHAT)


@pytest.mark.parametrize(
    "bad",
    [
        *({"ttl_s": each} for each in (0, -1, 0.5, True, None, 10**30)),
        *({"now": each} for each in (float("nan"), float("inf"), -100.0)),
        *({"nonce": b"short"}, {"buyer": ""}, {"cart": []}),
    ],
)
def test_a_token_is_not_issued_for_nothing(bad: dict[str, Any]) -> None:
    """A token names a buyer and a cart, and some time to use it."""
    with pytest.raises(KeyInputError):
        issue(**bad)
