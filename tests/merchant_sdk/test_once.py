"""`once`: what runs, and what is found and replayed or refused."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from merchant_sdk import (
    CallKey,
    KeyConflict,
    Line,
    Misuse,
    RequestKey,
    SQLiteStore,
    TokenRefused,
    issue_token,
    once,
    redeem,
    request_key,
)

TOKEN_SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
PURCHASE = {"purpose": "order", "buyer": "b-1", "cart": [Line("pizza", 1)]}
Rows = Callable[..., list[Any]]
Place = Callable[..., Any]


def derived(item: str = "pizza", **changed: Any) -> RequestKey:
    return request_key("order", **{"buyer": "b-1", "cart": [Line(item, 1)], "window_s": 1200, **changed})


def token(clock: Any, ttl_s: int = 600) -> str:
    return issue_token(TOKEN_SECRET, **PURCHASE, now=clock(), ttl_s=ttl_s)


def test_the_same_call_runs_once_and_replays_its_answer(place: Place, rows: Rows, clock: Any) -> None:
    """2.1 at the merchant: the same key is the same call, however late."""
    first = place("k1")
    clock.at += 86_400 * 20
    assert place("k1") == first == {"order_id": "O-1"}
    assert len(rows()) == 1


def test_k1_13_a_second_call_with_the_same_token_gets_the_first_order(place: Place, rows: Rows, clock: Any) -> None:
    """K1-13: the gateway's key is new, the token is not: O-1 comes back and one order exists."""
    given = token(clock)
    first = place("n1", redeem(TOKEN_SECRET, given, **PURCHASE))
    second = place("n2", redeem(TOKEN_SECRET, given, **PURCHASE))
    assert first == {"order_id": "O-1"}
    assert second["order_id"] == "O-1"
    assert second["already_done"]["message"].startswith("Already done at")
    assert len(rows()) == 1


@pytest.mark.parametrize("after_s", [5, 90, 19 * 60, 3 * 3600])
def test_k7_05_a_the_same_token_is_always_the_original(place: Place, rows: Rows, clock: Any, after_s: int) -> None:
    """K7-05 (a): also long after the token has expired."""
    given = redeem(TOKEN_SECRET, token(clock), **PURCHASE)
    place("k1", given)
    clock.at += after_s
    assert place("k2", given)["order_id"] == "O-1"
    assert len(rows()) == 1


@pytest.mark.parametrize("after_s", [5, 90, 19 * 60, 3 * 3600])
def test_k7_05_b_a_new_token_is_always_a_new_order(place: Place, rows: Rows, clock: Any, after_s: int) -> None:
    """K7-05 (b): by decision of the shop, which issued it."""
    place("k1", redeem(TOKEN_SECRET, token(clock), **PURCHASE))
    clock.at += after_s
    assert place("k2", redeem(TOKEN_SECRET, token(clock), **PURCHASE)) == {"order_id": "O-2"}
    assert len(rows()) == 2


@pytest.mark.parametrize(
    ("after_s", "repeat"), [(5, True), (90, True), (1140, True), (1199.9, True), (1200, False), (10_800, False)]
)
def test_k7_05_c_a_derived_key_finds_the_original_inside_its_window(
    place: Place, rows: Rows, clock: Any, after_s: float, repeat: bool
) -> None:
    """K7-05 (c): flagged with when it was placed and how to order again; afterwards a new order."""
    place("k1", derived())
    first_at = clock.at
    clock.at += after_s
    second = place("k2", derived())
    assert len(rows()) == (1 if repeat else 2)
    if repeat:
        assert second["order_id"] == "O-1"
        assert second["already_done"]["order_again"] == "Say so."
        assert second["already_done"]["at"] == "2026-11-30T00:53:20.000Z"
        assert first_at == 1_796_000_000
    else:
        assert second == {"order_id": "O-2"}


def test_the_window_starts_at_the_first_order_and_no_repeat_prolongs_it(place: Place, rows: Rows, clock: Any) -> None:
    """K7-05 (c): a repeat at 19 minutes does not make 21 minutes a repeat."""
    place("k1", derived())
    clock.at += 1140
    place("k2", derived())
    clock.at += 120
    assert place("k3", derived()) == {"order_id": "O-2"}
    assert len(rows()) == 2


def test_a_call_answered_with_an_original_keeps_that_answer(
    store: SQLiteStore, place: Place, rows: Rows, clock: Any
) -> None:
    """2.1, 4.13: from its own time on: the second call's lost reply is fetched again after the window: no order appears."""
    place("k1", derived())
    clock.at += 90
    second = place("k2", derived())
    assert store.prune(clock.at) == 2
    clock.at += 86_400
    assert place("k2", derived()) == second
    assert len(rows()) == 1


def test_ordering_again_on_purpose_is_good_for_one_more_order(place: Place, rows: Rows) -> None:
    """K7-05 (c): the way to order again is itself safe to repeat."""
    place("k1", derived())
    again = derived(again_after="O-1")
    assert [place(k, again)["order_id"] for k in ("k2", "k3", "k2")] == ["O-2", "O-2", "O-2"]
    assert len(rows()) == 2


