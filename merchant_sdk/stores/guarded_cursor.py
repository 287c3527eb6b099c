"""Cursors of psycopg that send no statement which ends or begins the transaction (`transaction_words`), and none at
all once it is lost: kept without the claim, what they write would be a second order.

Our own statements go another way (`postgres_statements`), whose names the merchant's statements can drop.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from merchant_sdk.errors import ENDED, OURS, TransactionEnded, TransactionMisuse
from merchant_sdk.stores.postgres_statements import doubt_names
from merchant_sdk.stores.postgres_wire import IDLE
from merchant_sdk.stores.transaction_words import ends_transaction

# What makes psycopg drop all that was prepared, our statements too, or may have undone the claim; wherever it stands in
# the text.
_FORGETS = re.compile(r"\b(?:ROLLBACK|ABORT|DROP|ALTER|DEALLOCATE|DISCARD)\b", re.I)
_KEPT = 4096
"""Characters of a text whose words are remembered."""


class _Guard:
    __slots__ = ()
    connection: Any

    def execute(self, query: Any, *args: Any, **options: Any) -> Any:
        text = query if isinstance(query, str) else _text_of(query, self.connection)
        # Texts come again and again; a long one with its values in it does not.
        ends, forgets = _words_of(text) if len(text) <= _KEPT else _words_of.__wrapped__(text)
        if ends:
            raise TransactionMisuse(OURS)
        if forgets:
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


def _text_of(query: Any, connection: Any) -> str:
    text = query.as_bytes(connection) if hasattr(query, "as_bytes") else query  # of psycopg.sql
    if isinstance(text, bytes):
        return text.decode("latin-1")  # whatever it is encoded in, these words are ASCII
    return text if isinstance(text, str) else ""  # what it is not, psycopg refuses


@lru_cache(maxsize=512)
def _words_of(text: str) -> tuple[bool, bool]:
    return ends_transaction(text), _FORGETS.search(text) is not None


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
