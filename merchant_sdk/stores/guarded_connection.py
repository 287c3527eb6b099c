"""A psycopg connection that the merchant uses and `once`, or a read, ends: what would end it raises."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

from merchant_sdk.errors import OURS, TransactionMisuse
from merchant_sdk.stores.guarded_cursor import guarded
from merchant_sdk.stores.postgres_statements import doubt_names
from merchant_sdk.stores.psycopg_pools import Connection

_GUARDED = ("commit", "rollback", "__exit__", "transaction")


class ConnectionGuard:
    """On one connection, from its making to `lift`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # On the instance, so that a connection of any class and any pool is guarded while it is ours.
        ours = connection.__dict__
        ours["commit"] = ours["rollback"] = ours["__exit__"] = _refuse
        ours["transaction"] = partial(_savepoint, connection)
        self._factory: Any = connection.cursor_factory
        self._rows: Any = connection.row_factory
        guard: Any = guarded  # its cache takes any class, which its type does not say
        connection.cursor_factory = guard(self._factory)

    def lift(self) -> None:
        """The connection is as it was."""
        ours = self._connection.__dict__
        for name in _GUARDED:
            ours.pop(name, None)
        self._connection.cursor_factory = self._factory
        self._connection.row_factory = self._rows


def _savepoint(connection: Connection, *args: Any, **options: Any) -> Any:
    # Undone, it drops what is prepared, past any cursor.
    doubt_names(connection)
    return type(connection).transaction(connection, *args, **options)


def _refuse(*_: object) -> NoReturn:
    raise TransactionMisuse(OURS)
