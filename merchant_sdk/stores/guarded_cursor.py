"""Cursors that send no statement which ends or begins the transaction: it belongs to `once`.

PostgreSQL itself would obey, and what the work wrote afterwards would be kept without its claim: a second order. Our
own statements go another way (`postgres_wire`).
A mistake is caught, not malice: text behind a comment, or inside a procedure, is found out at the end only.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from psycopg.sql import Composable

from merchant_sdk.errors import OURS, TransactionMisuse
from merchant_sdk.stores.postgres_wire import doubt_names

_ENDS = re.compile(
    rb"\s*(?:COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION"
    rb"|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b))\b",
    re.I,
)
# What makes psycopg drop all that was prepared, our statements too; wherever it stands in the text.
_FORGETS = re.compile(rb"\b(?:ROLLBACK|DROP|ALTER|DEALLOCATE|DISCARD)\b", re.I)


class _Guard:
    connection: Any

    def execute(self, query: Any, *args: Any, **options: Any) -> Any:
        text = query.as_bytes(self.connection) if isinstance(query, Composable) else query
        text = text.encode() if isinstance(text, str) else text
        if isinstance(text, bytes):
            if _ENDS.match(text):
                raise TransactionMisuse(OURS)
            if _FORGETS.search(text):
                doubt_names(self.connection)
        return super().execute(query, *args, **options)  # type: ignore[misc]


@cache
def guarded(factory: Any) -> Any:
    """The merchant's own kind of cursor, guarded."""
    return type(f"Guarded{factory.__name__}", (_Guard, factory), {})
