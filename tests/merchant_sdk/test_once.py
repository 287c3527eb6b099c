"""`once`: run, replay or refuse, in the merchant's own transaction."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from merchant_sdk import (
    AlreadyDone,
    CallKey,
    KeyConflict,
    Line,
    Misuse,
    NoReply,
    Refused,
    ReplyBeforeCommit,
    RequestKey,
    SQLiteStore,
    TokenRefused,
    issue_token,
    once,
    redeem,
    request_key,
)
from merchant_sdk.deciding import decide
from merchant_sdk.store import Record

TOKEN_SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
PURCHASE = {"purpose": "order", "buyer": "b-1", "cart": [Line("pizza", 1)]}

Rows = Callable[..., list[Any]]
Place = Callable[..., Any]


@pytest.fixture
def place(store: SQLiteStore, clock: Any) -> Place:
    """Place one order under a call key, a purchase, or both; the committed answer's result."""

    def place(call: str | None = None, purchase: RequestKey | None = None, *, item: str = "pizza") -> Any:
        key = CallKey(call, f"order {item}") if call else purchase
        assert key is not None
        with once(store, key, now=clock) as work:
            bound = call and purchase and work.bind(purchase, order_again="Say so.")
            if not work.done and not bound:
                row = work.db.execute("INSERT INTO orders (buyer, item) VALUES ('b-1', ?)", (item,))
                work.reply({"order_id": f"O-{row.lastrowid}"})
        return work.answer.result

    return place


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


def _insert(work: Any) -> None:
    work.db.execute("INSERT INTO orders (buyer, item) VALUES ('b-1', 'pizza')")


def _decline(work: Any) -> None:
    _insert(work)
    raise Refused("card_declined", "Your card was declined.", status=402)


@pytest.mark.parametrize("key", [CallKey("k1", "f"), derived()], ids=["call", "purchase"])
def test_a_refusal_stores_none_of_the_work(store: SQLiteStore, rows: Rows, clock: Any, key: Any) -> None:
    """A declined card leaves no order behind."""
    with pytest.raises(Refused):
        run(store, clock, key, _decline)
    assert rows() == []


def test_a_refusal_does_not_block_the_next_attempt(store: SQLiteStore, rows: Rows, clock: Any, place: Place) -> None:
    """A declined card, then another call, or the same purchase directly: it goes through."""
    with pytest.raises(Refused):
        run(store, clock, CallKey("k1", "f"), lambda work: work.bind(derived()) or _decline(work))
    assert place("k2", derived()) == {"order_id": "O-1"}
    with pytest.raises(Refused):
        run(store, clock, derived("pasta"), _decline)
    assert place(None, derived("pasta")) == {"order_id": "O-2"}
    assert len(rows()) == 2


def test_a_late_twin_of_a_refused_call_is_refused_too(store: SQLiteStore, rows: Rows, clock: Any, place: Place) -> None:
    """Semantics 5, "the merchant refused: stored": no order after the customer was told no."""
    with pytest.raises(Refused):
        run(store, clock, CallKey("k1", "order pizza"), _decline)
    with pytest.raises(Refused) as caught:
        place("k1")
    assert (caught.value.code, caught.value.status) == ("card_declined", 402)
    assert rows() == []


def test_an_exception_rolls_back_work_and_record(store: SQLiteStore, rows: Rows, clock: Any, place: Place) -> None:
    """K7-11: nothing half done; the same call may run."""
    with pytest.raises(ZeroDivisionError):
        run(store, clock, CallKey("k1", "order pizza"), lambda work: _insert(work) or work.reply(1 / 0))
    assert rows() == rows("SELECT * FROM oncegate_once") == []
    assert place("k1") == {"order_id": "O-1"}


