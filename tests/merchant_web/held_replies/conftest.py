"""A merchant's application inside the middleware, over a real SQLite file that a stranger reads."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.pool import NullPool
from starlette.applications import Starlette
from starlette.routing import Route

from merchant_sdk import CommitBeforeReply
from merchant_sdk.integrations.sqlalchemy import track

SCHEMA = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "orders.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute(SCHEMA)
    return file


@pytest.fixture
def count(database: Path) -> Callable[[], int]:
    def read() -> int:
        with closing(sqlite3.connect(database)) as db:
            return int(db.execute("SELECT count(*) FROM orders").fetchone()[0])

    return read


@pytest.fixture
def engine(database: Path) -> Iterator[Any]:
    made = track(create_engine(f"sqlite:///{database}", poolclass=NullPool))
    yield made
    made.dispose()


async def ask(app: Any, path: str = "/", method: str = "POST", seen: Callable[[], Any] = lambda: None) -> Any:
    """Status, body, and what `seen` saw at the first byte of the reply."""
    said: list[Any] = []
    states: list[Any] = []

    incoming = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive() -> Any:
        if not incoming:
            await asyncio.Event().wait()  # the client stays
        return incoming.pop()

    async def send(message: Any) -> None:
        states.append(seen())
        said.append(message)

    headers = [(b"host", b"shop"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": headers}
    scope |= {"query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1", "asgi": {"version": "3.0"}}
    await app(scope | {"server": ("shop", 80), "client": ("gw", 1)}, receive, send)
    return said[0]["status"], b"".join(message.get("body", b"") for message in said[1:]), states[0]


def failing(engine: Any) -> None:
    """Every commit from now on fails, as one does whose server went away."""

    @event.listens_for(engine, "commit")
    def fail(connection: Any) -> None:
        raise sqlite3.OperationalError("the commit failed")


def starlette(handler: Any, **options: Any) -> Any:
    return CommitBeforeReply(Starlette(routes=[Route("/", handler, methods=["POST", "GET"])]), **options)


def wsgi(app: Any, method: str = "POST") -> tuple[int, bytes]:
    said: list[Any] = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": "/", "SERVER_NAME": "shop", "SERVER_PORT": "80"}
    environ |= {"wsgi.input": io.BytesIO(b""), "wsgi.url_scheme": "http", "wsgi.errors": io.StringIO()}
    body = b"".join(app(environ, lambda status, headers: said.append(status)))
    return int(said[0].split(" ")[0]), body


@pytest.fixture(name="ask")
def give_ask() -> Any:
    return ask


@pytest.fixture(name="failing")
def give_failing() -> Any:
    return failing


@pytest.fixture(name="starlette")
def give_starlette() -> Any:
    return starlette


@pytest.fixture(name="wsgi")
def give_wsgi() -> Any:
    return wsgi
