"""Statements that end or begin a transaction, as text: inside the work it belongs to `once`.

Databases obey them, and what the work wrote afterwards could be kept without its claim: a second order.
A mistake is caught, not malice: what stands behind another statement in one text is found out at the end only.
"""

from __future__ import annotations

import re

from merchant_sdk.errors import OURS, TransactionMisuse

_ENDS = re.compile(
    r"(?:[\s;]|--[^\n]*|#[^\n]*|/\*.*?\*/)*+"  # comments of a tracer, say
    r"(?:COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION"
    r"|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b))\b",
    re.I | re.S,
)

WRITES = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*+(?:INSERT|UPDATE|DELETE|REPLACE|MERGE|CALL|TRUNCATE|WITH\b.*\b(?:INSERT|UPDATE|DELETE))\b",
    re.I | re.S,
)
"""A statement that writes, as far as its first words tell."""


def ends_transaction(text: str) -> bool:
    """Whether the statement ends the transaction or begins one."""
    return _ENDS.match(text) is not None


def refuse_ends(text: str) -> None:
    """Raises TransactionMisuse for one that does."""
    if ends_transaction(text):
        raise TransactionMisuse(OURS)
