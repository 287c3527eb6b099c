"""The reply travels with COMMIT (K7-11): what that message does when the work, a hook or the session is not plain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import StaticPool

from merchant_sdk import CallKey, Refused, RequestKey, TransactionMisuse, once
from merchant_sdk.stores import postgres_wire
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore
from merchant_sdk.stores.sqlalchemy_async import AsyncSQLAlchemyStore, once_async

INSERT = "INSERT INTO orders (buyer) VALUES ('b-1')"
BEGUN_ANEW = "SELECT 1; ROLLBACK AND CHAIN"


@pytest.fixture
def url(postgres_database: str) -> str:
    PsycopgStore(postgres_database, create_table=True).close()
    at = dict(part.split("=") for part in postgres_database.split())
    return f"postgresql+psycopg://shop@/{at['dbname']}?host={at['host']}"


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    """Of one connection, so that whoever comes next has the one that `once` used."""
    engine = sa.create_engine(url, poolclass=StaticPool)
    yield engine
    engine.dispose()


@pytest.fixture
def count(postgres_database: str) -> Callable[[str], int]:
    def of(table: str) -> int:
        with psycopg.connect(postgres_database) as db:
            row = db.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
            assert row is not None
            return int(row[0])

    return of


def place(store: Any, key: str = "k1", sql: tuple[str, ...] = (INSERT,)) -> Any:
    with once(store, CallKey(key, "f"), now=lambda: 1.0) as work:
        if not work.done:
            for text in sql:
                work.db.execute(sa.text(text) if isinstance(work.db, Session) else text)
            work.reply("placed")
    return work.answer.result


@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy"])
def test_k7_11_a_claim_that_is_gone_at_the_commit_takes_the_work_with_it(
    kind: str, postgres_database: str, engine: sa.Engine, count: Any
) -> None:
    """K7-11: the work ended its transaction behind a comment and wrote on in the next: nothing of that is committed."""
    store: Any = PsycopgStore(postgres_database) if kind == "psycopg" else SQLAlchemyStore(sessionmaker(engine))
    with pytest.raises(TransactionMisuse, match="claim was gone"):
        place(store, sql=(BEGUN_ANEW, INSERT))
    assert (count("orders"), count("oncegate_once")) == (0, 0)
    assert place(store) == "placed"
    assert (count("orders"), count("oncegate_once")) == (1, 1)
    if kind == "psycopg":
        store.close()


async def test_k7_11_the_same_over_asyncio(url: str, count: Any) -> None:
    """K7-11: as the sync one."""
    engine = create_async_engine(url, poolclass=StaticPool)
    store = AsyncSQLAlchemyStore(async_sessionmaker(engine))

    async def placed(*sql: str) -> None:
        async with once_async(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            for text in sql:
                await work.db.execute(sa.text(text))
            work.reply("placed")

    with pytest.raises(TransactionMisuse, match="claim was gone"):
        await placed(BEGUN_ANEW, INSERT)
    assert (count("orders"), count("oncegate_once")) == (0, 0)
    await placed(INSERT)
    async with engine.begin() as connection:
        await connection.execute(sa.text(INSERT))
    await engine.dispose()
    assert (count("orders"), count("oncegate_once")) == (2, 1)


@pytest.mark.parametrize("fails", [False, True])
def test_k7_11_what_a_hook_writes_before_the_commit_is_in_the_same_transaction(
    engine: sa.Engine, count: Any, fails: bool
) -> None:
    """K7-11: one that raises undoes the work, and the connection's next commit is its own."""
    sessions = sessionmaker(engine)

    def hook(session: Session) -> None:
        session.execute(sa.text(INSERT))
        if fails:
            raise ZeroDivisionError

    store = SQLAlchemyStore(sessions)
    event.listen(sessions, "before_commit", hook)
    with suppress(ZeroDivisionError):
        place(store)
    event.remove(sessions, "before_commit", hook)
    assert (count("orders"), count("oncegate_once")) == ((0, 0) if fails else (2, 1))
    with engine.begin() as connection:
        connection.execute(sa.text(INSERT))
    assert (count("orders"), count("oncegate_once")) == ((1, 0) if fails else (3, 1))
    assert place(store) == place(store) == "placed"


