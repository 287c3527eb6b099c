"""`once` on PostgreSQL through psycopg 3, with no round trip of its own on the common path.

The claim travels with BEGIN in one message, the reply with COMMIT in another (`postgres_wire`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, NoReturn

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from merchant_sdk.errors import OURS, TransactionMisuse
from merchant_sdk.migrations import MADE_MEANWHILE, MAKING_TRIES, ddl
from merchant_sdk.store import Contention, Kind, Record
from merchant_sdk.stores.failures import claiming
from merchant_sdk.stores.guarded_cursor import guarded
from merchant_sdk.stores.postgres_wire import (
    BEGIN_TRIES,
    CLAIM,
    COMMIT,
    PUT,
    ROLLBACK,
    Statement,
    Wire,
    begin,
    committed,
    doubt_names,
    is_in_doubt,
    limited,
    putting,
    say,
)
from merchant_sdk.stores.psycopg_pools import Connection, IdleConnections, Pool, put_back, taken
from merchant_sdk.stores.records import Parameters, Records, pyformat

Isolation = Literal["read committed", "repeatable read", "serializable"]


class PsycopgTransaction:
    """See `store.Transaction`. Begins with its first claim."""

    def __init__(self, pool: Pool, wire: Wire, isolation: Isolation | None, limits: Sequence[Statement]) -> None:
        self._pool = pool
        self._wire = wire
        self._isolation = isolation
        self._limits = limits
        self._connection, self._autocommit = taken(pool)
        self._kept: Record | None = None
        self._late: list[Record] = []
        self._guard()

    @property
    def db(self) -> Connection:
        return self._connection

    def claim(self, wanted: Record) -> Record | None:
        with claiming:
            if self._status() == TransactionStatus.IDLE:
                written = self._begin_and_claim(wanted)
                if written == 1:
                    self._kept = wanted
            else:
                written = say(self._connection, self._said(CLAIM, wanted))[-1].command_tuples
            if written == 1:
                return None
            found = self._records().find(wanted.kind, wanted.key)
        if found is None:
            raise Contention("the record of this key was removed at this moment")
        return found

    def put(self, records: Sequence[Record]) -> None:
        # Sent with COMMIT. What the claim wrote already is not written again, if it came with BEGIN: one that came
        # later may have been undone with a savepoint of the work. Nor is it sure where a text could have begun anew.
        kept = None if is_in_doubt(self._connection) else self._kept
        self._late = [record for record in records if record != kept]

    def forget(self, kind: Kind, key: str) -> None:
        self._records().forget(kind, key)

    def undo_work(self) -> None:
        self._kept = None
        self._late = []
        if self._status() != TransactionStatus.IDLE:
            say(self._connection, ROLLBACK)

    def commit(self) -> None:
        # In a transaction that failed, COMMIT would be a ROLLBACK without an error.
        if self._status() != TransactionStatus.INTRANS:
            raise TransactionMisuse("the transaction failed or ended inside the work; nothing is stored")
        puts = [self._said(PUT, record) for record in self._late]
        with putting:
            end = self._wire.plain(COMMIT, self._connection)
            committed(self._connection, say(self._connection, *puts, end))

    def rollback(self) -> None:
        # Whatever fails here, a connection that is not idle is closed, which rolls back. So is one that was interrupted
        # inside a message: what it was to wait for may take as long as a twin.
        with suppress(psycopg.Error, TransactionMisuse):
            if self._status() in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                say(self._connection, ROLLBACK)

    def close(self) -> None:
        if self._returned:
            return
        self._returned = True
        ours = self._connection.__dict__
        for name in _GUARDED:
            ours.pop(name, None)
        self._connection.cursor_factory = self._factory
        self._connection.row_factory = self._rows
        if self._status() != TransactionStatus.IDLE:
            self._connection.close()
        put_back(self._pool, self._connection, self._autocommit)

    def _begin_and_claim(self, wanted: Record) -> int | None:
        for left in reversed(range(_DEAD_TRIES)):
            try:
                return self._try_to_begin(wanted)
            except psycopg.OperationalError:
                # A connection that died while it was idle (a restart, a proxy): nothing was begun on it. The pool
                # may hold more of them.
                if not left or not self._connection.closed:
                    raise
                self.close()
                self._connection, self._autocommit = taken(self._pool)
                self._guard()
        raise AssertionError

    def _try_to_begin(self, wanted: Record) -> int | None:
        for left in reversed(range(BEGIN_TRIES)):
            try:
                if names := self._wire.prepare(self._connection):
                    say(self._connection, *names)
                    self._wire.prepared(self._connection)
                first = self._wire.plain(begin(self._connection, self._isolation), self._connection)
                said = say(self._connection, first, *self._limits, self._said(CLAIM, wanted))
            except psycopg.Error as error:
                if not left or not self._wire.names_are_gone(self._connection, error):
                    raise
                self.undo_work()
            else:
                self._wire.begun(self._connection)
                return said[-1].command_tuples
        raise AssertionError

    def _said(self, statement: Statement, record: Record) -> Statement:
        return self._wire.of(record, statement, self._connection)

    def _records(self) -> Records:
        connection = self._connection
        return Records("postgresql", lambda sql, values: _executed(connection, sql, values))

    def _savepoint(self, *args: Any, **options: Any) -> Any:
        # Undone, it drops what is prepared, past any cursor.
        doubt_names(self._connection)
        return type(self._connection).transaction(self._connection, *args, **options)

    def _status(self) -> int:
        return self._connection.pgconn.transaction_status

    def _guard(self) -> None:
        self._returned = False
        # On the instance, so that a connection of any class and any pool is guarded while it is ours.
        ours = self._connection.__dict__
        ours["commit"] = ours["rollback"] = ours["__exit__"] = _refuse
        ours["transaction"] = self._savepoint
        self._factory: Any = self._connection.cursor_factory
        self._rows: Any = self._connection.row_factory
        guard: Any = guarded  # its cache takes any class, which its type does not say
        self._connection.cursor_factory = guard(self._factory)


_DEAD_TRIES = 64
"""How many dead connections of one pool are passed over before the database is taken to be gone."""

_GUARDED = ("commit", "rollback", "__exit__", "transaction")


def _refuse(*_: object) -> NoReturn:
    raise TransactionMisuse(OURS)


def _executed(connection: Connection, sql: str, parameters: Parameters) -> tuple[int, Sequence[Sequence[Any]]]:
    # Not the merchant's kind of cursor, which may know other marks for parameters.
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(pyformat(sql).encode(), parameters)
        return cursor.rowcount, cursor.fetchall() if cursor.description else ()


class PsycopgStore:
    """See `store.Store`. `work.db` is a psycopg connection.

    `database` is a connection string, of which as many connections are opened as are used at a time, or a
    pool (psycopg_pool.ConnectionPool). The table is made by the shipped migration, or here with
    `create_table=True`, together with `schema`. `isolation` is that of the merchant's work, unless the connection's or
    the server's own will do.
    """

    def __init__(
        self,
        database: str | Pool,
        *,
        create_table: bool = False,
        schema: str = "",
        isolation: Isolation | None = None,
        max_writers: int = 16,
    ) -> None:
        self.max_writers = max_writers
        self._own = IdleConnections(lambda: _connect(database)) if isinstance(database, str) else None
        self._pool: Pool = self._own or database  # type: ignore[assignment]
        self._wire = Wire()
        self._isolation = isolation
        if create_table:
            self._make((ddl("postgresql") + schema).encode())

    def begin(self, wait_s: float | None = None) -> PsycopgTransaction:
        limits = () if wait_s is None else (limited(wait_s),)
        return PsycopgTransaction(self._pool, self._wire, self._isolation, limits)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            try:
                yield connection
            finally:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")

    def prune(self, before: float) -> int:
        with self._plain() as connection, connection.transaction():
            return Records("postgresql", lambda sql, values: _executed(connection, sql, values)).prune(before)

    def close(self) -> None:
        """Close the store's own idle connections; a pool that was handed in stays open."""
        if self._own is not None:
            self._own.close()

    def _make(self, tables: bytes) -> None:
        for left in reversed(range(MAKING_TRIES)):
            try:
                with self._plain() as connection:
                    connection.execute(tables)
                return
            except psycopg.Error as error:
                if not left or error.sqlstate not in MADE_MEANWHILE:
                    raise

    @contextmanager
    def _plain(self, first: str = "SELECT 1") -> Iterator[Connection]:
        for left in reversed(range(_DEAD_TRIES)):
            connection, autocommit = taken(self._pool)
            try:
                connection.execute(first.encode())
                break
            except psycopg.OperationalError:
                dead = connection.closed
                put_back(self._pool, connection, autocommit)
                if not left or not dead:
                    raise
        rows: Any = connection.row_factory
        try:
            yield connection
        finally:
            connection.row_factory = rows
            put_back(self._pool, connection, autocommit)


def _connect(conninfo: str) -> Connection:
    return psycopg.connect(conninfo, autocommit=True)
