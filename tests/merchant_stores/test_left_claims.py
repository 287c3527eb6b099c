"""What a work claimed and did not make, or gave up and did not undo, is nobody's for ever."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from merchant_sdk import CallKey, Misuse, RequestKey, StoreBusy, TokenRefused, once
from merchant_sdk.store import Contention, Record

STORES = ["psycopg", "sqlalchemy-postgresql", "sqlalchemy-mariadb", "django-postgresql", "sqlite3"]
TOKEN = RequestKey("token", "f", expires_at=1_796_000_010.0)
PURCHASE = RequestKey("p-1", "f")


@pytest.mark.parametrize("known", [None, {"for": "k1"}], ids=["reply", "known-reply"])
@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_k7_05_a_token_that_came_too_late_is_not_redeemed_by_a_work_that_goes_on(desk: Any, known: Any) -> None:
    """K7-05: the work caught the refusal and bought something else; the token's claim was committed with it, as a work
    that had ended early or, with a reply that was known, as the order itself."""
    desk.clock.at += 20
    with once(desk.store, CallKey("k1", "f"), now=desk.clock, reply=known) as work:
        with suppress(TokenRefused):
            work.bind(TOKEN)
        assert not work.bind(PURCHASE)
        desk.insert(work.db, "k1")
        if known is None:
            work.reply({"for": "k1"})
    desk.after()
    assert desk.read("SELECT kind FROM oncegate_once ORDER BY kind") == [("call",), ("request",)]
    with pytest.raises(TokenRefused):
        desk.place("k2", TOKEN)


@pytest.mark.parametrize("desk", ["psycopg", "sqlalchemy-postgresql"], indirect=True)
def test_k7_11_what_a_work_forgot_is_not_remembered_again_by_a_claim_made_anew(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7-11: the order would be cancelled, and its purchase answered with it for ever. Nothing is stored instead."""
    desk.place("k1", PURCHASE)
    another = RequestKey("p-2", "f")

    def exchanged() -> None:
        with once(desk.store, CallKey("k2", "f"), now=desk.clock) as work:
            work.forget(PURCHASE.text)
            monkeypatch.setattr(work.transaction, "claim", _undone_once(work.transaction.claim))
            work.bind(another)
            desk.insert(work.db, "k2")
            work.reply("instead of k1")

    with pytest.raises(StoreBusy, match="nothing was stored"):
        exchanged()
    assert desk.orders() == ["b-1"]


def _undone_once(claim: Callable[[Record], Record | None]) -> Callable[[Record], Record | None]:
    left = [Contention("a deadlock")]

    def claim_later(wanted: Record) -> Record | None:
        if left:
            raise left.pop()
        return claim(wanted)

    return claim_later


@pytest.mark.parametrize("expect", [None, PURCHASE], ids=["", "expected"])
@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_a_work_may_be_bound_to_its_own_key(desk: Any, expect: RequestKey | None) -> None:
    """It found its own claim, and said that a work had ended early."""
    with once(desk.store, PURCHASE, now=desk.clock, expect=expect) as work:
        assert not work.bind(PURCHASE)
        desk.insert(work.db, "k1")
        work.reply("done")
    desk.after()
    assert (desk.orders(), desk.records()) == (["k1"], 1)
    assert work.request_key == PURCHASE


@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_k7_08_its_own_key_for_something_else_is_a_mistake(desk: Any) -> None:
    """K7-08: one purchase cannot be two."""
    with pytest.raises(Misuse, match="own key is this purchase"), once(desk.store, PURCHASE, now=desk.clock) as work:
        work.bind(RequestKey("p-1", "another"))
    desk.after()
    assert desk.records() == 0


@pytest.mark.parametrize("expect", ["p-1", CallKey("p-1", "f")], ids=["text", "call-key"])
@pytest.mark.parametrize("desk", ["sqlite3"], indirect=True)
def test_only_a_purchase_is_expected(desk: Any, expect: Any) -> None:
    with pytest.raises(TypeError, match="expect is a purchase"):
        once(desk.store, CallKey("k1", "f"), now=desk.clock, expect=expect)


@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_k7_02_a_work_whose_bind_gave_up_cannot_go_on_without_its_purchase(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7-02: who holds the purchase is making that order. InnoDB's transaction survives a wait that was too long."""

    def busy(_: Record) -> None:
        raise StoreBusy("the database stayed locked; nothing was begun")

    def anyway() -> None:
        with once(desk.store, CallKey("k1", "f"), now=desk.clock) as work:
            monkeypatch.setattr(work.transaction, "claim", busy)
            with suppress(StoreBusy):
                work.bind(PURCHASE)
            desk.insert(work.db, "k1")
            work.reply("done")

    with pytest.raises(StoreBusy, match="nothing was stored"):
        anyway()
    desk.after()
    assert (desk.orders(), desk.records()) == ([], 0)


@pytest.mark.parametrize("at", [1_796_000_000_000.0, float("nan"), -1.0, "now"], ids=str)
@pytest.mark.parametrize("desk", ["psycopg", "sqlite3"], indirect=True)
def test_a_clock_that_gives_no_unix_seconds_is_told_at_once(desk: Any, at: Any) -> None:
    """Milliseconds, say: the order was made, and every repeat of its purchase raised that no year is so late."""
    with pytest.raises(Misuse, match="Unix seconds"), once(desk.store, CallKey("k1", "f"), now=lambda: at):
        raise AssertionError
    assert desk.records() == 0
