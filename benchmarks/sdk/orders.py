"""One order, inserted bare and inside `once`: what is compared. `python -m benchmarks.sdk.orders …` is a process of
the run that places orders in threads and prints its latencies."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any, Final
from uuid import uuid4

import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from merchant_sdk import CallKey, RequestKey, once
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore
from merchant_sdk.stores.sqlalchemy_async import AsyncSQLAlchemyStore, once_async

ORDERS: Final = "CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, buyer text NOT NULL)"
_INSERT: Final = "INSERT INTO orders (buyer) VALUES (%s) RETURNING id"
_INSERT_NAMED: Final = sa.text("INSERT INTO orders (buyer) VALUES (:buyer) RETURNING id")
_WARM: Final = 30
Place = Callable[[str], Any]
"""Places one order; the text of its key comes with the request."""


def makers(conninfo: str, closing: ExitStack) -> dict[str, Callable[[], Place]]:
    """For each way to place an order: a function that makes a placer for one thread. `closing` ends them."""
    parts = dict(part.split("=") for part in conninfo.split())
    url = f"postgresql+psycopg://{parts['user']}@/{parts['dbname']}?host={parts['host']}"
    engine = sa.create_engine(url, pool_size=64)
    store, mapped = PsycopgStore(conninfo), SQLAlchemyStore(lambda: Session(engine))
    closing.callback(engine.dispose)
    closing.callback(store.close)

    def bare() -> Place:
        connection = psycopg.connect(conninfo)
        closing.callback(connection.close)

        def place(key: str) -> None:
            connection.execute(_INSERT, ["b-1"]).fetchone()
            connection.commit()

        return place

    def with_once(*, known: bool = False, bind: bool = False) -> Place:
        def place(key: str) -> None:
            call = CallKey(key, "f")
            purchase = RequestKey(call.text, "f", window_s=1200) if bind else None
            reply = {"order_id": call.text} if known else None
            with once(store, call, now=time.time, reply=reply, expect=purchase) as work:
                if purchase is not None:
                    work.bind(purchase)
                row = work.db.execute(_INSERT, ["b-1"]).fetchone()
                if not known:
                    work.reply({"order_id": row[0]})

        return place

    def bare_session() -> Place:
        def place(key: str) -> None:
            with Session(engine) as session:
                session.execute(_INSERT_NAMED, {"buyer": "b-1"}).scalar_one()
                session.commit()

        return place

    def session_once(*, known: bool = False) -> Place:
        def place(key: str) -> None:
            call = CallKey(key, "f")
            with once(mapped, call, now=time.time, reply={"order_id": call.text} if known else None) as work:
                made = work.db.execute(_INSERT_NAMED, {"buyer": "b-1"}).scalar_one()
                if not known:
                    work.reply({"order_id": made})

        return place

    def on_a_loop(make: Callable[[AsyncEngine], Callable[[str], Coroutine[Any, Any, None]]]) -> Place:
        # A loop and an engine a thread, as a server has them a process.
        loop, engine = asyncio.new_event_loop(), create_async_engine(url)
        closing.callback(loop.close)
        closing.callback(lambda: loop.run_until_complete(engine.dispose()))
        place = make(engine)
        return lambda key: loop.run_until_complete(place(key))

    def bare_async(engine: AsyncEngine) -> Callable[[str], Coroutine[Any, Any, None]]:
        async def place(key: str) -> None:
            async with AsyncSession(engine) as session:
                (await session.execute(_INSERT_NAMED, {"buyer": "b-1"})).scalar_one()
                await session.commit()

        return place

    def async_once(engine: AsyncEngine, *, known: bool = False) -> Callable[[str], Coroutine[Any, Any, None]]:
        awaited = AsyncSQLAlchemyStore(lambda: AsyncSession(engine))

        async def place(key: str) -> None:
            call = CallKey(key, "f")
            async with once_async(
                awaited, call, now=time.time, reply={"order_id": call.text} if known else None
            ) as work:
                made = (await work.db.execute(_INSERT_NAMED, {"buyer": "b-1"})).scalar_one()
                if not known:
                    work.reply({"order_id": made})

        return place

    return {
        "bare": bare,
        "once": with_once,
        "once, reply known": lambda: with_once(known=True),
        "once and bind": lambda: with_once(bind=True),
        "once and bind, reply known": lambda: with_once(known=True, bind=True),
        "bare, SQLAlchemy": bare_session,
        "once, SQLAlchemy": session_once,
        "once, SQLAlchemy, reply known": lambda: session_once(known=True),
        "bare, SQLAlchemy async": lambda: on_a_loop(bare_async),
        "once, SQLAlchemy async": lambda: on_a_loop(async_once),
        "once, SQLAlchemy async, reply known": lambda: on_a_loop(lambda engine: async_once(engine, known=True)),
    }


def measure(conninfo: str, names: list[str], threads: int, orders: int, seed: int) -> dict[str, list[float]]:
    """Latencies in seconds by name: each thread places `orders` of each kind, in a shuffled order."""
    closing = ExitStack()
    made = makers(conninfo, closing)
    taken: dict[str, list[float]] = {name: [] for name in names}
    start = threading.Barrier(threads)

    def run(number: int) -> None:
        places = {name: made[name]() for name in names}
        turns = names * orders
        random.Random(f"{seed} {number}").shuffle(turns)
        for name in names * _WARM:
            places[name](uuid4().hex)
        start.wait()
        for name in turns:
            key, before = uuid4().hex, time.perf_counter()
            places[name](key)
            taken[name].append(time.perf_counter() - before)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    closing.close()
    return taken


if __name__ == "__main__":
    at, wanted, at_once, each, seed_text = sys.argv[1:]
    print(json.dumps(measure(at, json.loads(wanted), int(at_once), int(each), int(seed_text))))
