"""A work that takes longer than its purchase's window: who came meanwhile and waited for it gets the original."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from merchant_sdk import CallKey, RequestKey, once

PURCHASE = RequestKey("p-1", "f", window_s=5)
STORES = ["psycopg", "psycopg-expecting", "sqlalchemy-mariadb", "django-postgresql", "sqlite3"]


def _order(desk: Any, call: str, now: Callable[[], float], during: Callable[[], None] = lambda: None) -> Any:
    expected = PURCHASE if desk.expects else None
    with once(desk.store, CallKey(call, "f"), now=now, expect=expected) as work:
        if not work.bind(PURCHASE):
            desk.insert(work.db, call)
            during()
            work.reply({"for": call})
    desk.after()
    return work.answer.result["for"]


@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_k7_02_a_loser_that_came_inside_the_window_gets_the_original_however_long_it_waited(desk: Any) -> None:
    """K7-02: a second click one second later, and a payment of ten: it was judged by when its wait was over."""
    start = desk.clock()
    assert _order(desk, "k1", desk.clock) == "k1"
    waited = itertools.chain([start + 1], itertools.repeat(start + 10))
    assert _order(desk, "k2", lambda: next(waited)) == "k1"
    assert desk.orders() == ["k1"]


@pytest.mark.parametrize("desk", STORES, indirect=True)
def test_k7_05_the_window_is_measured_from_the_end_of_a_work_that_took_long(desk: Any) -> None:
    """K7-05: who comes after the window's length and before the commit has waited for that very order."""
    start = desk.clock()

    def pay() -> None:
        desk.clock.at += 10

    assert _order(desk, "k1", desk.clock, pay) == "k1"
    assert _order(desk, "k2", lambda: start + 9) == "k1"
    assert _order(desk, "k3", lambda: start + 14.9) == "k1"
    assert _order(desk, "k4", lambda: start + 15) == "k4"
    assert desk.orders() == ["k1", "k4"]
