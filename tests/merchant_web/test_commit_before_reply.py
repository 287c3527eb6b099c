"""K7-11: whatever a framework does after the handler, no success leaves before its commit.

Each way to answer too early runs here inside the middleware, over a real SQLite file that a stranger reads.
"""

from __future__ import annotations

import asyncio
import io
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import fastapi
import flask
import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from merchant_sdk import (
    CommitBeforeReply,
    CommitBeforeReplyWSGI,
    RequestKey,
    SQLiteStore,
    once,
    transaction,
    watch,
)
from merchant_sdk.integrations.sqlalchemy import track

SCHEMA = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)"
INSERT = "INSERT INTO orders (item) VALUES ('dosa')"
KEEP_ALIVE: list[Any] = []
LINES = Path(__file__).read_text(encoding="utf-8").splitlines()


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


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    yield
    while KEEP_ALIVE:
        KEEP_ALIVE.pop().close()


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
    engine: Any, count: Any, is_async: bool
) -> None:
    """K7-11: at the first byte the order is there."""
    status, _, seen = await ask(fastapi_shop(engine, commits=True, is_async=is_async), seen=count)
    assert (status, seen) == (200, 1)


@pytest.mark.parametrize("is_async", [False, True])
async def test_k7_11_a_teardown_that_fails_to_commit_is_a_500(engine: Any, count: Any, is_async: bool) -> None:
    """K7-11: nothing is stored, and nobody is told otherwise."""
    failing(engine)
    status, body, _ = await ask(fastapi_shop(engine, commits=True, is_async=is_async))
    assert (status, count()) == (500, 0)
    assert b"placed" not in body
    assert b"commit failed" not in body


async def test_k7_11_a_teardown_that_forgets_to_commit_is_named(engine: Any, count: Any, caplog: Any) -> None:
    """K7-11: the reply was made while writes were open, and they were then undone: the line is in the log."""
    status, body, _ = await ask(fastapi_shop(engine, commits=False, is_async=False))
    assert (status, count()) == (500, 0)
    assert b"reply_before_commit" in body
    assert f"{Path(__file__).name}:" in caplog.text
    assert "in order" in caplog.text


async def test_reads_after_the_commit_are_nobodys_business(engine: Any, count: Any) -> None:
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


def starlette(handler: Any, **options: Any) -> Any:
    return CommitBeforeReply(Starlette(routes=[Route("/", handler, methods=["POST", "GET"])]), **options)


async def test_k7_11_a_background_task_that_commits_is_over_before_the_reply(engine: Any, count: Any) -> None:
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


async def test_k7_11_a_stream_that_fails_after_its_first_bytes_sends_none(engine: Any, count: Any) -> None:
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


async def test_k7_11_a_transaction_left_open_raises_and_names_the_line(engine: Any, count: Any, caplog: Any) -> None:
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


async def test_k7_11_an_async_transaction_left_open_raises_and_names_the_line(database: Path, caplog: Any) -> None:
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


async def test_propagate_raises_to_the_caller_for_tests(engine: Any) -> None:
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
    database: Path, count: Any, work: Any, status: int, is_async: bool
) -> None:
    """K7-11: in the loop's own thread and in a worker's."""

    def handler(request: Any) -> JSONResponse:
        work(database)
        return JSONResponse({})

    async def handler_async(request: Any) -> JSONResponse:
        return handler(request)

    assert (await ask(starlette(handler_async if is_async else handler)))[0] == status
    assert count() == (status == 200)


def wsgi(app: Any, method: str = "POST") -> tuple[int, bytes]:
    said: list[Any] = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": "/", "SERVER_NAME": "shop", "SERVER_PORT": "80"}
    environ |= {"wsgi.input": io.BytesIO(b""), "wsgi.url_scheme": "http", "wsgi.errors": io.StringIO()}
    body = b"".join(app(environ, lambda status, headers: said.append(status)))
    return int(said[0].split(" ")[0]), body


@pytest.mark.parametrize(("work", "status"), PLAIN)
def test_k7_11_plain_connections_and_once_are_seen_under_wsgi(
    database: Path, count: Any, work: Any, status: int
) -> None:
    """K7-11 with Flask."""
    app = flask.Flask(__name__)

    @app.post("/")
    def order() -> Any:
        work(database)
        return {}

    assert wsgi(CommitBeforeReplyWSGI(app))[0] == status
    assert count() == (status == 200)


