"""Every transaction of a SQLAlchemy engine, seen by the middleware, whoever opens it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import event

from merchant_sdk import units
from merchant_sdk.stores.transaction_words import WRITES


def track(engine: Any) -> Any:
    """Say to the request at hand when this Engine or AsyncEngine begins and ends transactions; returns it.

    Sessions are covered, since they work through their engine. Once for each engine, at start-up.
    """
    target = getattr(engine, "sync_engine", engine)
    for name, listener in _LISTENERS.items():
        if not event.contains(target, name, listener):
            event.listen(target, name, listener)
    return engine


def _begin(connection: Any) -> None:
    connection.info.pop(_COMMITTING, None)
    units.opened("a database transaction", connection.in_transaction, key=_root(connection))


def _executed(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool) -> None:
    if WRITES.match(statement):
        units.wrote(_root(connection))


def _commit(connection: Any) -> None:
    # Said before the database is asked; an error after it comes to `_failed`.
    connection.info[_COMMITTING] = True


def _rollback(connection: Any) -> None:
    connection.info.pop(_COMMITTING, None)
    units.ended(_root(connection), committed=False)


def _failed(context: Any) -> None:
    connection = context.connection
    if connection is not None and connection.info.pop(_COMMITTING, False):
        units.ended(_root(connection), committed=False)


def _root(connection: Any) -> Any:
    """One object for all of a transaction, whichever options the connection was given meanwhile."""
    return connection.connection.dbapi_connection


_COMMITTING = "oncegate_committing"
_LISTENERS: dict[str, Callable[..., Any]] = {
    "begin": _begin,
    "after_cursor_execute": _executed,
    "commit": _commit,
    "rollback": _rollback,
    "handle_error": _failed,
}
