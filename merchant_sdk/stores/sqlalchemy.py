"""`once` through SQLAlchemy 2 on PostgreSQL, SQLite, MySQL and MariaDB. `work.db` is a Session.

The session is guarded: `commit()` and `rollback()` inside the work raise, savepoints (`begin_nested`) do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.orm import Session

from merchant_sdk.errors import AFTER_COMMIT, OutcomeUnknown, TransactionMisuse
from merchant_sdk.migrations import MADE_MEANWHILE, MAKING_TRIES, statements
from merchant_sdk.store import Contention, Kind, Record
from merchant_sdk.stores.failures import claiming
from merchant_sdk.stores.fit_sessions import connection_of, refuse_autocommit, refuse_open
from merchant_sdk.stores.records import Parameters, Records, Vendor, in_style
from merchant_sdk.stores.sqlalchemy_guard import Guard
from merchant_sdk.stores.sqlalchemy_reading import reading_in
from merchant_sdk.stores.transaction_words import refuse_ends

_VENDORS: Mapping[str, Vendor] = {
    "postgresql": "postgresql",
    "sqlite": "sqlite",
    "mysql": "mysql",
    "mariadb": "mysql",
}


class SQLAlchemyTransaction:
    """See `store.Transaction`. Begins with its first claim, as sessions do."""

    def __init__(self, session: Session, vendor: Vendor, wait_s: float | None, wire: Any = None) -> None:
        self._session = session
        self._vendor = vendor
        self._wait_s = wait_s
        self._wire = wire
        self._records = Records(vendor, self._execute)
        self._guard: Guard | None = None
        self._connection: Any = None
        self._direct: Any = None
        self._expected: Record | None = None
        self._late: Sequence[Record] = ()
        self._plain = False
        self._restore = ""

    @property
    def db(self) -> Any:
        return self._session

    def expect(self, record: Record) -> None:
        """Where the driver is psycopg: claim this record in the message that begins."""
        self._expected = record

    def claim(self, wanted: Record) -> Record | None:
        if self._guard is None or self._guard.began is None:
            self._begin()
        if self._direct is None:
            return self._records.claim(wanted)
        with claiming:
            expected, self._expected = self._expected, None
            if self._direct.claim(wanted, expected):
                return None
            found = self._records.find(wanted.kind, wanted.key)
        if found is None:
            raise Contention("the record of this key was removed at this moment")
        return found

    def put(self, records: Sequence[Record]) -> None:
        # What the work left unflushed goes first: its error is the merchant's, and InnoDB may end the
        # transaction with it.
        self._session.flush()
        self._owned().check()
        if self._direct is not None:
            self._direct.put(records, with_commit=self._plain)
        elif self._plain:
            self._late = records
            event.listen(self._connection, "commit", self._put_late)
        else:
            self._records.put(records)

    def _put_late(self, _: sqlalchemy.Connection) -> None:
        """After the merchant's hooks: where one of them failed in the database, so does this. COMMIT would not."""
        late, self._late = self._late, ()
        self._records.put(late)

    def _unlisten(self) -> None:
        for name, listener in (("commit", self._put_late), ("before_cursor_execute", _refuse_ends)):
            if self._connection is not None and event.contains(self._connection, name, listener):
                event.remove(self._connection, name, listener)

    def forget(self, kind: Kind, key: str) -> None:
        self._records.forget(kind, key)

    def undo_work(self) -> None:
        guard = self._owned()
        self._lift_cursors()
        self._lift_limits()
        with guard.ours():
            self._session.rollback()
        self._unlisten()
        guard.began = guard.connection = self._connection = None

    def commit(self) -> None:
        guard = self._owned()
        guard.check()
        direct = self._direct
        if direct is not None:
            direct.check()
        self._lift_cursors()
        self._lift_limits()
        try:
            with guard.ours():
                self._session.commit()
        except Exception as error:
            if guard.committed:
                raise OutcomeUnknown(AFTER_COMMIT) from error
            raise
        if direct is not None:
            direct.check_sent()
        elif self._late:
            raise TransactionMisuse("the session's commit did not commit on its connection: the reply is not stored")

    def rollback(self) -> None:
        if self._guard is None:
            return
        self._lift_cursors()
        self._lift_limits()
        # Whatever fails here, a session that is closed gives back a connection that was rolled back.
        with self._guard.ours(), suppress(Exception):
            self._session.rollback()

    def close(self) -> None:
        self._unlisten()
        if self._guard is not None:
            self._guard.lift()
        elif self._session.in_transaction():
            return  # somebody else's: `_begin` refused it
        with suppress(Exception):
            self._session.close()

    def _lift_cursors(self) -> None:
        direct, self._direct = self._direct, None
        if direct is not None:
            direct.lift()

    def _lift_limits(self) -> None:
        """Before the end, after which the pool may give the connection away."""
        restore, self._restore = self._restore, ""
        with suppress(Exception):
            if restore:
                # Past SQLAlchemy's own transaction, which may have failed already.
                cursor = self._connection.connection.cursor()
                cursor.execute(restore)
                cursor.close()

    def _owned(self) -> Guard:
        if self._guard is None:
            raise TransactionMisuse("nothing was begun")
        return self._guard

    def _begin(self) -> None:
        if self._guard is None:
            # Before anything is touched: what is open there already is neither committed, undone nor closed.
            refuse_open(self._session)
            self._guard = Guard(self._session)
        connection = connection_of(self._session)
        refuse_autocommit(connection)
        self._connection = self._guard.connection = connection
        # A savepoint that others opened, or a commit in two phases, ends without the driver's `commit`.
        self._plain = not connection.in_nested_transaction() and not self._session.twophase
        self._guard.began = self._session.get_transaction()
        if self._wait_s is not None:
            self._limit_waits(self._connection, max(1, int(self._wait_s * 1000)))
        elif self._wire is not None:
            self._direct = self._wire(self._connection)
        if self._direct is None:
            event.listen(connection, "before_cursor_execute", _refuse_ends)

    def _limit_waits(self, connection: sqlalchemy.Connection, wait_ms: int) -> None:
        if self._vendor == "postgresql":
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {wait_ms}")
        elif self._vendor == "sqlite":
            before = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
            self._restore = f"PRAGMA busy_timeout = {before}"
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {wait_ms}")
        else:
            before = connection.exec_driver_sql("SELECT @@innodb_lock_wait_timeout").scalar_one()
            self._restore = f"SET SESSION innodb_lock_wait_timeout = {before}"
            # Whole seconds, and one is the least.
            connection.exec_driver_sql(f"SET SESSION innodb_lock_wait_timeout = {max(1, wait_ms // 1000)}")

    def _execute(self, sql: str, parameters: Parameters) -> tuple[int, Sequence[Sequence[Any]]]:
        # On the connection, not the session: nothing of the merchant's is flushed by looking for a key.
        return executed(self._connection, sql, parameters)