def test_k7_11_a_cancelled_commit_leaves_nothing_on_the_connection(url: str, count: Any) -> None:
    """K7-11: the task is cancelled while a hook holds the commit up; the pool's next commit is its own."""

    async def run() -> None:
        engine = create_async_engine(url)
        store = AsyncSQLAlchemyStore(async_sessionmaker(engine))

        async def cancelled() -> None:
            async with once_async(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
                await work.db.execute(sa.text(INSERT))
                event.listen(work.db.sync_session, "before_commit", _cancelled)
                work.reply("placed")

        with pytest.raises(asyncio.CancelledError):
            await cancelled()
        async with engine.begin() as connection:
            await connection.execute(sa.text(INSERT))
        await engine.dispose()

    asyncio.run(run())
    assert (count("orders"), count("oncegate_once")) == (1, 0)


def _cancelled(_: Session) -> None:
    raise asyncio.CancelledError


def test_a_reply_is_stored_where_the_session_commits_in_another_way(engine: sa.Engine, count: Any) -> None:
    """In a savepoint of others and in two phases the driver's `commit` is not called: the reply goes before."""
    with engine.connect() as connection, connection.begin() as outer:
        nested = SQLAlchemyStore(sessionmaker(connection, join_transaction_mode="create_savepoint"))
        assert place(nested, "k1") == place(nested, "k1") == "placed"
        outer.commit()
    prepared = SQLAlchemyStore(sessionmaker(engine, twophase=True))
    assert place(prepared, "k2") == place(prepared, "k2") == "placed"
    assert (count("orders"), count("oncegate_once")) == (2, 2)


@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy"])
def test_a_client_library_without_pipelines_keeps_the_same_promises(
    kind: str, postgres_database: str, engine: sa.Engine, count: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq before 14: each statement is a round trip, and the first that fails ends the rest."""
    monkeypatch.setattr(postgres_wire, "PIPELINES", False)
    store: Any = PsycopgStore(postgres_database) if kind == "psycopg" else SQLAlchemyStore(sessionmaker(engine))
    assert [place(store, key) for key in ("k1", "k1", "k2")] == ["placed"] * 3
    with pytest.raises(TransactionMisuse, match="claim was gone"):
        place(store, "k3", sql=(BEGUN_ANEW, INSERT))
    with pytest.raises(Refused), once(store, CallKey("k4", "f"), now=lambda: 1.0):
        raise Refused("sold_out", "Sold out.")
    assert (count("orders"), count("oncegate_once")) == (2, 3)
    if kind == "psycopg":
        store.close()


@pytest.mark.parametrize(
    "encoding", ["LATIN1", "UTF8", "SQL_ASCII"]
)  # the last is what a server has that was told none
def test_the_reply_comes_back_whatever_the_connections_encoding(postgres_database: str, encoding: str) -> None:
    """2.1: the values go as bytes in the encoding that the connection has."""
    store = PsycopgStore(f"{postgres_database} client_encoding={encoding}", create_table=True)
    for _ in range(2):
        with once(store, CallKey("café", "f"), now=lambda: 1.0) as work:
            if not work.done:
                work.reply("crème")
        assert work.answer.result == "crème"
    store.close()


class OneConnection:
    """A pool of one, of the merchant's own kind."""

    def __init__(self, conninfo: str, factory: Any) -> None:
        self.connection = psycopg.connect(conninfo, cursor_factory=factory)

    def getconn(self) -> psycopg.Connection[Any]:
        return self.connection

    def putconn(self, conn: psycopg.Connection[Any]) -> None:
        assert conn is self.connection


@pytest.mark.parametrize("factory", [psycopg.RawCursor, psycopg.ClientCursor])
def test_k7_02_a_replay_is_found_whatever_the_merchants_cursors_are(postgres_database: str, factory: Any) -> None:
    """K7-02: the store's statements are in its own words."""
    PsycopgStore(postgres_database, create_table=True).close()
    pool = OneConnection(postgres_database, factory)
    store = PsycopgStore(pool)
    assert place(store) == place(store) == "placed"
    assert type(pool.connection.cursor()) is factory
    pool.connection.close()


@pytest.mark.parametrize("binds", [False, True])
def test_k7_11_a_pipeline_of_the_merchants_is_no_place_for_ours(
    postgres_database: str, count: Any, binds: bool
) -> None:
    """K7-11: whose results would be taken for whose? Said as what it is; its own statements may go in one."""
    store = PsycopgStore(postgres_database, create_table=True)

    def piped() -> None:
        with once(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
            with work.db.pipeline():
                work.db.execute(INSERT)
                if binds:
                    work.bind(RequestKey("p1", "f"))
            work.reply("placed")

    if binds:
        with pytest.raises(TransactionMisuse, match="pipeline is open"):
            piped()
    else:
        piped()
    assert (count("orders"), count("oncegate_once")) == ((0, 0) if binds else (1, 1))
    assert place(store) == "placed"
    store.close()
