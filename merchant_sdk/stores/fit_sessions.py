"""Whether a session is one that `once` can commit and undo: nothing is open on it, and it is in no autocommit."""

from __future__ import annotations

from typing import Any

import sqlalchemy
from sqlalchemy.orm import Session

from merchant_sdk.errors import TransactionMisuse

_OPEN = (
    "a transaction is open already on the session that the store was given (a scoped_session, or one bound to a "
    "connection?): `once` would commit what others began, or the reply would leave before its commit. Hand it a "
    "maker of new sessions, such as a sessionmaker"
)
_AUTOCOMMIT = (
    "the engine is in autocommit: each statement would be kept at once, and nothing undone. Give `once` an engine "
    "without it (isolation_level, connect_args)"
)


def refuse_open(session: Session) -> None:
    """Raises TransactionMisuse for a session that somebody else's transaction is on.

    A session bound to a connection in `create_savepoint` mode is let through: it says so on purpose, for tests.
    """
    bind = session.get_bind()
    joined = isinstance(bind, sqlalchemy.Connection) and bind.in_transaction()
    if session.in_transaction() or (joined and session.join_transaction_mode != "create_savepoint"):
        raise TransactionMisuse(_OPEN)


def connection_of(session: Session) -> sqlalchemy.Connection:
    """Its connection, in a transaction that is begun where none is: also by a session that begins none by itself."""
    if not session.autobegin and not session.in_transaction():
        session.begin()
    return session.connection()


def refuse_autocommit(connection: sqlalchemy.Connection) -> None:
    """Raises TransactionMisuse for a connection whose statements are committed one by one. Sends nothing."""
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite":
        autocommit = _sqlite_keeps_at_once(driver, connection.connection.driver_connection)
    else:
        told: Any = getattr(driver, "get_autocommit", None) or getattr(driver, "autocommit", False)
        autocommit = told() if callable(told) else told
    if autocommit:
        # It may be this connection alone, left so by somebody's SQL: the pool gets no use of it either.
        connection.invalidate()
        raise TransactionMisuse(_AUTOCOMMIT)


def _sqlite_keeps_at_once(driver: Any, connection: Any) -> bool:
    """A listener may have said BEGIN in the driver's place; without `autocommit` (Python 3.12) the level tells."""
    if getattr(connection, "in_transaction", False):
        return False
    autocommit = getattr(driver, "autocommit", -1)
    return driver.isolation_level is None if autocommit == -1 else bool(autocommit)
