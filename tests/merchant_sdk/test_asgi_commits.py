"""Over the merchant's endpoint: no reply leaves before its commit, and nothing half done stays."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from merchant_sdk import Refused, Shop, SQLiteStore, request_key
from merchant_sdk.request_key import Line

ORDER = {"item": "pizza"}
INSERT = "INSERT INTO orders (buyer, item) VALUES ('b-1', 'pizza')"


async def test_k7_11_the_order_is_visible_when_the_reply_leaves(shop: Shop, gateway: Any, rows: Any) -> None:
    """K7-11: at the first byte of the reply, a stranger finds the order in the file."""
    seen: list[int] = []
    inner = shop.asgi()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def spy(message: Any) -> None:
            seen.append(len(rows()))
            await send(message)

        await inner(scope, receive, spy)

    await gateway.call(app, "place_order", ORDER, key="k1")
    assert seen == [1, 1]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    "fault", ["commit fails", "reads the answer", "raises", "finds nothing", "bad reply", "commits itself"]
)
async def test_k7_11_what_goes_wrong_before_the_commit_is_a_500_with_nothing_stored(
    database: Path, secret: str, gateway: Any, clock: Any, rows: Any, kind: str, fault: str
) -> None:
    """K7-11: no success before the commit, whether the tool is sync or async."""
    schema = "CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT REFERENCES buyers (id) DEFERRABLE INITIALLY DEFERRED, item TEXT); CREATE TABLE buyers (id TEXT PRIMARY KEY); INSERT INTO buyers VALUES ('b-1');"  # fmt: skip
    store = SQLiteStore(database, schema=schema, on_connect=lambda db: db.execute("PRAGMA foreign_keys = ON"))
    shop = Shop(store, secrets=[secret], now=clock)
    broken = [True]

    def work_on(work: Any) -> Any:
        work.db.execute(INSERT)
        if not broken:
            return "placed"
        if fault == "commit fails":
            work.db.execute("INSERT INTO orders (buyer, item) VALUES ('nobody', 'pizza')")
        elif fault == "reads the answer":
            return work.answer.body
        elif fault == "raises":
            raise OSError("the printer is on fire")
        elif fault == "finds nothing":
            return next(iter(()))
        elif fault == "bad reply":
            return {"order": object()}
        else:
            work.db.execute("COMMIT")
        return "placed"

    async def work_on_async(work: Any) -> Any:
        await asyncio.to_thread(len, "elsewhere")
        return work_on(work)

    shop.tool(side_effecting=True, name="place_order")(work_on if kind == "sync" else work_on_async)
    app = shop.asgi()
    async with asyncio.timeout(30):
        reply = await gateway.call(app, "place_order", {}, key="k1")
    assert (reply.status, reply.json["error"]["code"]) == (500, "merchant_error")
    assert b"fire" not in reply.body
    assert rows() == rows("SELECT * FROM oncegate_once") == []
    broken.clear()
    assert (await gateway.call(app, "place_order", {}, key="k1")).json == "placed"
    assert len(rows()) == 1


async def test_a_read_tool_that_finds_nothing_is_a_500_and_no_endless_wait(
    store: SQLiteStore, secret: str, gateway: Any, clock: Any
) -> None:
    """No future takes the StopIteration of a bare `next`: the gateway would wait for an answer until its deadline."""
    shop = Shop(store, secrets=[secret], now=clock)

    @shop.tool(side_effecting=False)
    def get_order(work: Any, id: str) -> Any:  # noqa: A002
        return next(row for row in work.db.execute("SELECT id FROM orders WHERE id = ?", (id,)))

    async with asyncio.timeout(30):
        reply = await gateway.call(shop.asgi(), "get_order", {"id": "O-1"}, key="k1")
    assert (reply.status, reply.json["error"]["code"]) == (500, "merchant_error")


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_twenty_at_once_over_asgi_are_one_order(
    store: SQLiteStore, secret: str, gateway: Any, clock: Any, rows: Any, kind: str
) -> None:
    """K7-02: async tools wait for one another without holding up the loop that has to finish them."""
    shop = Shop(store, secrets=[secret], now=clock)

    def key(work: Any) -> Any:
        return request_key("order", buyer="b-1", cart=[Line("pizza", 1)], session="s-1")

    def place(work: Any) -> Any:
        return {"order_id": work.db.execute(INSERT).lastrowid}

    async def place_async(work: Any) -> Any:
        await asyncio.to_thread(len, "elsewhere")
        return place(work)

    shop.tool(side_effecting=True, key=key, name="place_order")(place if kind == "sync" else place_async)
    app = shop.asgi()
    calls = [gateway.call(app, "place_order", {}, key=f"k{n % 5}") for n in range(20)]
    replies = await asyncio.gather(*calls)
    assert {(reply.status, reply.json["order_id"]) for reply in replies} == {(200, 1)}
    assert len(rows()) == 1


async def test_a_busy_database_is_a_429_that_promises_nothing_was_done(
    database: Path, secret: str, gateway: Any, clock: Any, rows: Any
) -> None:
    """Semantics 5: 429 is "not executed", and that is true: the work never began."""
    shop = Shop(SQLiteStore(database, busy_timeout_s=0), secrets=[secret], now=clock)
    shop.tool(side_effecting=True, name="place_order")(lambda work: "placed")
    other = sqlite3.connect(database)
    other.execute("BEGIN IMMEDIATE")
    reply = await gateway.call(shop.asgi(), "place_order", {}, key="k1")
    other.close()
    assert (reply.status, reply.headers[b"retry-after"]) == (429, b"1")
    assert (await gateway.call(shop.asgi(), "place_order", {}, key="k1")).json == "placed"


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_read_runs_without_once_and_without_a_key(
    store: SQLiteStore, secret: str, gateway: Any, clock: Any, rows: Any, kind: str
) -> None:
    """3.6: reads are not recorded, and cannot write."""
    shop = Shop(store, secrets=[secret], now=clock)

    def count(read: Any) -> Any:
        return {"orders": read.db.execute("SELECT count(*) FROM orders").fetchone()[0], "at": read.at}

    async def count_async(read: Any) -> Any:
        return count(read)

    shop.tool(side_effecting=False, name="count_orders")(count if kind == "sync" else count_async)
    shop.tool(side_effecting=False, name="sneak")(lambda read: read.db.execute(INSERT))
    shop.tool(side_effecting=False, name="refuse")(lambda read: (_ for _ in ()).throw(Refused("no", "No.")))
    app = shop.asgi()
    for _ in range(2):
        assert (await gateway.call(app, "count_orders", {}, key=None)).json == {"orders": 0, "at": clock.at}
    assert (await gateway.call(app, "sneak", {}, key=None)).status == 500
    assert (await gateway.call(app, "refuse", {}, key=None)).status == 422
    assert rows() == rows("SELECT * FROM oncegate_once") == []


async def test_a_call_that_was_answered_replays_when_its_tool_is_gone(
    shop: Shop, gateway: Any, rows: Any, store: SQLiteStore, secret: str, clock: Any
) -> None:
    """4.10 at the merchant: a deploy between two tries must not turn an order into a refusal."""
    first = await gateway.call(shop.asgi(), "place_order", ORDER, key="k1")
    after_deploy = Shop(store, secrets=[secret], now=clock)
    assert (await gateway.call(after_deploy.asgi(), "place_order", ORDER, key="k1")).body == first.body
    after_deploy.tool(side_effecting=True, name="place_order")(lambda work, sku: sku)
    assert (await gateway.call(after_deploy.asgi(), "place_order", ORDER, key="k1")).body == first.body