def test_k7_11_the_answer_cannot_be_read_before_the_commit(store: SQLiteStore, rows: Rows, clock: Any) -> None:
    """K7-11: a reply with an open transaction raises, and rolls back."""
    seen = []

    def reply_too_early(work: Any) -> None:
        seen.append(work)
        _insert(work)
        work.reply("placed")
        _ = work.answer

    with pytest.raises(ReplyBeforeCommit, match="after the `with` block"):
        run(store, clock, CallKey("k", "f"), reply_too_early)
    assert rows() == []
    with pytest.raises(ReplyBeforeCommit):
        _ = seen[0].answer


def test_a_block_without_a_reply_raises_and_stores_nothing(store: SQLiteStore, rows: Rows, clock: Any) -> None:
    """A committed order whose answer nobody knows would be worse than none."""
    with pytest.raises(NoReply):
        run(store, clock, CallKey("k", "f"), _insert)
    assert rows() == []


@pytest.mark.parametrize(
    "reply", [object(), {1, 2}, float("nan"), Decimal("NaN"), b"x", iter([1])], ids=lambda r: type(r).__name__
)
def test_k7_03_a_reply_that_is_not_json_fails_before_the_commit(
    store: SQLiteStore, rows: Rows, clock: Any, reply: Any
) -> None:
    """K7-03: serialisation cannot fail after the charge, because it comes before the commit."""
    with pytest.raises((TypeError, ValueError)):
        run(store, clock, CallKey("k", "f"), lambda work: _insert(work) or work.reply(reply))
    assert rows() == []


@pytest.mark.parametrize(
    "reply",
    [{1: "a", "1": "b"}, {"orders": [{"x": ({True: 1, "true": 2},)}]}, {None: 1, "null": 2}, {1.5: 1, "1.5": 2}],
    ids=["number", "deep", "null", "fraction"],
)
@pytest.mark.parametrize("known", [False, True])
def test_k7_03_a_reply_with_two_keys_of_one_name_fails_before_the_commit(
    store: SQLiteStore, rows: Rows, clock: Any, reply: Any, known: bool
) -> None:
    """K7-03: as JSON it would say both, and every reader keeps another."""

    def order() -> None:
        with once(store, CallKey("k", "f"), now=clock, reply=reply if known else None) as work:
            _insert(work)
            work.reply(reply)

    with pytest.raises(ValueError, match="one name"):
        order()
    assert rows() == []


def test_k7_03_keys_that_are_no_text_are_written_as_such(store: SQLiteStore, clock: Any) -> None:
    """K7-03: where nothing clashes, a table by number is a reply like any other."""
    with once(store, CallKey("k", "f"), now=clock) as work:
        work.reply({1: "a", "2": "b", None: [{False: {}}]})
    assert work.answer.result == {"1": "a", "2": "b", "null": [{"false": {}}]}


def test_k2_15_half_a_surrogate_pair_in_a_reply_is_replaced(store: SQLiteStore, clock: Any) -> None:
    """K2-15: dirty text does not cost the customer the order."""
    with once(store, CallKey("k", "f"), now=clock) as work:
        work.reply({"note": "a\udcb2b \U0001f600", "price": Decimal("5.00")})
    assert work.answer.result == {"note": "a\ufffdb \U0001f600", "price": "5.00"}
    assert work.answer.body.encode()


def test_after_done_nothing_can_be_written(store: SQLiteStore, rows: Rows, clock: Any, place: Place) -> None:
    """Forgetting `if work.done` is an error, never a second order."""
    place("k1", derived())
    for key in (CallKey("k1", "order pizza"), derived()):
        with pytest.raises(AlreadyDone):
            run(store, clock, key, _insert)
    with once(store, CallKey("k2", "f"), now=clock) as work:
        kept = work.db
        kept.execute("INSERT INTO orders (buyer, item) VALUES ('b-1', 'before')")
        assert work.bind(derived())
        kept.execute("INSERT INTO orders (buyer, item) VALUES ('b-1', 'after')")
    assert work.answer.result["order_id"] == "O-1"
    for misuse in (lambda: work.reply(1), lambda: work.db, lambda: work.forget("x")):
        with pytest.raises(Misuse):
            misuse()
    assert len(rows()) == 1


