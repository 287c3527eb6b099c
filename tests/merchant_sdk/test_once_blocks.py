"""The block of `once`: what it stores, what it undoes, and how it may not be used."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from merchant_sdk import (
    AlreadyDone,
    CallKey,
    Line,
    Misuse,
    NoReply,
    Refused,
    ReplyBeforeCommit,
    RequestKey,
    SQLiteStore,
    once,
    request_key,
)

Rows = Callable[..., list[Any]]
Place = Callable[..., Any]


def derived(item: str = "pizza", **changed: Any) -> RequestKey:
    return request_key("order", **{"buyer": "b-1", "cart": [Line(item, 1)], "window_s": 1200, **changed})


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