def _refuse_ends(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
    refuse_ends(statement)


class SQLAlchemyStore:
    """See `store.Store`.

    `sessions` makes a new session per transaction: a `sessionmaker`, or `lambda: Session(engine)`. The table
    is made by the shipped migration (SQL or Alembic), or by `create_table()`. On SQLite use a file, not memory.
    """

    def __init__(self, sessions: Callable[[], Session], *, max_writers: int = 16) -> None:
        if not callable(sessions) or not isinstance(made := sessions(), Session):
            raise TypeError(
                "SQLAlchemyStore takes what makes sessions, SQLAlchemyStore(sessionmaker(engine)); "
                "AsyncSQLAlchemyStore takes an async_sessionmaker"
            )
        self._sessions = sessions
        self.max_writers = max_writers
        with made as session:
            dialect = session.get_bind().dialect
        self._vendor = vendor_of(dialect.name)
        self._wire = _wire_of(dialect)
        self.expects = self._wire is not None

    def create_table(self) -> None:
        """Make the table where it is missing."""
        for left in reversed(range(MAKING_TRIES)):
            try:
                with self._fresh() as session:
                    for statement in statements(self._vendor):
                        connection_of(session).exec_driver_sql(statement)
                    session.commit()
                return
            except sqlalchemy.exc.DBAPIError as error:
                code = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
                if not left or code not in MADE_MEANWHILE:
                    raise

    def begin(self, wait_s: float | None = None) -> SQLAlchemyTransaction:
        return SQLAlchemyTransaction(self._sessions(), self._vendor, wait_s, self._wire)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        session = self._fresh()
        with reading_in(session, self._vendor):
            yield session

    def prune(self, before: float) -> int:
        with self._fresh() as session, session.begin():
            connection = session.connection()
            return Records(self._vendor, lambda sql, values: executed(connection, sql, values)).prune(before)

    def _fresh(self) -> Session:
        session = self._sessions()
        refuse_open(session)
        return session


def vendor_of(dialect: str) -> Vendor:
    """Raises ValueError for a database that `once` cannot keep its promises on."""
    if dialect not in _VENDORS:
        raise ValueError(f"`once` runs on {', '.join(_VENDORS)}, not on {dialect}")
    return _VENDORS[dialect]


def executed(connection: sqlalchemy.Connection, sql: str, values: Parameters) -> tuple[int, Sequence[Sequence[Any]]]:
    """One statement, in the driver's own words: there is nothing to compile."""
    text, names = in_style(sql, connection.dialect.paramstyle)
    given = dict(values) if names is None else tuple(values[name] for name in names)
    result = connection.exec_driver_sql(text, given)
    return result.rowcount, [tuple(row) for row in result] if result.returns_rows else ()


def _wire_of(dialect: Any) -> Callable[[sqlalchemy.Connection], Any] | None:
    """What makes a claim cost no round trip, where the driver can."""
    if dialect.driver not in ("psycopg", "psycopg_async"):
        return None
    from merchant_sdk.stores.postgres_statements import Names
    from merchant_sdk.stores.sqlalchemy_psycopg import PsycopgConnection

    names = Names()
    return lambda connection: PsycopgConnection(connection, names)
