"""A purchase that is expected is claimed with its call: a hint that changes nothing but the round trips."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy.orm import Session

from merchant_sdk import CallKey, Misuse, Refused, RequestKey, TransactionMisuse, once
from merchant_sdk.store import Record

PURCHASE, ANOTHER = RequestKey("p-1", "f", window_s=60), RequestKey("p-2", "f", window_s=60)
# Those that claim it at once, and one that takes no hint.
STORES = ["psycopg", "sqlalchemy-postgresql", "sqlite3"]


def expecting(desk: Any, call: str, purchase: RequestKey = PURCHASE) -> Any:
    return once(desk.store, CallKey(call, "f"), now=desk.clock, expect=purchase)


def order(desk: Any, call: str) -> Any:
    with expecting(desk, call) as work:
        if not work.done and not work.bind(PURCHASE):
            desk.insert(work.db, call)
            work.reply({"for": call})
    return work.answer.result


def known(desk: Any, call: str, inside: Any = lambda db: None) -> Any:
    """An order whose reply is written with its claims."""
    with once(desk.store, CallKey(call, "f"), now=desk.clock, expect=PURCHASE, reply={"for": call}) as work:
        if not work.done and not work.bind(PURCHASE):
            desk.insert(work.db, call)
            inside(work.db)
    return work.answer.result


def unbound(desk: Any) -> None:
    with expecting(desk, "k1") as work:
        desk.insert(work.db, "k1")
        work.reply("done")


def declined(desk: Any) -> None:
    with expecting(desk, "k1") as work:
        work.bind(PURCHASE)
        desk.insert(work.db, "k1")
        raise Refused("declined", "Declined.")


@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_a_work_that_is_not_bound_to_what_it_expects_stores_nothing(desk: Any) -> None:
    """Its claim would be kept without a reply, and the purchase closed for ever."""
    with pytest.raises(Misuse, match="not bound to the purchase"):
        unbound(desk)
    assert (desk.orders(), desk.records()) == ([], 0)


@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_a_work_is_bound_to_no_other_purchase_than_it_expects(desk: Any) -> None:
    with pytest.raises(Misuse, match="another purchase"), expecting(desk, "k1") as work:
        work.bind(ANOTHER)
    assert (desk.orders(), desk.records()) == ([], 0)
    assert order(desk, "k2") == {"for": "k2"}


@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_a_refused_call_leaves_nothing_of_the_purchase_that_it_expected(desk: Any) -> None:
    """The refusal stays with its call; the purchase is free for the next."""
    for _ in range(2):
        with pytest.raises(Refused, match="Declined"):
            declined(desk)
    assert (desk.orders(), desk.records()) == ([], 1)
    assert order(desk, "k2") == {"for": "k2"}


@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_k1_02_a_replay_leaves_nothing_of_a_purchase_that_it_expects(desk: Any) -> None:
    """K1-02: the call was answered, and what it would have bought today is not claimed by it."""
    assert order(desk, "k1") == {"for": "k1"}
    desk.forget("cancel", PURCHASE)
    records = desk.records()
    assert order(desk, "k1") == {"for": "k1"}
    assert desk.records() == records
    assert order(desk, "k2") == {"for": "k2"}, "the purchase was free"
    assert desk.orders() == ["k1", "k2"]


@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_k7_05_an_expected_purchase_whose_window_has_passed_is_taken_over(desk: Any) -> None:
    """K7-05: the row is there, and is another day's."""
    assert order(desk, "k1") == {"for": "k1"}
    desk.clock.at += 61
    assert order(desk, "k2") == {"for": "k2"}
    assert order(desk, "k3")["for"] == "k2"
    assert desk.orders() == ["k1", "k2"]


@pytest.mark.parametrize("desk", ["psycopg", "sqlalchemy-postgresql"], indirect=True)
def test_a_savepoint_around_bind_does_not_undo_a_claim_that_came_with_begin(desk: Any) -> None:
    with expecting(desk, "k1") as work:
        savepoint = work.db.begin_nested() if hasattr(work.db, "begin_nested") else work.db.transaction()
        with suppress(ZeroDivisionError), savepoint:
            work.bind(PURCHASE)
            raise ZeroDivisionError
        desk.insert(work.db, "k1")
        work.reply({"for": "k1"})
    assert order(desk, "k2")["for"] == "k1"
    assert desk.orders() == ["k1"]


@pytest.mark.parametrize("desk", ["psycopg", "sqlalchemy-postgresql"], indirect=True)
def test_what_was_undone_is_claimed_anew(desk: Any) -> None:
    """A claim that came with BEGIN went with it."""
    call, bought = (Record(kind, "k", "f", "succeeded", '"done"', 1.0) for kind in ("call", "request"))
    transaction = desk.store.begin()
    transaction.expect(bought)
    assert transaction.claim(call) is None
    transaction.undo_work()
    assert transaction.claim(bought) is None
    transaction.put([bought])
    transaction.commit()
    transaction.close()
    assert desk.read("SELECT kind FROM oncegate_once") == [("request",)]


@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_k1_02_a_reply_that_is_known_is_that_of_the_purchase_too(desk: Any) -> None:
    """K1-02: nothing is written at the end, and another call of the purchase finds it all the same."""
    assert known(desk, "k1") == known(desk, "k1") == {"for": "k1"}
    assert known(desk, "k2")["for"] == order(desk, "k3")["for"] == "k1"
    assert desk.orders() == ["k1"]


@pytest.mark.parametrize("desk", ["psycopg", "sqlalchemy-postgresql"], indirect=True)
def test_k7_11_claims_that_a_text_undid_are_not_taken_for_kept(desk: Any) -> None:
    """K7-11: what came with BEGIN went with a ROLLBACK behind another statement."""

    def begin_anew(db: Any) -> None:
        execute = db.connection().exec_driver_sql if isinstance(db, Session) else db.execute
        execute("SELECT 1; ROLLBACK; BEGIN")
        desk.insert(db, "after")

    with pytest.raises(TransactionMisuse):
        known(desk, "k1", begin_anew)
    assert (desk.orders(), desk.records()) == ([], 0)
