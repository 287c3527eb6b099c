"""K7-11: a task that is cancelled while its work is being undone leaves no transaction open behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine

from merchant_sdk import CallKey
from merchant_sdk.stores.sqlalchemy_async import AsyncSQLAlchemyStore, once_async

INSERT = "INSERT INTO orders (buyer) VALUES ('b-1')"
KEY = CallKey("k1", "f")


@pytest.fixture(params=["psycopg", "asyncpg", "aiosqlite"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[AsyncEngine]:
    if request.param == "aiosqlite":
        url = f"sqlite+aiosqlite:///{request.getfixturevalue('sqlite_database')}?timeout=0.1"
    else:
        at = dict(part.split("=") for part in request.getfixturevalue("postgres_database").split())
        url = f"postgresql+{request.param}://shop@/{at['dbname']}?host={at['host']}"
    made = create_async_engine(url, pool_size=1, max_overflow=0, pool_timeout=1)
    yield made
    await made.dispose()


@pytest.mark.parametrize("use", ["once", "status", "read"])
async def test_k7_11_a_task_cancelled_in_its_rollback_gives_its_connection_back(engine: AsyncEngine, use: str) -> None:
    """K7-11: its write lock would hold every other order up until the garbage is collected."""
    store = AsyncSQLAlchemyStore(async_sessionmaker(engine))
    await store.create_table()
    cancelled = False

    async def place(*, fail: bool) -> Any:
        async with once_async(store, KEY, now=lambda: 1.0) as work:
            if not work.done:
                await work.db.execute(sa.text(INSERT))
                if fail:
                    raise ZeroDivisionError
                work.reply("placed")
        return work.answer.result

    def read() -> None:
        with store.sync.reading():
            pass

    if use == "status":
        await place(fail=False)

    @event.listens_for(engine.sync_engine, "rollback")
    def _cancel(_: sa.Connection) -> None:
        nonlocal cancelled
        task = asyncio.current_task()
        if not cancelled and task is not None:
            cancelled = True
            task.cancel()

    uses = {"once": lambda: place(fail=True), "status": lambda: store.status("k1", now=lambda: 2.0)}
    ended = asyncio.create_task(uses[use]() if use in uses else store.run(read))
    await asyncio.wait([ended])
    # The task and its error are kept alive here: no collection of garbage helps.
    assert ended.cancelled()
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert await place(fail=False) == "placed"
    async with engine.connect() as connection:
        assert (await connection.execute(sa.text("SELECT count(*) FROM orders"))).scalar_one() == 1
