"""Suggested names and misspelt verbs: for people, never part of a verdict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heuristics import Lexicon, LexiconError, classify, nearest_verb, suggested_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("get_or_create_cart", "create_cart"),
        ("getOrCreateCustomer", "createCustomer"),
        ("find_and_book_slot", "book_slot"),
        ("get_quote_and_hold", "hold_quote"),
        ("shop.get_or_create_cart", "shop.create_cart"),
    ],
)
def test_k5_16_a_clearer_name_is_suggested_for_a_hidden_verb(name: str, expected: str) -> None:
    """3.5: what a name hides behind `and`/`or` leads the suggested one, in the same style."""
    assert suggested_name(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cancle_order", "cancel_order"),
        ("finalze-invoice", "finalize-invoice"),
        ("updteCart", "updateCart"),
        ("retreive_order", "retrieve_order"),
        ("order_cancellation", "cancel_order"),
        ("OrderCancellation", "CancelOrder"),
    ],
)
def test_p3_5_a_misspelt_verb_or_a_noun_for_an_act_gets_a_suggestion(name: str, expected: str) -> None:
    """3.2, 3.5: the name is side-effecting all the same; the suggestion says what to call it."""
    assert classify(name).side_effecting
    assert suggested_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "place_order",
        "get_cart",
        "frobnicate_widget",
        "payment_flow",
        "下单",
        "",
        "...",
        "🛒",
        "x" * 10_000,
        "a_or_",
        "or",
    ],
)
def test_p3_5_a_clear_name_or_one_like_nothing_gets_no_suggestion(name: str) -> None:
    """3.5: no suggestion is better than a wrong one."""
    assert suggested_name(name) is None


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("cancle", "cancel"),
        ("Creat", "create"),
        ("lis", None),
        ("cancel", None),
        ("flow", None),
        ("elocate", None),
        ("updte", "update"),
        ("retreive", "retrieve"),
        ("submitt", "submit"),
        ("orders", None),
        ("project", None),
        ("product", None),
        ("identity", None),
        ("remote", None),
        ("provider", None),
        ("storage", None),
        ("relay", None),
    ],
)
def test_p3_5_the_nearest_verb_is_near_and_starts_alike(word: str, expected: str | None) -> None:
    """3.5: one slip of the keyboard, not another word."""
    assert nearest_verb(word) == expected


@given(name=st.text(max_size=70) | st.text(alphabet="acdelnorty_.-OC", max_size=40))
def test_p3_5_a_suggestion_is_pure_and_names_a_verb(name: str) -> None:
    """3.5: whatever the name, the same answer, and one that the tables understand."""
    better = suggested_name(name)
    assert better == suggested_name(name)
    if better is not None:
        assert better != name
        assert classify(better).verb is not None


def test_p3_5_a_noun_must_point_to_a_listed_verb() -> None:
    """3.2: tables that contradict themselves are refused by name."""
    with pytest.raises(LexiconError, match=r"\[verb_of.x\]: 'zap' is not a listed verb"):
        Lexicon.from_toml('[verb_of.x]\nwhy = "w"\nwords = ["zapping zap"]\n')