def test_the_block_is_entered_once_and_used_inside(store: SQLiteStore, clock: Any) -> None:
    """A Work outside its block holds no transaction."""
    work = once(store, CallKey("k", "f"), now=clock)
    for early in (lambda: work.db, lambda: work.reply(1), lambda: work.bind(derived()), lambda: work.answer):
        with pytest.raises(Misuse):
            early()
    with work:
        work.reply("first")
        with pytest.raises(AlreadyDone):
            work.reply("second")
    with pytest.raises(Misuse), work:
        raise AssertionError("a second block must not run")
    with pytest.raises(Misuse):
        _ = work.db
    assert work.answer.result == "first"


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
            _insert(work)
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


FOUND = Record("call", "k", "f", "succeeded", '"O-1"', 100.0)


@pytest.mark.parametrize(
    ("record", "key", "now", "expected"),
    [
        (None, CallKey("k", "f"), 0, "run"),
        (FOUND, CallKey("k", "f"), 1e9, "replay"),
        (FOUND, CallKey("k", "g"), 0, "key_reused"),
        (FOUND, RequestKey("k", "f", window_s=10), 109, "replay"),
        (FOUND, RequestKey("k", "f", window_s=10), 110, "run"),
        (FOUND, RequestKey("k", "g", window_s=10), 110, "run"),
        (FOUND, RequestKey("k", "g", window_s=10), 109, "key_reused"),
        (FOUND, RequestKey("k", "f", window_s=10), 50, "replay"),
        (FOUND, RequestKey("k", "f", expires_at=101), 500, "replay"),
        (None, RequestKey("k", "f", expires_at=101), 100, "run"),
        (None, RequestKey("k", "f", expires_at=101), 101, "token_expired"),
        (Record("call", "k", "f", "refused", '{"code":"no","message":"No.","status":422}', 1.0), CallKey("k", "f"), 2, "no"),
    ],
)  # fmt: skip
def test_the_decision_is_a_pure_table(record: Record | None, key: Any, now: float, expected: str) -> None:
    """Run, replay or refuse; a clock set back does not end a window."""
    try:
        decided = "run" if decide(record, key, now) is None else "replay"
    except Refused as refused:
        decided = refused.code
    assert decided == expected


@pytest.mark.parametrize("status", [200, 401, 403, 408, 409, 425, 429, 500, 503])
def test_a_refusal_cannot_be_sent_with_a_status_that_means_something_else(status: int) -> None:
    """Semantics 5: 409 and 5xx would be "unknown", 401 and 429 "never executed"."""
    with pytest.raises(ValueError, match="does not tell the gateway"):
        Refused("no", "No.", status=status)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"store": "orders.db"}, "once takes a store of merchant_sdk.stores, not str"),
        ({"store": SimpleNamespace(sync=None)}, "`async with once_async(...)` is for it"),
        ({"key": "k"}, "once takes the gateway's key for the call"),
        ({"now": 1.0}, "now is a function that gives Unix seconds"),
    ],
    ids=["a path", "an async store", "a text for a key", "a number for a clock"],
)
def test_what_once_is_given_by_mistake_is_told_in_words(
    store: SQLiteStore, clock: Any, arguments: dict[str, Any], told: str
) -> None:
    """Before anything is begun."""
    given: dict[str, Any] = {"store": store, "key": CallKey("k", "f"), "now": clock} | arguments
    with pytest.raises(TypeError, match=re.escape(told)):
        once(given["store"], given["key"], now=given["now"])


def test_a_work_is_bound_to_a_purchase_only(store: SQLiteStore, rows: Rows, clock: Any) -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="bound to a purchase"), once(store, CallKey("k", "f"), now=clock) as work:
        work.bind(nothing)
    assert rows() == []
