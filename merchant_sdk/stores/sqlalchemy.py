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

from merchant_sdk.errors import TransactionMisuse
from merchant_sdk.migrations import statements
from merchant_sdk.store import Kind, Record
from merchant_sdk.stores.fit_sessions import refuse_autocommit, refuse_open
from merchant_sdk.stores.records import STATEMENTS, Parameters, Records, Vendor

_VENDORS: Mapping[str, Vendor] = {
    "postgresql": "postgresql",
    "sqlite": "sqlite",
    "mysql": "mysql",
    "mariadb": "mysql",
}
_OURS = "the transaction belongs to `once`: it commits when the block ends, and rolls back when you raise"


class SQLAlchemyTransaction:
    """See `store.Transaction`. Begins with its first claim, as sessions do."""

    def __init__(self, session: Session, vendor: Vendor, wait_s: float | None) -> None:
        self._session = session
        self._vendor = vendor
        self._wait_s = wait_s
        self._records = Records(vendor, self._execute)
        self._speaking = False
        self._began: Any = None
        self._restore = ""
        self.async_session: Any = None
        """The session around this one, where there is an event loop."""
        event.listen(session, "before_commit", self._before_commit)
        event.listen(session, "after_soft_rollback", self._after_rollback)

    @property
    def db(self) -> Session:
        return self._session

    def claim(self, wanted: Record) -> Record | None:
        if self._began is None:
            self._begin()
        return self._records.claim(wanted)

    def put(self, records: Sequence[Record]) -> None:
        # What the work left unflushed goes first: its error is the merchant's, and InnoDB may end the
        # transaction with it.
        self._session.flush()
        self._check()
        self._records.put(records)

    def forget(self, kind: Kind, key: str) -> None:
        self._records.forget(kind, key)

    def undo_work(self) -> None:
        with self._ours():
            self._session.rollback()
        self._began = None

    def commit(self) -> None:
        self._check()
        with self._ours():
            self._session.commit()

    def rollback(self) -> None:
        # Whatever fails here, a session that is closed gives back a connection that was rolled back.
        with self._ours(), suppress(Exception):
            self._session.rollback()

    def close(self) -> None:
        event.remove(self._session, "before_commit", self._before_commit)
        event.remove(self._session, "after_soft_rollback", self._after_rollback)
        with suppress(Exception):
            if self._restore:
                self._connection().exec_driver_sql(self._restore)
                self._session.rollback()
        with suppress(Exception):
            self._session.close()

    def _begin(self) -> None:
        refuse_open(self._session)
        connection = self._connection()
        refuse_autocommit(connection)
        self._began = self._session.get_transaction()
        if self._wait_s is not None:
            self._limit_waits(connection, max(1, int(self._wait_s * 1000)))

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
        result = self._connection().execute(sqlalchemy.text(sql), dict(parameters))
        return result.rowcount, [tuple(row) for row in result] if result.returns_rows else ()

    def _connection(self) -> sqlalchemy.Connection:
        return self._session.connection()

    def _check(self) -> None:
        now = self._session.get_transaction()
        if now is None or now is not self._began or not now.is_active:
            raise TransactionMisuse("the transaction failed or ended inside the work; nothing is stored")

    @contextmanager
    def _ours(self) -> Iterator[None]:
        self._speaking = True
        try:
            yield
        finally:
            self._speaking = False

    def _before_commit(self, session: Session) -> None:
        if not self._speaking and not session.in_nested_transaction():
            raise TransactionMisuse(_OURS)

    def _after_rollback(self, session: Session, ended: Any) -> None:
        if not self._speaking and ended is self._began:
            raise TransactionMisuse(_OURS)


class SQLAlchemyStore:
    """See `store.Store`.

    `sessions` makes a new session per transaction: a `sessionmaker`, or `lambda: Session(engine)`. The table
    is made by the shipped migration (SQL or Alembic), or by `create_table()`. On SQLite use a file, not memory.
    """

    def __init__(self, sessions: Callable[[], Session], *, max_writers: int = 16) -> None:
        self._sessions = sessions
        self.max_writers = max_writers
        with sessions() as session:
            self._vendor = vendor_of(session.get_bind().dialect.name)

    def create_table(self) -> None:
        """Make the table where it is missing."""
        with self._sessions() as session:
            for statement in statements(self._vendor):
                session.connection().exec_driver_sql(statement)
            session.commit()

    def begin(self, wait_s: float | None = None) -> SQLAlchemyTransaction:
        return SQLAlchemyTransaction(self._sessions(), self._vendor, wait_s)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        session = self._sessions()
        try:
            begin_reading(session, self._vendor)
            yield session
        finally:
            end_reading(session, self._vendor)

    def prune(self, before: float) -> int:
        with self._sessions() as session, session.begin():
            result: Any = session.execute(sqlalchemy.text(STATEMENTS[self._vendor].prune), {"before": before})
            return int(result.rowcount)


def vendor_of(dialect: str) -> Vendor:
    """Raises ValueError for a database that `once` cannot keep its promises on."""
    if dialect not in _VENDORS:
        raise ValueError(f"`once` runs on {', '.join(_VENDORS)}, not on {dialect}")
    return _VENDORS[dialect]


def begin_reading(session: Session, vendor: Vendor) -> None:
    """One consistent snapshot, and no writes."""
    connection = session.connection()
    if vendor == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = ON")
        if not getattr(connection.connection.driver_connection, "in_transaction", False):
            connection.exec_driver_sql("BEGIN")
    for statement in STATEMENTS[vendor].read_only:
        connection.exec_driver_sql(statement)


def end_reading(session: Session, vendor: Vendor) -> None:
    """Give the connection back as it was."""
    with suppress(Exception):
        # Before the rollback: after it the pool might hand out another connection.
        if vendor == "sqlite":
            session.connection().exec_driver_sql("PRAGMA query_only = OFF")
        session.rollback()
    session.close()
