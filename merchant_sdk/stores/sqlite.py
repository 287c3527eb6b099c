"""`once` on SQLite: one writer at a time, so claiming the write lock is claiming every key.

The loser of a race waits in BEGIN IMMEDIATE and then finds what the winner committed. The merchant's
connection is guarded: an authorizer denies it every statement that begins or ends a transaction, also those
that `commit()`, `with connection:` and `executescript()` would send.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from typing import Any, Literal, NoReturn

from merchant_sdk.errors import OURS, StoreBusy, TransactionMisuse
from merchant_sdk.store import Kind, Record

# The table is part of the contract with running shops: change it only by a new one beside it.
TABLE = """
CREATE TABLE IF NOT EXISTS oncegate_once (
    kind TEXT NOT NULL CHECK (kind IN ('call', 'request')),
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('succeeded', 'refused')),
    reply TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS oncegate_once_at ON oncegate_once (at);
"""

# An address of PostgreSQL's would make a file of that name, and the orders would be where nobody looks.
_ANOTHER_DATABASES = re.compile(r"://|\bdbname\s*=|^\s*host\s*=")

_SAVEPOINT = "oncegate_work"
# Our own statements carry a mark, because a statement once allowed stays in the connection's cache under its
# text: a plain COMMIT of ours would let the merchant's COMMIT through.
_BEGIN = "BEGIN IMMEDIATE /* oncegate */"
_COMMIT = "COMMIT /* oncegate */"
_ROLLBACK = "ROLLBACK /* oncegate */"
_MARK_WORK = f"SAVEPOINT {_SAVEPOINT} /* oncegate */"
_UNDO_WORK = f"ROLLBACK TO {_SAVEPOINT} /* oncegate */"

_FIND = "SELECT kind, key, fingerprint, outcome, reply, at FROM oncegate_once WHERE kind = ? AND key = ?"
_PUT = "INSERT OR REPLACE INTO oncegate_once (kind, key, fingerprint, outcome, reply, at) VALUES (?, ?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM oncegate_once WHERE kind = ? AND key = ?"
_PRUNE = "DELETE FROM oncegate_once WHERE at < ? AND key <> ''"
_PRUNED = (
    "INSERT INTO oncegate_once (kind, key, fingerprint, outcome, reply, at) VALUES ('call', '', '', 'refused', '', ?) "
    "ON CONFLICT (kind, key) DO UPDATE SET at = max(at, excluded.at)"
)


class GuardedConnection(sqlite3.Connection):
    """A connection that is inside somebody else's transaction."""

    def commit(self) -> NoReturn:
        raise TransactionMisuse(OURS)

    def rollback(self) -> NoReturn:
        raise TransactionMisuse(OURS)

    def executescript(self, sql_script: str, /) -> NoReturn:
        raise TransactionMisuse(f"executescript() would commit; {OURS}")

    def __exit__(self, *exc: object) -> Literal[False]:
        raise TransactionMisuse(f"`with connection:` would commit; {OURS}")


