"""A session for reads only: one consistent snapshot from its beginning to its end, which no commit cuts short."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.orm import Session

from merchant_sdk.errors import OURS, TransactionMisuse
from merchant_sdk.stores.fit_sessions import connection_of, refuse_autocommit
from merchant_sdk.stores.records import STATEMENTS, Vendor
from merchant_sdk.stores.sqlalchemy_guard import Guard
from merchant_sdk.stores.transaction_words import WRITES, refuse_ends


class _ReadGuard(Guard):
    """As for a work, but there is no claim, and what is begun behind the snapshot is no part of it."""

    def after_begin(self, connection: Any) -> None:
        if self.began is None:
            return
        if self._session.get_transaction() is not self.began:
            raise TransactionMisuse("the transaction ended inside the read: this was not sent")
        if connection is not self.connection:
            event.listen(connection, "before_cursor_execute", _refuse_writes)


@contextmanager
def reading_in(session: Session, vendor: Vendor) -> Iterator[None]:
    """The block reads in this session, which is closed behind it. Raises TransactionMisuse for one in autocommit."""
    guard = _ReadGuard(session)
    connection: sqlalchemy.Connection | None = None
    try:
        connection = _begin(session, vendor)
        guard.connection, guard.began = connection, session.get_transaction()
        yield
    finally:
        guard.lift()
        with suppress(Exception):
            if connection is not None and not connection.closed:
                _unlisten(connection)
            session.rollback()
        session.close()


def _begin(session: Session, vendor: Vendor) -> sqlalchemy.Connection:
    connection = connection_of(session)
    if vendor == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = ON")
        # However it ends, `close()` inside the read too: afterwards the pool has it.
        event.listen(connection, "rollback", _may_write)
        if not getattr(connection.connection.driver_connection, "in_transaction", False):
            connection.exec_driver_sql("BEGIN")
    else:
        refuse_autocommit(connection)
    for statement in STATEMENTS[vendor].read_only:
        connection.exec_driver_sql(statement)
    event.listen(connection, "before_cursor_execute", _refuse_ends)
    event.listen(connection, "commit", _refuse_commit)
    return connection


def _unlisten(connection: sqlalchemy.Connection) -> None:
    for name, listener in (("before_cursor_execute", _refuse_ends), ("commit", _refuse_commit)):
        if event.contains(connection, name, listener):
            event.remove(connection, name, listener)
    if event.contains(connection, "rollback", _may_write):
        event.remove(connection, "rollback", _may_write)
        _may_write(connection)


def _may_write(connection: sqlalchemy.Connection) -> None:
    # Past SQLAlchemy's own transaction, which may be over already.
    cursor = connection.connection.cursor()
    cursor.execute("PRAGMA query_only = OFF")
    cursor.close()


def _refuse_ends(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
    refuse_ends(statement)


def _refuse_commit(_connection: Any) -> NoReturn:
    raise TransactionMisuse(OURS)


def _refuse_writes(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
    if WRITES.match(statement):
        raise TransactionMisuse("a read writes through no other engine either")
