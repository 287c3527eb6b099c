"""K7-11: a transaction that is open when the reply is ready holds it back, and its line is named."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import flask
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool
from starlette.responses import JSONResponse

from merchant_sdk import CommitBeforeReplyWSGI, RequestKey, SQLiteStore, once, transaction, watch
from merchant_sdk.integrations.sqlalchemy import track

INSERT = "INSERT INTO orders (item) VALUES ('dosa')"
KEEP_ALIVE: list[Any] = []
LINES = Path(__file__).read_text(encoding="utf-8").splitlines()


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    yield
    while KEEP_ALIVE:
        KEEP_ALIVE.pop().close()


async def test_k7_11_a_transaction_left_open_raises_and_names_the_line(
    ask: Any, starlette: Any, engine: Any, count: Any, caplog: Any
) -> None:
    """K7-11: with a sync session, whatever the reply says."""

    def handler(request: Any) -> JSONResponse:
        db = Session(engine)
        KEEP_ALIVE.append(db)
        db.execute(text(INSERT))  # this line
        return JSONResponse({"state": "placed"})

    with caplog.at_level(logging.ERROR, "merchant_sdk"):
        status, body, _ = await ask(starlette(handler))
    assert (status, count()) == (500, 0)
    assert b"placed" not in body
    line = next(n for n, each in enumerate(LINES, 1) if each.endswith("# this line"))
    assert f"{Path(__file__).name}:{line} in handler" in caplog.text


async def test_k7_11_an_async_transaction_left_open_raises_and_names_the_line(
    ask: Any, starlette: Any, database: Path, caplog: Any
) -> None:
    """K7-11: the line is found through the greenlet that async connections run in."""
    engine = track(create_async_engine(f"sqlite+aiosqlite:///{database}", poolclass=NullPool))
    opened: list[AsyncSession] = []

    async def handler(request: Any) -> JSONResponse:
        opened.append(AsyncSession(engine))
        await opened[0].execute(text(INSERT))
        return JSONResponse({"state": "placed"})

    try:
        status, _, _ = await ask(starlette(handler))
        assert status == 500
        assert "in handler" in caplog.text
    finally:
        await opened[0].close()
        await engine.dispose()


async def test_propagate_raises_to_the_caller_for_tests(ask: Any, starlette: Any, engine: Any) -> None:
    """A merchant's own test sees the error itself, after the 500."""

    async def handler(request: Any) -> JSONResponse:
        KEEP_ALIVE.append(db := Session(engine))
        db.execute(text(INSERT))
        return JSONResponse({})

    from merchant_sdk import ReplyBeforeCommit

    with pytest.raises(ReplyBeforeCommit, match="begun at"):
        await ask(starlette(handler, propagate=True))


def use_transaction(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, transaction(connection) as db:
        db.execute(INSERT)


def use_watch_and_commit(database: Path) -> None:
    with closing(watch(sqlite3.connect(database))) as db:
        db.execute(INSERT)
        db.commit()


def use_once(database: Path) -> None:
    key = RequestKey("r-1", "f-1")
    with once(SQLiteStore(database), key, now=lambda: 1.0) as work:
        work.db.execute(INSERT)
        work.reply({})


def watch_and_forget(database: Path) -> None:
    KEEP_ALIVE.append(db := watch(sqlite3.connect(database, check_same_thread=False)))
    db.execute(INSERT)


def enter_and_forget(database: Path) -> None:
    connection = sqlite3.connect(database, check_same_thread=False)
    KEEP_ALIVE.append(connection)
    transaction(connection).__enter__().execute(INSERT)


def once_and_forget(database: Path) -> None:
    work = once(SQLiteStore(database), RequestKey("r-1", "f-1"), now=lambda: 1.0).__enter__()
    KEEP_ALIVE.append(work.transaction)
    work.db.execute(INSERT)


PLAIN = [
    (use_transaction, 200),
    (use_watch_and_commit, 200),
    (use_once, 200),
    (watch_and_forget, 500),
    (enter_and_forget, 500),
    (once_and_forget, 500),
]


@pytest.mark.parametrize(("work", "status"), PLAIN)
@pytest.mark.parametrize("is_async", [False, True])
async def test_k7_11_plain_connections_and_once_are_seen_under_asgi(
    ask: Any, starlette: Any, database: Path, count: Any, work: Any, status: int, is_async: bool
) -> None:
    """K7-11: in the loop's own thread and in a worker's."""

    def handler(request: Any) -> JSONResponse:
        work(database)
        return JSONResponse({})

    async def handler_async(request: Any) -> JSONResponse:
        return handler(request)

    assert (await ask(starlette(handler_async if is_async else handler)))[0] == status
    assert count() == (status == 200)


@pytest.mark.parametrize(("work", "status"), PLAIN)
def test_k7_11_plain_connections_and_once_are_seen_under_wsgi(
    wsgi: Any, database: Path, count: Any, work: Any, status: int
) -> None:
    """K7-11 with Flask."""
    app = flask.Flask(__name__)

    @app.post("/")
    def order() -> Any:
        work(database)
        return {}

    assert wsgi(CommitBeforeReplyWSGI(app))[0] == status
    assert count() == (status == 200)


async def test_what_only_reads_passes_through_unbuffered(ask: Any, starlette: Any, engine: Any) -> None:
    """A GET may stream for ever, and keep what it likes open."""

    async def handler(request: Any) -> JSONResponse:
        KEEP_ALIVE.append(db := Session(engine))
        db.execute(text("SELECT 1"))
        return JSONResponse({})

    assert (await ask(starlette(handler), method="GET"))[0] == 200


async def test_two_requests_at_once_do_not_answer_for_one_another(
    ask: Any, starlette: Any, engine: Any, database: Path
) -> None:
    """What is open in one request is no reason to hold back another."""
    first_is_open, second_is_done = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> JSONResponse:
        with Session(engine) as db:
            db.execute(text("SELECT 1"))
            first_is_open.set()
            await second_is_done.wait()
        return JSONResponse({})

    async def quick(request: Any) -> JSONResponse:
        await first_is_open.wait()
        return JSONResponse({})

    async def asked_second() -> Any:
        answer = await ask(starlette(quick))
        second_is_done.set()
        return answer

    answers = await asyncio.gather(ask(starlette(slow)), asked_second())
    assert [status for status, _, _ in answers] == [200, 200]
