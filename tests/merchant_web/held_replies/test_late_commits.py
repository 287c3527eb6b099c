"""K7-11: whatever a framework does after the handler, no success leaves before its commit."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import fastapi
import flask
import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, StreamingResponse

from merchant_sdk import CommitBeforeReply, CommitBeforeReplyWSGI

INSERT = "INSERT INTO orders (item) VALUES ('dosa')"


def fastapi_shop(engine: Any, *, commits: bool, is_async: bool) -> Any:
    """A session dependency that ends after FastAPI made its reply."""
    app = fastapi.FastAPI()

    def session() -> Iterator[Session]:
        with Session(engine) as opened:
            yield opened
            if commits:
                opened.commit()

    opened_session = fastapi.Depends(session)

    if is_async:

        @app.post("/")
        async def order_async(db: Session = opened_session) -> dict[str, str]:
            db.execute(text(INSERT))
            return {"state": "placed"}
    else:

        @app.post("/")
        def order(db: Session = opened_session) -> dict[str, str]:
            db.execute(text(INSERT))
            return {"state": "placed"}

    return CommitBeforeReply(app)


@pytest.mark.parametrize("is_async", [False, True])
async def test_k7_11_a_commit_in_a_dependencys_teardown_is_over_before_the_reply(
    ask: Any, engine: Any, count: Any, is_async: bool
) -> None:
    """K7-11: at the first byte the order is there."""
    status, _, seen = await ask(fastapi_shop(engine, commits=True, is_async=is_async), seen=count)
    assert (status, seen) == (200, 1)


@pytest.mark.parametrize("is_async", [False, True])
async def test_k7_11_a_teardown_that_fails_to_commit_is_a_500(
    ask: Any, failing: Any, engine: Any, count: Any, is_async: bool
) -> None:
    """K7-11: nothing is stored, and nobody is told otherwise."""
    failing(engine)
    status, body, _ = await ask(fastapi_shop(engine, commits=True, is_async=is_async))
    assert (status, count()) == (500, 0)
    assert b"placed" not in body
    assert b"commit failed" not in body


async def test_k7_11_a_teardown_that_forgets_to_commit_is_named(ask: Any, engine: Any, count: Any, caplog: Any) -> None:
    """K7-11: the reply was made while writes were open, and they were then undone: the line is in the log."""
    status, body, _ = await ask(fastapi_shop(engine, commits=False, is_async=False))
    assert (status, count()) == (500, 0)
    assert b"reply_before_commit" in body
    assert f"{Path(__file__).name}:" in caplog.text
    assert "in order" in caplog.text


async def test_reads_after_the_commit_are_nobodys_business(ask: Any, engine: Any, count: Any) -> None:
    """`commit(); refresh()` opens a transaction that the teardown rolls back: nothing of it was written."""
    app = fastapi.FastAPI()

    def session() -> Iterator[Session]:
        with Session(engine) as opened:
            yield opened

    opened_session = fastapi.Depends(session)

    @app.post("/")
    def order(db: Session = opened_session) -> dict[str, int]:
        db.execute(text(INSERT))
        db.commit()
        return {"orders": db.execute(text("SELECT count(*) FROM orders")).scalar_one()}

    assert (await ask(CommitBeforeReply(app)))[:2] == (200, b'{"orders":1}')


async def test_k7_11_a_background_task_that_commits_is_over_before_the_reply(
    ask: Any, starlette: Any, failing: Any, engine: Any, count: Any
) -> None:
    """K7-11: background work is not behind the reply's back."""

    def commit(db: Session) -> None:
        db.commit()
        db.close()

    async def handler(request: Any) -> JSONResponse:
        db = Session(engine)
        db.execute(text(INSERT))
        return JSONResponse({"state": "placed"}, background=BackgroundTask(commit, db))

    status, _, seen = await ask(starlette(handler), seen=count)
    assert (status, seen) == (200, 1)
    failing(engine)
    assert (await ask(starlette(handler)))[0] == 500
    assert count() == 1


