"""Cursors of psycopg that send no statement which ends or begins the transaction (`transaction_words`), and none at
all once it is lost: kept without the claim, what they write would be a second order.

Our own statements go another way (`postgres_statements`), whose names the merchant's statements can drop.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from merchant_sdk.errors import ENDED, TransactionEnded
from merchant_sdk.stores.postgres_statements import doubt_names
from merchant_sdk.stores.postgres_wire import IDLE
from merchant_sdk.stores.transaction_words import refuse_ends

# What makes psycopg drop all that was prepared, our statements too, or may have undone the claim; wherever it stands in
# the text.
_FORGETS = re.compile(r"\b(?:ROLLBACK|ABORT|DROP|ALTER|DEALLOCATE|DISCARD)\b", re.I)


class _Guard:
    __slots__ = ()
    connection: Any

    def execute(self, query: Any, *args: Any, **options: Any) -> Any:
        text = query.as_bytes(self.connection) if hasattr(query, "as_bytes") else query  # of psycopg.sql
        if isinstance(text, bytes):
            text = text.decode("latin-1")  # whatever it is encoded in, these words are ASCII
        if isinstance(text, str):
            refuse_ends(text)
            if _FORGETS.search(text):
                doubt_names(self.connection)
        self._refuse_lost()
        return super().execute(query, *args, **options)  # type: ignore[misc]

    def executemany(self, *args: Any, **options: Any) -> Any:
        self._refuse_lost()
        return super().executemany(*args, **options)  # type: ignore[misc]

    def stream(self, *args: Any, **options: Any) -> Any:
        self._refuse_lost()
        return super().stream(*args, **options)  # type: ignore[misc]

    def copy(self, *args: Any, **options: Any) -> Any:
        self._refuse_lost()
        return super().copy(*args, **options)  # type: ignore[misc]

    def _refuse_lost(self) -> None:
        # A statement that ended it in a way nobody sees: behind another in one text, on a cursor of another make.
        if self.connection.pgconn.transaction_status == IDLE:
            raise TransactionEnded(f"this was not sent: {ENDED}")


@cache
def guarded(factory: Any) -> Any:
    """The merchant's own kind of cursor, guarded; or whatever it calls to make one."""
    if isinstance(factory, type):
        return type(f"Guarded{factory.__name__}", (_Guard, factory), {"__slots__": ()})

    def make(*args: Any, **options: Any) -> Any:
        made = factory(*args, **options)
        kind: Any = type(made)
        made.__class__ = guarded(kind)
        return made

    return make