def test_k7_08_the_same_key_for_another_cart_is_a_conflict_and_shows_nothing(place: Place, rows: Rows) -> None:
    """K7-08: never the other's order, told apart from "already done", and naming both."""
    place("k1")
    with pytest.raises(KeyConflict) as caught:
        place("k1", item="pasta")
    assert caught.value.code == "key_reused"
    assert (caught.value.first_fingerprint, caught.value.fingerprint) == ("order pizza", "order pasta")
    assert "O-1" not in str(caught.value)
    assert len(rows()) == 1


def test_k7_08_the_same_purchase_to_another_address_is_a_conflict(place: Place, rows: Rows) -> None:
    """K7-08: neither the first order in silence nor a second one."""
    place("k1", derived(details={"address": "Kochi"}))
    with pytest.raises(KeyConflict):
        place("k2", derived(details={"address": "Delhi"}))
    assert place("k3", derived(details={"address": "Kochi"}))["order_id"] == "O-1"
    assert len(rows()) == 1


def test_k7_08_another_buyer_with_an_equal_cart_is_another_purchase(place: Place, rows: Rows) -> None:
    """K7-08: two buyers never meet in one key."""
    place("k1", derived())
    assert place("k2", derived(buyer="b-2")) == {"order_id": "O-2"}
    assert len(rows()) == 2


def test_a_late_first_use_of_a_token_is_refused(place: Place, rows: Rows, clock: Any) -> None:
    """An expired token places nothing; the refusal is no order's answer."""
    given = redeem(TOKEN_SECRET, token(clock, ttl_s=60), **PURCHASE)
    clock.at += 60
    with pytest.raises(TokenRefused) as caught:
        place("k1", given)
    assert caught.value.code == "token_expired"
    assert rows() == []


def run(store: SQLiteStore, clock: Any, key: Any, block: Callable[[Any], Any]) -> None:
    with once(store, key, now=clock) as work:
        block(work)


def test_a_forgotten_purchase_can_be_made_again(store: SQLiteStore, rows: Rows, clock: Any, place: Place) -> None:
    """A cancelled order must not answer for the next one; the old call still gets its old answer."""
    place("k1", derived())
    with once(store, CallKey("k2", "cancel"), now=clock) as work:
        work.forget(derived().text)
        work.reply("cancelled")
    assert place("k3", derived()) == {"order_id": "O-2"}
    assert place("k1", derived()) == {"order_id": "O-1"}
    assert len(rows()) == 2


@pytest.mark.parametrize("known", [None, {"order_id": "O-1"}])
@pytest.mark.parametrize("as_what", ["its own key", "bound", "expected"])
def test_k7_11_a_work_cannot_forget_the_purchase_that_it_makes(
    store: SQLiteStore, rows: Rows, clock: Any, place: Place, as_what: str, known: Any
) -> None:
    """K7-11: its order would stand without a record, and the next equal purchase would be a second one."""
    key: Any = derived() if as_what == "its own key" else CallKey("k1", "f")
    expect = derived() if as_what == "expected" else None

    def order() -> None:
        with once(store, key, now=clock, reply=known, expect=expect) as work:
            if as_what == "bound":
                work.bind(derived())
            work.db.execute("INSERT INTO orders (buyer, item) VALUES ('b-1', 'pizza')")
            work.forget(derived().text)

    with pytest.raises(Misuse, match="forget"):
        order()
    assert rows() == []
    assert place("k2", derived()) == {"order_id": "O-1"}


def test_a_call_key_and_a_request_key_of_the_same_text_are_two_keys(place: Place, rows: Rows) -> None:
    """2.8: whatever text a gateway uses, it names no purchase."""
    place(None, derived())
    assert place(derived().text) == {"order_id": "O-2"}
    assert len(rows()) == 2


@pytest.mark.parametrize("reply", ["Placed.", ["O-1"], 7, None, {"order_id": "O-1"}])
def test_every_kind_of_reply_is_flagged_when_it_is_a_repeat(store: SQLiteStore, clock: Any, reply: Any) -> None:
    """K7-05: a model that sees the reply sees that nothing new was done."""
    with once(store, derived(), now=clock) as work:
        work.reply(reply)
    with once(store, derived(), now=clock) as again:
        assert again.done
    assert work.answer.result == reply
    assert "nothing new was done" in again.answer.body
    assert again.answer.matched == "request"


@pytest.mark.parametrize("text", ["", "x" * 1025, "ü" * 513])
def test_a_key_has_1_to_1024_bytes(text: str) -> None:
    """2.8: never truncated before comparing."""
    with pytest.raises(ValueError, match=r"1,024 bytes"):
        CallKey(text, "f")


def test_old_records_are_pruned_and_young_ones_kept(store: SQLiteStore, rows: Rows, clock: Any, place: Place) -> None:
    """4.13: retention is the merchant's to run."""
    place("k1")
    clock.at += 100
    place("k2")
    assert store.prune(clock.at) == 1
    assert [row[0] for row in rows("SELECT key FROM oncegate_once WHERE key <> ''")] == ["k2"]