async def test_k7_11_a_stream_that_fails_after_its_first_bytes_sends_none(
    ask: Any, starlette: Any, failing: Any, engine: Any, count: Any
) -> None:
    """K7-11: the stream is read to its end first."""

    async def handler(request: Any) -> StreamingResponse:
        async def stream() -> AsyncIterator[bytes]:
            with Session(engine) as db:
                db.execute(text(INSERT))
                yield b'{"state": "placed"'
                db.commit()
                yield b"}"

        return StreamingResponse(stream(), media_type="application/json")

    assert (await ask(starlette(handler), seen=count)) == (200, b'{"state": "placed"}', 1)
    failing(engine)
    status, body, _ = await ask(starlette(handler))
    assert (status, b"placed" in body, count()) == (500, False, 1)


@pytest.mark.parametrize("where", ["after_request", "teardown", "call_on_close", "stream"])
def test_k7_11_flasks_late_hooks_cannot_slip_past(wsgi: Any, failing: Any, engine: Any, count: Any, where: str) -> None:
    """K7-11: a commit in any of them is over before the reply, and one that fails is a 500."""
    app = flask.Flask(__name__)
    session: list[Session] = []

    def commit(*_: Any) -> Any:
        session[-1].commit()
        session[-1].close()
        return _[0] if where == "after_request" else None

    @app.post("/")
    def order() -> Any:
        session.append(Session(engine))
        session[-1].execute(text(INSERT))
        if where == "stream":

            def stream() -> Iterator[bytes]:
                yield b"placed"
                commit()

            return flask.Response(stream())
        reply = flask.Response("placed")
        if where == "call_on_close":
            reply.call_on_close(commit)
        return reply

    if where == "after_request":
        app.after_request(commit)
    elif where == "teardown":
        app.teardown_request(commit)
    wrapped = CommitBeforeReplyWSGI(app)
    assert wsgi(wrapped) == (200, b"placed")
    assert count() == 1
    failing(engine)
    status, body = wsgi(wrapped)
    session[-1].close()
    assert (status, b"placed" in body, count()) == (500, False, 1)


@pytest.mark.parametrize("before", ["/* order */ ", "-- order\n", " /* a */\n/* b */ "])
async def test_k7_11_a_write_behind_a_comment_is_a_write(ask: Any, engine: Any, count: Any, before: str) -> None:
    """K7-11: tracing libraries put their comments there; what is then rolled back was not done."""
    app = fastapi.FastAPI()

    def session() -> Iterator[Session]:
        with Session(engine) as opened:
            yield opened

    opened_session = fastapi.Depends(session)

    @app.post("/")
    def order(db: Session = opened_session) -> str:
        db.execute(text(before + INSERT))
        return "placed"

    assert (await ask(CommitBeforeReply(app)))[0] == 500
    assert count() == 0


def by_session(engine: Any) -> Iterator[Any]:
    with Session(engine) as db:
        yield db
        with suppress(IntegrityError):
            db.commit()


def by_connection(engine: Any) -> Iterator[Any]:
    with engine.connect() as db:
        yield db
        with suppress(IntegrityError):
            db.commit()


@pytest.mark.parametrize("ends", [by_session, by_connection])
async def test_k7_11_a_commit_that_the_database_refused_in_silence_is_a_500(
    ask: Any, engine: Any, database: Path, count: Any, ends: Callable[[Any], Iterator[Any]]
) -> None:
    """K7-11: a teardown that swallows the error has told a customer of an order that is not there."""
    with closing(sqlite3.connect(database)) as db:
        db.execute("CREATE TABLE lines (item TEXT REFERENCES orders (item) DEFERRABLE INITIALLY DEFERRED)")
        db.execute("CREATE UNIQUE INDEX items ON orders (item)")
    app = fastapi.FastAPI()

    def opened() -> Iterator[Any]:
        yield from ends(engine)

    opened_for_it = fastapi.Depends(opened)

    @app.post("/")
    def order(db: Any = opened_for_it) -> str:
        db.execute(text("PRAGMA defer_foreign_keys = ON"))
        db.execute(text(INSERT))
        db.execute(text("INSERT INTO lines (item) VALUES ('no such item')"))
        return "placed"

    @event.listens_for(engine, "connect")
    def foreign_keys(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA foreign_keys = ON")

    status, body, _ = await ask(CommitBeforeReply(app))
    assert (status, b"reply_before_commit" in body, count()) == (500, True, 0)
