"""The two merchants, each a process of its own: `uvicorn --factory benchmarks.chaos.shops:app`.

Both write down every request that reaches them before anything else is done with it. The careless one then does what
it is asked, however often; the other is a `merchant_sdk` shop. Environment: CHAOS_SHOP (careless, kept), CHAOS_DATABASE
(orders), CHAOS_ARRIVALS (a database of its own, so that counting never waits for selling), SHOP_SECRET, CHAOS_SEED.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, Final

from benchmarks.chaos.plan import CARELESS, OUT_OF_STOCK, TOOLS, Terms
from merchant_sdk import CallWork, Refused, Shop

App = Callable[[Any, Any, Any], Awaitable[None]]

ARRIVALS: Final = """CREATE TABLE IF NOT EXISTS arrivals (
    number INTEGER PRIMARY KEY, request TEXT, key TEXT, tool TEXT, conversation TEXT, arguments TEXT, status INTEGER)"""
ORDERS: Final = """CREATE TABLE IF NOT EXISTS orders (
    number INTEGER PRIMARY KEY, key TEXT, tool TEXT, conversation TEXT, name TEXT, quantity TEXT, price TEXT)"""
_INSERT: Final = "INSERT INTO orders (key, tool, conversation, name, quantity, price) VALUES (?, ?, ?, ?, ?, ?)"
_PUT_OFF: Final = 0.03
_THINKS_LONG: Final = 0.04
_ANSWERS_500: Final = 0.03


def app() -> App:
    where = os.environ["CHAOS_DATABASE"]
    careless = os.environ["CHAOS_SHOP"] == CARELESS
    moods = random.Random(f"{os.environ['CHAOS_SEED']}/{os.environ['CHAOS_SHOP']}/{os.getpid()}")
    inner = _Careless(where, moods) if careless else _kept(where, os.environ["SHOP_SECRET"].split())
    return _Arrivals(inner, os.environ["CHAOS_ARRIVALS"])


class _Arrivals:
    """Counts around an application: the row is there before the application hears of the request."""

    def __init__(self, inner: App, database: str) -> None:
        self._inner = inner
        self._db = _open(database)
        self._db.execute(ARRIVALS)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return  # it never came whole: nobody was asked for anything
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        said = json.loads(body, parse_int=str, parse_float=str)
        row = (
            headers.get("request-id"),
            headers.get("idempotency-key"),
            said["tool"],
            said["context"]["conversation"],
            json.dumps(said["arguments"], sort_keys=True),
        )
        number = self._db.execute(
            "INSERT INTO arrivals (request, key, tool, conversation, arguments) VALUES (?, ?, ?, ?, ?)", row
        ).lastrowid
        given = iter([{"type": "http.request", "body": bytes(body), "more_body": False}])

        async def receive_again() -> Any:
            return next(given, None) or await receive()

        async def note_and_send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._db.execute("UPDATE arrivals SET status = ? WHERE number = ?", (message["status"], number))
            await send(message)

        await self._inner(scope, receive_again, note_and_send)


class _Careless:
    """No keys, no transaction around the reply: it orders and says so, or something else."""

    def __init__(self, database: str, moods: random.Random) -> None:
        self._db = _open(database)
        self._db.execute(ORDERS)
        self._moods = moods

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        said = json.loads((await receive())["body"], parse_int=str, parse_float=str)
        headers = dict(scope["headers"])
        status, answer = await self._answer(said, headers.get(b"idempotency-key", b"").decode())
        body = json.dumps(answer).encode()
        kind = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": kind})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, said: Any, key: str) -> tuple[int, Any]:
        wanted, mood = said["arguments"], self._moods.random()
        if mood < _PUT_OFF:
            return 429, {"error": "come back later, nothing was done"}
        await asyncio.sleep(self._moods.uniform(0, 0.06))
        if wanted["quantity"] == str(OUT_OF_STOCK):
            return 422, {"error": "we do not have that many"}
        row = (key, said["tool"], said["context"]["conversation"], wanted["order"], wanted["quantity"], wanted["price"])
        number = self._db.execute(_INSERT, row).lastrowid
        if mood > 1 - _THINKS_LONG:
            await asyncio.sleep(self._moods.uniform(0.8, 1.6))
        elif mood > 1 - _THINKS_LONG - _ANSWERS_500:
            return 500, {"error": "it is done, and then something broke"}
        return 200, {"id": number, "name": wanted["order"], "quantity": wanted["quantity"], "price": wanted["price"]}


def _kept(database: str, secrets: list[str]) -> App:
    shop = Shop(database, secrets=secrets, schema=ORDERS)

    def buy(tool: str) -> Callable[..., Any]:
        def order(work: CallWork, order: str, quantity: int, price: Decimal) -> dict[str, Any]:
            if quantity == OUT_OF_STOCK:
                raise Refused("out_of_stock", "We do not have that many.")
            row = (work.call.key, tool, work.call.context.conversation, order, str(quantity), str(price))
            number = work.db.execute(_INSERT, row).lastrowid
            return {"id": number, "name": order, "quantity": str(quantity), "price": str(price)}

        return order

    for name, terms in TOOLS.items():
        if _is_kept(terms):
            shop.tool(side_effecting=True, name=name)(buy(name))
    return shop.asgi()


def _is_kept(terms: Terms) -> bool:
    return terms.company != CARELESS


def _open(path: str) -> sqlite3.Connection:
    """Every statement is its own transaction, in the file when it returns (a killed process loses none)."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=10)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    return connection
