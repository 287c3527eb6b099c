"""K7-11: where the work lost its transaction in a way that nobody could forbid, what it writes afterwards is not kept."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import StaticPool

from merchant_sdk import CallKey, TransactionMisuse, once
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore
from merchant_sdk.stores.sqlalchemy_async import AsyncSQLAlchemyStore, once_async

INSERT = "INSERT INTO orders (buyer) VALUES ('b-1')"


def _own_cursor(db: Any) -> None:
    """The habit of a program that rolls back after an error, on a cursor that it made by itself."""
    driver = db.connection().connection.driver_connection if isinstance(db, Session) else db
    psycopg.ClientCursor(driver).execute("ROLLBACK")


def _driver(db: Any) -> None:
    """The same through the driver's connection, which SQLAlchemy hands out."""
    if isinstance(db, Session):
        db.connection().connection.rollback()
    else:
        psycopg.ClientCursor(db).execute("ROLLBACK")


def _text(text: str) -> Callable[[Any], None]:
    return lambda db: db.execute(sa.text(text) if isinstance(db, Session) else text)


LOST: dict[str, Callable[[Any], None]] = {
    "own cursor": _own_cursor,
    "driver": _driver,
    "comment": _text("/* dddbs='shop' */ ROLLBACK"),
    "two comments": _text("-- undo\n /* all */ ROLLBACK"),
    "behind a statement": _text("SELECT 1; ROLLBACK"),
    "begun anew": _text("SELECT 1; ROLLBACK; BEGIN"),
    "aborted": _text("SELECT 1; ABORT; BEGIN"),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "execute": lambda cursor: cursor.execute(INSERT),
    "executemany": lambda cursor: cursor.executemany("INSERT INTO orders (buyer) VALUES (%s)", [["b-1"]]),
    "stream": lambda cursor: list(cursor.stream(INSERT + " RETURNING id")),
    "copy": lambda cursor: cursor.copy("COPY orders (buyer) FROM STDIN").__enter__(),
}


@pytest.fixture(params=["psycopg", "sqlalchemy"])
def store(request: pytest.FixtureRequest, postgres_database: str) -> Iterator[Any]:
    plain = PsycopgStore(postgres_database, create_table=True)
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_database))
    yield plain if request.param == "psycopg" else SQLAlchemyStore(sessionmaker(engine))
    plain.close()
    engine.dispose()


@pytest.fixture
def kept(postgres_database: str) -> Callable[[], tuple[int, int]]:
    def count() -> tuple[int, int]:
        with psycopg.connect(postgres_database) as db:
            row = db.execute("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM oncegate_once)").fetchone()
        assert row is not None
        return row

    return count


def _write(db: Any, sql: str = INSERT) -> None:
    db.execute(sa.text(sql) if isinstance(db, Session) else sql)


@pytest.mark.parametrize("known", [None, "placed"])
@pytest.mark.parametrize("lost", LOST)
def test_k7_11_what_is_written_after_the_transaction_was_lost_is_no_order(
    store: Any, kept: Callable[[], tuple[int, int]], lost: str, known: str | None
) -> None:
    """K7-11: it would stand there without its record, and the same call again would make a second."""

    def place(inside: Callable[[Any], None]) -> Any:
        with once(store, CallKey("k1", "f"), now=lambda: 1.0, reply=known) as work:
            if not work.done:
                inside(work.db)
                _write(work.db)
                if known is None:
                    work.reply("placed")
        return work.answer.result

    with pytest.raises(TransactionMisuse):
        place(LOST[lost])
    assert kept() == (0, 0)
    assert [place(lambda db: None) for _ in range(2)] == ["placed", "placed"]
    assert kept() == (1, 1)


@pytest.mark.parametrize("known", [None, "placed"])
@pytest.mark.parametrize("how", WRITES)
def test_k7_11_no_kind_of_statement_is_sent_once_the_transaction_is_lost(
    store: Any, kept: Callable[[], tuple[int, int]], how: str, known: str | None
) -> None:
    """K7-11: also where the program goes on after the error."""

    def place() -> None:
        with once(store, CallKey("k1", "f"), now=lambda: 1.0, reply=known) as work:
            _own_cursor(work.db)
            driver = work.db.connection().connection if isinstance(work.db, Session) else work.db
            with suppress(TransactionMisuse):
                WRITES[how](driver.cursor())
            if known is None:
                work.reply("placed")

    with pytest.raises(TransactionMisuse):
        place()
    assert kept() == (0, 0)


@pytest.mark.parametrize("known", [None, "placed"])
@pytest.mark.parametrize("text", ["/* x */ ROLLBACK", "SELECT 1; ROLLBACK; BEGIN"])
async def test_k7_11_the_same_over_asyncio(
    postgres_database: str, kept: Callable[[], tuple[int, int]], text: str, known: str | None
) -> None:
    """K7-11: as the sync one."""
    at = dict(part.split("=") for part in postgres_database.split())
    url = f"postgresql+psycopg://shop@/{at['dbname']}?host={at['host']}"
    engine = create_async_engine(url, poolclass=StaticPool)
    store = AsyncSQLAlchemyStore(async_sessionmaker(engine))
    await store.create_table()

    async def place() -> None:
        async with once_async(store, CallKey("k1", "f"), now=lambda: 1.0, reply=known) as work:
            await work.db.execute(sa.text(text))
            await work.db.execute(sa.text(INSERT))
            if known is None:
                work.reply("placed")

    with pytest.raises(TransactionMisuse):
        await place()
    await engine.dispose()
    assert kept() == (0, 0)


@pytest.mark.parametrize("known", [None, "placed"])
def test_k7_02_a_savepoint_that_is_undone_loses_nothing(
    store: Any, kept: Callable[[], tuple[int, int]], known: str | None
) -> None:
    """K7-02: what looks like an end is none, and the reply that came with the claim still stands."""
    for _ in range(2):
        with once(store, CallKey("k1", "f"), now=lambda: 1.0, reply=known) as work:
            if not work.done:
                for text in ("SAVEPOINT mine", INSERT, "/* not this */ ROLLBACK TO mine", INSERT):
                    _write(work.db, text)
                if known is None:
                    work.reply("placed")
        assert work.answer.result == "placed"
    assert kept() == (1, 1)


class Counted(psycopg.Cursor[Any]):
    """A merchant's cursor that has to be told something, so that its factory is no class."""

    def __init__(self, *args: Any, seen: list[Any], **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen = seen

    def execute(self, query: Any, *args: Any, **options: Any) -> Any:
        self.seen.append(query)
        return super().execute(query, *args, **options)


@pytest.mark.parametrize("factory", ["partial", "function", "of psycopg"])
def test_k7_11_a_factory_of_cursors_need_not_be_a_class(postgres_database: str, factory: str) -> None:
    """K7-11: psycopg calls it; what it makes is guarded as any other."""
    seen: list[Any] = []
    made: Any = {
        "partial": functools.partial(Counted, seen=seen),
        "function": lambda *args, **options: Counted(*args, seen=seen, **options),
        "of psycopg": lambda *args, **options: psycopg.Cursor(*args, **options),
    }[factory]
    PsycopgStore(postgres_database, create_table=True).close()
    engine = sa.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_database, cursor_factory=made)
    )
    store = SQLAlchemyStore(sessionmaker(engine))
    with once(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
        with pytest.raises(TransactionMisuse, match="belongs to"):
            _write(work.db, "ROLLBACK")
        _write(work.db)
        work.reply("placed")
    assert work.answer.result == "placed"
    assert bool(seen) is (factory != "of psycopg")
    engine.dispose()
