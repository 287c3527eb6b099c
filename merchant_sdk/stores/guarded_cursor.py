"""Cursors of psycopg that send no statement which ends or begins the transaction (`transaction_words`).

Our own statements go another way (`postgres_statements`), whose names the merchant's statements can drop.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from merchant_sdk.stores.postgres_statements import doubt_names
from merchant_sdk.stores.transaction_words import refuse_ends

# What makes psycopg drop all that was prepared, our statements too; wherever it stands in the text.
_FORGETS = re.compile(r"\b(?:ROLLBACK|DROP|ALTER|DEALLOCATE|DISCARD)\b", re.I)


class _Guard:
    connection: Any

    def execute(self, query: Any, *args: Any, **options: Any) -> Any:
        text = query.as_bytes(self.connection) if hasattr(query, "as_bytes") else query  # of psycopg.sql
        if isinstance(text, bytes):
            text = text.decode("latin-1")  # whatever it is encoded in, these words are ASCII
        if isinstance(text, str):
            refuse_ends(text)
            if _FORGETS.search(text):
                doubt_names(self.connection)
        return super().execute(query, *args, **options)  # type: ignore[misc]


@cache
def guarded(factory: Any) -> Any:
    """The merchant's own kind of cursor, guarded."""
    return type(f"Guarded{factory.__name__}", (_Guard, factory), {})
