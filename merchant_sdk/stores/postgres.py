"""`once` on PostgreSQL through psycopg 3, with no round trip of its own on the common path.

The claim travels with BEGIN in one message, the reply with COMMIT in another (`postgres_statements`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, get_args

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import InvalidSqlStatementName
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row

from merchant_sdk.errors import ENDED, FAILED, TransactionEnded, TransactionMisuse
from merchant_sdk.migrations import MADE_MEANWHILE, MAKING_TRIES, ddl
from merchant_sdk.store import Contention, Kind, Record
from merchant_sdk.stores.failures import claiming
from merchant_sdk.stores.guarded_connection import ConnectionGuard
from merchant_sdk.stores.postgres_statements import (
    CLAIM,
    COMMIT,
    PUT,
    ROLLBACK,
    Names,
    Statement,
    begin,
    committed,
    is_in_doubt,
    is_of,
    limited,
    of,
    putting,
)
from merchant_sdk.stores.postgres_wire import IDLE, INERROR, INTRANS, say
from merchant_sdk.stores.psycopg_pools import Connection, IdleConnections, Pool, put_back, taken
from merchant_sdk.stores.records import Parameters, Records, pyformat

Isolation = Literal["read committed", "repeatable read", "serializable"]


class PsycopgTransaction:
    """See `store.Transaction`. Begins with its first claim."""

    def __init__(self, pool: Pool, names: Names, isolation: Isolation | None, limits: Sequence[Statement]) -> None:
        self._pool = pool
        self._names = names
        self._isolation = isolation
        self._limits = limits
        self._connection, self._autocommit = taken(pool)
        self._kept: Record | None = None
        self._expected: Record | None = None
        self._held: Record | None = None
        self._late: list[Record] = []
        self._returned = False
        self._guard = ConnectionGuard(self._connection)

    @property
    def db(self) -> Connection:
        return self._connection

    def expect(self, record: Record) -> None:
        """Claim this record in the message that begins, so that its own claim needs none."""
        self._expected = record

    def claim(self, wanted: Record) -> Record | None:
        if is_of(self._held, wanted):
            return None
        with claiming:
            if self._status() == IDLE:
                written = self._begin_and_claim(wanted)
                if written == 1:
                    self._kept = wanted
            else:
                try:
                    written = self._say(of(wanted, CLAIM, self._connection))[-1].command_tuples
                except InvalidSqlStatementName as error:
                    raise self._names.lost_inside() from error
            if written == 1:
                return None
            found = self._records().find(wanted.kind, wanted.key)
        if found is None:
            raise Contention("the record of this key was removed at this moment")
        return found

    def put(self, records: Sequence[Record]) -> None:
        # Sent with COMMIT. What the claim wrote already is not written again, if it came with BEGIN: one that came
        # later may have been undone with a savepoint of the work. Nor is it sure where a text could have begun anew.
        kept = () if is_in_doubt(self._connection) else (self._kept, self._held)
        self._late = [record for record in records if record not in kept]

    def forget(self, kind: Kind, key: str) -> None:
        self._records().forget(kind, key)

    def undo_work(self) -> None:
        self._kept = self._held = None
        self._late = []
        if self._status() != IDLE:
            say(self._connection, ROLLBACK)

    def commit(self) -> None:
        # In a transaction that failed, COMMIT would be a ROLLBACK without an error.
        if (status := self._status()) != INTRANS:
            raise TransactionEnded(ENDED) if status == IDLE else TransactionMisuse(FAILED)
        puts = [of(record, PUT, self._connection) for record in self._late]
        try:
            with putting:
                committed(self._connection, self._say(*puts, COMMIT))
        except InvalidSqlStatementName as error:
            raise self._names.lost_inside() from error

    def rollback(self) -> None:
        # Whatever fails here, a connection that is not idle is closed, which rolls back. So is one that was interrupted
        # inside a message: what it was to wait for may take as long as a twin.
        _roll_back(self._connection)

    def close(self) -> None:
        if self._returned:
            return
        self._returned = True
        self._guard.lift()
        if self._status() != IDLE:
            self._connection.close()
        put_back(self._pool, self._connection, self._autocommit)

    def _begin_and_claim(self, wanted: Record) -> int | None:
        expected, self._expected = self._expected, None
        asked = [wanted] if expected is None else [wanted, expected]
        for left in reversed(range(_BEGIN_TRIES)):
            connection = self._connection
            try:
                if missing := self._names.prepare(connection):
                    say(connection, *missing)
                    self._names.prepared(connection)
                claims = [of(record, CLAIM, connection) for record in asked]
                said = self._say(begin(connection, self._isolation), *self._limits, *claims)
            except psycopg.Error as error:
                if left and connection.closed and isinstance(error, psycopg.OperationalError):
                    # It died while it was idle (a restart, a proxy): nothing was begun on it.
                    self.close()
                    self._connection, self._autocommit = taken(self._pool)
                    self._returned, self._guard = False, ConnectionGuard(self._connection)
                elif left and self._names.names_are_gone(connection, error):
                    self.undo_work()
                else:
                    raise
            else:
                self._names.begun(connection)
                self._held = expected if said[-1].command_tuples == 1 else None
                return said[-len(asked)].command_tuples
        raise AssertionError

    def _say(self, *statements: Statement) -> list[PGresult]:
        return say(self._connection, *statements, named=self._names.knows(self._connection))

    def _records(self) -> Records:
        connection = self._connection
        return Records("postgresql", lambda sql, values: _executed(connection, sql, values))

    def _status(self) -> int:
        return self._connection.pgconn.transaction_status


_BEGIN_TRIES = 64
"""How many dead connections of one pool are passed over before the database is taken to be gone."""


def _roll_back(connection: Connection) -> None:
    with suppress(psycopg.Error, TransactionMisuse):
        if connection.pgconn.transaction_status in (INTRANS, INERROR):
            say(connection, ROLLBACK)


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
    the server's own will do. Raises TypeError or ValueError for what is none of these.
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
        if isolation is not None and isolation not in get_args(Isolation):
            raise ValueError(f"isolation is one of {', '.join(get_args(Isolation))}, not {isolation!r}")
        self.max_writers = max_writers
        self.expects = True
        self._own = IdleConnections(lambda: _connect(database)) if isinstance(database, str) else None
        self._pool: Pool = self._own or database  # type: ignore[assignment]
        _check(database)
        self._names = Names()
        self._isolation = isolation
        if create_table:
            self._make((ddl("postgresql") + schema).encode())

    def begin(self, wait_s: float | None = None) -> PsycopgTransaction:
        limits = () if wait_s is None else (limited(wait_s),)
        return PsycopgTransaction(self._pool, self._names, self._isolation, limits)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            guard = ConnectionGuard(connection)
            try:
                yield connection
            finally:
                guard.lift()
                _roll_back(connection)

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
        for left in reversed(range(_BEGIN_TRIES)):
            connection, autocommit = taken(self._pool)
            try:
                connection.execute(first.encode())
                break
            except BaseException as error:
                dead = connection.closed and isinstance(error, psycopg.OperationalError)
                put_back(self._pool, connection, autocommit)
                if not left or not dead:
                    raise
        rows: Any = connection.row_factory
        try:
            yield connection
        finally:
            connection.row_factory = rows
            put_back(self._pool, connection, autocommit)


def _check(database: object) -> None:
    if isinstance(database, str):
        try:
            conninfo_to_dict(database)
        except psycopg.ProgrammingError:
            # Without libpq's own words, which may hold the password.
            raise ValueError(
                "a connection string is 'host=... dbname=...' or 'postgresql://...': "
                "a file is for SQLiteStore, an address with a driver for SQLAlchemyStore"
            ) from None
    elif not _is_pool(database):
        raise TypeError(
            "PsycopgStore takes a connection string or a psycopg_pool.ConnectionPool (not an async one), "
            f"not {type(database).__name__}"
        )


def _is_pool(database: Any) -> bool:
    asked = getattr(database, "getconn", None)
    return asked is not None and not inspect.iscoroutinefunction(asked)


def _connect(conninfo: str) -> Connection:
    return psycopg.connect(conninfo, autocommit=True)