class SQLiteTransaction:
    """See `store.Transaction`."""

    def __init__(self, connection: GuardedConnection) -> None:
        self._connection = connection
        self._speaking = False
        # With an isolation level set, Python begins by itself before a write outside a transaction. The
        # authorizer denies that too, so work that lost its transaction (INSERT OR ROLLBACK) cannot write on.
        connection.set_authorizer(self._authorize)
        self._say(_BEGIN)
        self._say(_MARK_WORK)

    @property
    def db(self) -> sqlite3.Connection:
        return self._connection

    def claim(self, wanted: Record) -> Record | None:
        # The write lock holds every key already: nothing has to be written to hold this one.
        cursor, texts = self._raw(), self._connection.text_factory
        # The merchant's own would make another word of `succeeded`.
        self._connection.text_factory = str
        try:
            row = cursor.execute(_FIND, (wanted.kind, wanted.key)).fetchone()
        finally:
            self._connection.text_factory = texts
        return None if row is None else Record(*row)

    def put(self, records: Sequence[Record]) -> None:
        self._raw().executemany(_PUT, records)

    def forget(self, kind: Kind, key: str) -> None:
        self._raw().execute(_FORGET, (kind, key))

    def undo_work(self) -> None:
        self._say(_UNDO_WORK)

    def commit(self) -> None:
        self._check()
        self._say(_COMMIT)

    def rollback(self) -> None:
        # Whatever fails here, closing the connection rolls back.
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._say(_ROLLBACK)

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def _raw(self) -> sqlite3.Cursor:
        self._check()
        # The merchant may have set a row factory; the records are read without it.
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor

    def _check(self) -> None:
        if not self._connection.in_transaction:
            raise TransactionMisuse("the transaction ended before the block did (an OR ROLLBACK inside the work?)")

    def _say(self, statement: str) -> None:
        self._speaking = True
        try:
            self._connection.execute(statement)
        finally:
            self._speaking = False

    def _authorize(self, action: int, verb: str | None, name: str | None, *_: str | None) -> int:
        ours = action == sqlite3.SQLITE_TRANSACTION or (action == sqlite3.SQLITE_SAVEPOINT and name == _SAVEPOINT)
        return sqlite3.SQLITE_DENY if ours and not self._speaking else sqlite3.SQLITE_OK


class SQLiteStore:
    """See `store.Store`. One connection per transaction, so threads, processes and forks share nothing.

    `path` is a file (`:memory:` would be another database in every connection: ValueError). `schema` is SQL of
    the merchant's own tables, run at construction and therefore written with IF NOT EXISTS. `on_connect` is
    called with every new connection, for pragmas such as foreign_keys.
    """

    max_writers = 1

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        schema: str = "",
        busy_timeout_s: float = 10.0,
        on_connect: Callable[[sqlite3.Connection], object] | None = None,
    ) -> None:
        self._path = fspath(path)
        if not self._path or ":memory:" in self._path:
            raise ValueError("SQLiteStore needs a file: an in-memory database is not shared and not durable")
        if isinstance(self._path, str) and _ANOTHER_DATABASES.search(self._path):
            raise ValueError(
                "SQLiteStore needs the path of a file, and this is how another database is reached: "
                "PsycopgStore, SQLAlchemyStore or DjangoStore is for that"
            )
        self._busy_timeout_s = busy_timeout_s
        self._on_connect = on_connect
        try:
            connection = self._connect(sqlite3.Connection)
        except sqlite3.OperationalError as error:
            error.add_note(f"The file is {self._path!r}: its folder has to be there, and be writable.")
            raise
        try:
            # Write-ahead logging lets reads go on beside the writer. Another process may be switching it on
            # at this moment; nothing here depends on it.
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(TABLE + schema)
        finally:
            connection.close()

    def begin(self, wait_s: float | None = None) -> SQLiteTransaction:
        connection = self._connect(GuardedConnection)
        if wait_s is not None:
            connection.execute(f"PRAGMA busy_timeout = {int(wait_s * 1000)}")
        try:
            return SQLiteTransaction(connection)
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise StoreBusy("the database stayed locked; nothing was begun") from error
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        connection = self._connect(sqlite3.Connection)
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()

    def prune(self, before: float) -> int:
        connection = self._connect(sqlite3.Connection)
        try:
            with connection:
                dropped = int(connection.execute(_PRUNE, (before,)).rowcount)
                if dropped:
                    connection.execute(_PRUNED, (before,))
                return dropped
        finally:
            connection.close()

    def _connect(self, factory: type[Any]) -> Any:
        connection = sqlite3.connect(
            self._path,
            timeout=self._busy_timeout_s,
            isolation_level="IMMEDIATE",
            check_same_thread=False,  # an async tool runs on the loop's thread, its transaction on another
            factory=factory,
        )
        connection.execute("PRAGMA synchronous = FULL")
        if self._on_connect is not None:
            self._on_connect(connection)
        return connection
