"""SQLite: nobody but `once` ends the transaction, and a failing commit stores nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from merchant_sdk import AlreadyDone, CallKey, SQLiteStore, StoreBusy, TransactionMisuse, call_status, once

INSERT = "INSERT INTO orders (buyer, item) VALUES ('b-1', 'pizza')"


@pytest.fixture
def attempt(store: SQLiteStore, clock: Any) -> Callable[..., None]:
    """Insert an order, then do something forbidden, then reply."""

    def attempt(*forbidden: Callable[[sqlite3.Connection], Any]) -> None:
        with once(store, CallKey("k", "f"), now=clock) as work:
            work.db.execute(INSERT)
            for step in forbidden:
                step(work.db)
            work.reply("placed")

    return attempt


@pytest.mark.parametrize(
    "step",
    [
        lambda db: db.commit(),
        lambda db: db.rollback(),
        lambda db: db.executescript(INSERT),
        lambda db: db.__enter__() and db.__exit__(None, None, None),
        lambda db: sqlite3.Connection.commit(db),
        lambda db: db.execute("COMMIT"),
        lambda db: db.execute("end transaction"),
        lambda db: db.execute("ROLLBACK"),
        lambda db: db.execute("BEGIN"),
        lambda db: db.cursor().execute("COMMIT"),
        lambda db: db.execute("RELEASE oncegate_work"),
        lambda db: db.execute("ROLLBACK TO oncegate_work"),
        lambda db: db.execute("SAVEPOINT oncegate_work"),
        lambda db: db.close(),
    ],
)  # fmt: skip
def test_k7_11_the_work_cannot_end_the_transaction(attempt: Any, rows: Any, step: Any) -> None:
    """K7-11: record and order are in one transaction, whatever the merchant's code tries."""
    with pytest.raises((TransactionMisuse, sqlite3.DatabaseError)):
        attempt(step)
    assert rows() == rows("SELECT * FROM oncegate_once") == []


def test_work_that_lost_its_transaction_cannot_write_on(attempt: Any, rows: Any) -> None:
    """K7-11: INSERT OR ROLLBACK ends the transaction by itself; what follows must not commit by itself."""

    def lose(db: sqlite3.Connection) -> None:
        with suppress(sqlite3.IntegrityError):
            db.execute("INSERT OR ROLLBACK INTO orders (id, item) VALUES (1, 'again')")

    with pytest.raises(TransactionMisuse, match="ended before the block"):
        attempt(lose)
    with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
        attempt(lose, lambda db: db.execute(INSERT))
    assert rows() == rows("SELECT * FROM oncegate_once") == []


def test_savepoints_of_the_merchant_are_its_own(attempt: Any, rows: Any) -> None:
    """Nested work may be undone inside the block."""
    attempt(
        lambda db: db.execute("SAVEPOINT mine"),
        lambda db: db.execute(INSERT),
        lambda db: db.execute("ROLLBACK TO mine"),
        lambda db: db.execute("RELEASE mine"),
    )
    assert len(rows()) == 1


def test_k7_11_a_commit_that_fails_stores_nothing(database: Path, rows: Any, clock: Any) -> None:
    """K7-11: a real one: a deferred constraint is checked at the commit."""
    schema = "CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT REFERENCES buyers (id) DEFERRABLE INITIALLY DEFERRED, item TEXT); CREATE TABLE buyers (id TEXT PRIMARY KEY);"  # fmt: skip
    store = SQLiteStore(database, schema=schema, on_connect=lambda db: db.execute("PRAGMA foreign_keys = ON"))

    def place() -> None:
        with once(store, CallKey("k", "f"), now=clock) as work:
            work.db.execute(INSERT)
            work.reply("placed")

    with pytest.raises(sqlite3.IntegrityError):
        place()
    assert rows() == rows("SELECT * FROM oncegate_once") == []
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("INSERT INTO buyers VALUES ('b-1')")
    place()
    assert len(rows()) == 1


def test_a_locked_database_is_said_to_be_busy_and_nothing_has_begun(database: Path, clock: Any) -> None:
    """Nothing was executed, and the gateway may be told so."""
    store = SQLiteStore(database, busy_timeout_s=0)
    with closing(sqlite3.connect(database)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            once(store, CallKey("k", "f"), now=clock).__enter__()
    with once(store, CallKey("k", "f"), now=clock) as work:
        work.reply("placed")
    assert work.answer.result == "placed"


def test_a_read_sees_one_snapshot_and_cannot_write(store: SQLiteStore, clock: Any) -> None:
    """Reads run without `once`, so they must not be able to order."""
    with store.reading() as db:
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (0,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute(INSERT)
        with once(store, CallKey("k", "f"), now=clock) as work:
            work.db.execute(INSERT)
            work.reply("placed")
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (0,)


def test_a_row_factory_of_the_merchant_does_not_disturb_the_records(database: Path, clock: Any) -> None:
    """`on_connect` may set one on every connection."""
    store = SQLiteStore(database, on_connect=lambda db: setattr(db, "row_factory", sqlite3.Row))
    answers = []
    for _ in range(2):
        with once(store, CallKey("k", "f"), now=clock) as work:
            if not work.done:
                work.reply("placed")
        answers.append(work.answer.matched)
    assert answers == [None, "call"]


@pytest.mark.parametrize("factory", [bytes, bytearray, lambda raw: raw.decode("latin-1")])
def test_p5_4_a_text_factory_of_the_merchant_does_not_void_an_order(database: Path, clock: Any, factory: Any) -> None:
    """5.4: what is not read as `succeeded` was told as void."""
    store = SQLiteStore(database, on_connect=lambda db: setattr(db, "text_factory", factory))
    for matched in (None, "call"):
        with once(store, CallKey("k", "café"), now=clock) as work:
            if not work.done:
                assert work.db.execute("SELECT 'é'").fetchone() == (factory("é".encode()),)
                work.reply("crème")
            else:
                with pytest.raises(AlreadyDone):
                    work.db.execute("SELECT 1")
        assert (work.answer.matched, work.answer.result) == (matched, "crème")
    assert call_status(store, "k", now=clock).result == "crème"
    assert [call_status(store, "other", now=clock).state for _ in range(2)] == ["void", "void"]


@pytest.mark.parametrize("path", ["", ":memory:", "file::memory:?cache=shared"])
def test_a_database_in_memory_is_refused(path: str) -> None:
    """Every connection would have a database of its own, and no order would outlive the process."""
    with pytest.raises(ValueError, match="needs a file"):
        SQLiteStore(path)


def test_opening_the_same_file_again_keeps_what_is_there(database: Path, store: SQLiteStore, clock: Any) -> None:
    """A restart finds its records."""
    with once(store, CallKey("k", "f"), now=clock) as work:
        work.reply("placed")
    with once(SQLiteStore(database), CallKey("k", "f"), now=clock) as again:
        assert again.done
    assert again.answer.result == "placed"