@pytest.mark.parametrize("where", ["after_request", "teardown", "call_on_close", "stream"])
def test_k7_11_flasks_late_hooks_cannot_slip_past(engine: Any, count: Any, where: str) -> None:
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


async def test_p9_4_a_reply_without_an_end_is_a_500_and_not_a_full_memory() -> None:
    """9.4: capped as it comes, in both kinds of server."""

    async def handler(request: Any) -> StreamingResponse:
        async def stream() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 1000
                await asyncio.sleep(0)

        return StreamingResponse(stream())

    def endless(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        while True:
            yield b"x" * 1000

    assert (await ask(starlette(handler, max_reply=5000)))[0] == 500
    assert wsgi(CommitBeforeReplyWSGI(endless, max_reply=5000))[0] == 500


@pytest.mark.parametrize(("size", "status"), [(5000, 200), (5001, 500)])
async def test_p9_4_a_reply_is_capped_at_the_byte(size: int, status: int) -> None:
    """9.4: one byte more, and nothing of it leaves."""

    async def handler(request: Any) -> StreamingResponse:
        return StreamingResponse(iter([b"x" * 4000, b"x" * (size - 4000)]))

    def whole(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"x" * size]

    for said, body in (
        (await ask(starlette(handler, max_reply=5000)))[:2],
        wsgi(CommitBeforeReplyWSGI(whole, max_reply=5000)),
    ):
        assert (said, b"xx" in body) == (status, status == 200)


OK: list[dict[str, Any]] = [
    {"type": "http.response.start", "status": 200, "headers": []},
    {"type": "http.response.body", "body": b"placed"},
]
HINT = {"type": "http.response.early_hint", "links": [b"</style.css>"]}
DEBUG = {"type": "http.response.debug", "info": {}}
SORRY = [{"type": "http.response.start", "status": 500, "headers": []}, {"type": "http.response.body", "body": b"no"}]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([HINT, *OK], [HINT, *OK]),
        ([DEBUG, *OK], [DEBUG, *OK]),
        ([OK[0], {**OK[1], "more_body": True}, *SORRY], 500),
        ([*OK, *SORRY], 500),
        ([OK[1]], 500),
        ([OK[0]], 500),
    ],
)
async def test_k7_11_whatever_an_application_sends_one_whole_reply_leaves_or_a_500(
    messages: list[dict[str, Any]], expected: Any
) -> None:
    """K7-11: a hint before the reply is none, and of two replies the first must not have left."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["extensions"] == {"http.response.early_hint": {}}
        for message in messages:
            await send(message)

    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    offered: Any = {"http.response.early_hint": {}, "http.response.pathsend": {}, "http.response.zerocopysend": {}}
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "extensions": offered}
    await CommitBeforeReply(app)(scope, receive, send)
    if expected == 500:
        assert [message.get("status") for message in said] == [500, None]
        assert b"placed" not in said[1]["body"]
    else:
        assert said == expected


def test_k7_11_a_wsgi_application_that_begins_two_replies_gets_a_500() -> None:
    """K7-11: unless it takes the first one back, which `exc_info` says."""

    def twice(again: Any) -> Any:
        def app(environ: Any, start_response: Any) -> list[bytes]:
            start_response("200 OK", [])
            start_response("404 Not Found", [], *again)
            return [b"gone"]

        return CommitBeforeReplyWSGI(app)

    assert wsgi(twice(()))[0] == 500
    assert wsgi(twice([(ValueError, ValueError(), None)])) == (404, b"gone")


@pytest.mark.parametrize("before", ["/* order */ ", "-- order\n", " /* a */\n/* b */ "])
async def test_k7_11_a_write_behind_a_comment_is_a_write(engine: Any, count: Any, before: str) -> None:
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
    engine: Any, database: Path, count: Any, ends: Callable[[Any], Iterator[Any]]
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


async def test_what_only_reads_passes_through_unbuffered(engine: Any) -> None:
    """A GET may stream for ever, and keep what it likes open."""

    async def handler(request: Any) -> JSONResponse:
        KEEP_ALIVE.append(db := Session(engine))
        db.execute(text("SELECT 1"))
        return JSONResponse({})

    assert (await ask(starlette(handler), method="GET"))[0] == 200


async def test_two_requests_at_once_do_not_answer_for_one_another(engine: Any, database: Path) -> None:
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
