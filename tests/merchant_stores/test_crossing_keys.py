"""Two works, each of which holds the key that the other's inner block waits for: no database sees that deadlock."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from merchant_sdk import CallKey, SQLiteStore, StoreBusy, nesting, once
from merchant_sdk.stores.sqlalchemy_async import once_async

CROSSING = (("a", "b"), ("b", "a"))
LONGEST_S = 30.0
"""Only a work that hangs is given so long."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "INNER_WAIT_S", 0.2)


def _told(outcomes: list[str]) -> None:
    # One of them gives way, and the other may have been as impatient at the same moment.
    assert sorted(outcomes) in (["StoreBusy", "StoreBusy"], ["StoreBusy", "done"])


@pytest.mark.parametrize("desk", ["psycopg", "sqlalchemy-postgresql", "sqlalchemy-mariadb"], indirect=True)
def test_k7_02_two_nested_works_with_crossing_keys_do_not_wait_for_ever(desk: Any) -> None:
    """K7-02: the inner block gives up with StoreBusy; undone and sent again, both works are done."""
    both_hold = threading.Barrier(2)
    outcomes: list[str] = []

    def work(outer: str, inner: str) -> None:
        try:
            with once(desk.store, CallKey(outer, "f"), now=desk.clock) as held:
                both_hold.wait(LONGEST_S)
                with once(desk.store, CallKey(inner, "f"), now=desk.clock) as nested:
                    if not nested.done:
                        nested.reply("inner")
                held.reply("outer")
            outcomes.append("done")
        except StoreBusy:
            outcomes.append("StoreBusy")

    threads = [threading.Thread(target=work, args=keys, daemon=True) for keys in CROSSING]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_S)
    assert not any(thread.is_alive() for thread in threads)
    _told(outcomes)
    assert desk.place("c") == desk.place("c")


@pytest.mark.parametrize("desk", ["async-postgresql", "async-asyncpg", "async-mariadb"], indirect=True)
def test_k7_02_nor_do_two_tasks(desk: Any) -> None:
    """K7-02: the same on one event loop."""

    async def work(outer: str, inner: str, both_hold: asyncio.Barrier) -> str:
        try:
            async with once_async(desk.store, CallKey(outer, "f"), now=desk.clock) as held:
                await both_hold.wait()
                async with once_async(desk.store, CallKey(inner, "f"), now=desk.clock) as nested:
                    if not nested.done:
                        nested.reply("inner")
                held.reply("outer")
            return "done"
        except StoreBusy:
            return "StoreBusy"

    async def both() -> list[str]:
        both_hold = asyncio.Barrier(2)
        async with asyncio.timeout(LONGEST_S):
            return await asyncio.gather(*(work(*keys, both_hold) for keys in CROSSING))

    _told(asyncio.run(both()))


def test_k7_02_only_an_inner_block_is_impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The database's own limit stays that of every other, also of one that follows a block which has ended."""
    shop, stock = SQLiteStore(tmp_path / "shop.db"), SQLiteStore(tmp_path / "stock.db")
    asked: list[tuple[str, float | None]] = []
    for name, store in (("shop", shop), ("stock", stock)):
        begin = store.begin

        def begin_and_tell(wait_s: float | None = None, name: str = name, begin: Any = begin) -> Any:
            asked.append((name, wait_s))
            return begin(wait_s)

        monkeypatch.setattr(store, "begin", begin_and_tell)

    def works() -> None:
        with once(shop, CallKey("a", "f"), now=lambda: 1.0) as outer:
            with once(stock, CallKey("b", "f"), now=lambda: 1.0) as inner:
                inner.reply("inner")
            outer.reply("outer")
        with once(stock, CallKey("c", "f"), now=lambda: 1.0) as after:
            after.reply("after")

    # A context of its own: in that of the tests another may have left a block open.
    contextvars.Context().run(works)
    assert asked == [("shop", None), ("stock", 0.2), ("stock", None)]
