"""A Shop over an async store: the same promises, with tools that await an AsyncSession on the server's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.pool import NullPool

from merchant_sdk import CallWork, Line, Misuse, Read, Refused, Shop, SQLiteStore, request_key
from merchant_sdk.stores.sqlalchemy_async import AsyncSQLAlchemyStore

INSERT = sa.text("INSERT INTO orders (buyer, item) VALUES (:buyer, :item) RETURNING id")


@pytest.fixture
async def store(database: Path, store: SQLiteStore) -> AsyncIterator[AsyncSQLAlchemyStore]:
    """On the file that the sync store made, where the orders table is too."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{database}", poolclass=NullPool, connect_args={"timeout": 10})
    yield AsyncSQLAlchemyStore(async_sessionmaker(engine))
    await engine.dispose()


@pytest.fixture
def shop(store: AsyncSQLAlchemyStore, secret: str, clock: Any) -> Shop:
    shop = Shop(store, secrets=[secret], now=clock)

    async def purchase(work: CallWork, item: str) -> Any:
        await asyncio.sleep(0)
        return request_key("order", buyer=work.call.context.conversation, cart=[Line(item, 1)], window_s=1200)

    async def in_stock(work: CallWork, item: str) -> None:
        if item == "vada":
            raise Refused("sold_out", "Sorry, sold out.")

    @shop.tool(key=purchase, accept=in_stock)
    async def place_order(work: CallWork, item: str) -> Any:
        """Order an item."""
        assert isinstance(work.db, AsyncSession)
        row = await work.db.execute(INSERT, {"buyer": work.call.context.conversation, "item": item})
        return {"order_id": row.scalar_one(), "key": work.request_key and work.request_key.text}

    @shop.tool()
    async def cancel(work: CallWork, key: str) -> Any:
        """Let it be ordered anew."""
        await work.forget(key)
        return "cancelled"

    @shop.tool(side_effecting=False)
    async def count_orders(read: Read) -> Any:
        """How many there are."""
        return (await read.db.execute(sa.text("SELECT count(*) FROM orders"))).scalar_one()

    return shop


async def test_the_same_call_and_the_same_purchase_are_one_order(gateway: Any, shop: Shop, rows: Any) -> None:
    """2.1, K1-02: as with every other store."""
    app = shop.asgi()
    first, same, other = [
        await gateway.call(app, "place_order", {"item": "dosa"}, key=key) for key in ("k1", "k1", "k2")
    ]
    assert first.status == 200
    assert same.body == first.body
    assert other.json["order_id"] == first.json["order_id"]
    assert "already_done" in other.json
    assert (await gateway.call(app, "cancel", {"key": first.json["key"]}, key="c1")).json == "cancelled"
    assert (await gateway.call(app, "place_order", {"item": "dosa"}, key="k3")).json["order_id"] == 2
    assert (await gateway.call(app, "count_orders", {}, key=None)).json == 2
    assert len(rows()) == 2


async def test_k7_02_twins_at_once_are_one_order(gateway: Any, shop: Shop, rows: Any) -> None:
    """K7-02: the losers wait on the loop, and it goes on."""
    app = shop.asgi()
    replies = await asyncio.gather(
        *(gateway.call(app, "place_order", {"item": "dosa"}, key=f"k{n % 2}") for n in range(8))
    )
    assert {reply.status for reply in replies} == {200}
    assert {reply.json["order_id"] for reply in replies} == {1}
    assert len(rows()) == 1


async def test_a_refusal_is_remembered_and_a_failure_leaves_nothing(gateway: Any, shop: Shop, rows: Any) -> None:
    """K7-03, and a 500 with nothing stored."""
    app = shop.asgi()

    @shop.tool()
    async def break_down(work: CallWork) -> Any:
        """Fails after its insert."""
        await work.db.execute(INSERT, {"buyer": "x", "item": "y"})
        raise RuntimeError("the shop broke")

    for _ in range(2):
        refused = await gateway.call(app, "place_order", {"item": "vada"}, key="k1")
        assert (refused.status, refused.json["error"]["code"]) == (422, "sold_out")
    assert (await gateway.call(app, "break_down", {}, key="k2")).status == 500
    assert rows() == []
    assert [row[1] for row in rows("SELECT outcome, key FROM oncegate_once")] == ["k1"]


async def test_its_status_and_health_are_answered(gateway: Any, shop: Shop, rows: Callable[..., Any]) -> None:
    """5.4: under /status as ever."""
    app = shop.asgi()
    endpoint = app._endpoint
    done = await gateway.call(app, "place_order", {"item": "dosa"}, key="k1")
    assert shop.on_loop is not None
    said = await shop.on_loop.run(endpoint.health)
    assert said.status == 200
    from merchant_sdk.wire import Question

    said = await shop.on_loop.run(endpoint._status, Question("k1", None))
    assert said.body == f'{{"status":"committed","result":{done.body.decode()}}}'


def test_what_cannot_await_is_refused_in_words(store: AsyncSQLAlchemyStore, secret: str) -> None:
    """Before anything is served."""
    shop = Shop(store, secrets=[secret])
    with pytest.raises(Misuse, match=r"shop\.asgi\(\), or give the shop a SQLAlchemyStore"):
        shop.wsgi()
    with pytest.raises(Misuse, match="once_async"):
        shop.once(request_key("order", buyer="b", cart=[Line("dosa", 1)], window_s=1))
