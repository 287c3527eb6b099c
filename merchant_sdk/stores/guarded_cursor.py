"""Cursors that send no statement which ends or begins the transaction: it belongs to `once`.

PostgreSQL itself would obey, and what the work wrote afterwards would be kept without its claim: a second order. Our
own statements go another way (`postgres_wire`).
A mistake is caught, not malice: text behind a comment, or inside a procedure, is found out at the end only.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from merchant_sdk.errors import OURS, TransactionMisuse

_ENDS = re.compile(
    rb"\s*(?:COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION"
    rb"|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b))\b",
    re.I,
)


class _Guard:
    def execute(self, query: Any, *args: Any, **options: Any) -> Any:
        text = query.encode() if isinstance(query, str) else query
        if isinstance(text, bytes) and _ENDS.match(text):
            raise TransactionMisuse(OURS)
        return super().execute(query, *args, **options)  # type: ignore[misc]


@cache
def guarded(factory: Any) -> Any:
    """The merchant's own kind of cursor, guarded."""
    return type(f"Guarded{factory.__name__}", (_Guard, factory), {})
