"""The table `oncegate_once` in SQL, for every database that is reached by text and parameters.

A claim is an INSERT that gives way to the row that is there. The unique key makes the database itself do the
waiting: an uncommitted row of a twin holds the INSERT until the twin commits (then its row is read) or rolls
back (then this INSERT takes its place). There is no moment between looking and taking.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from merchant_sdk.errors import GONE, TransactionEnded
from merchant_sdk.store import UNFINISHED, Contention, Kind, Record
from merchant_sdk.stores.failures import claiming

FIELDS: Final = Record._fields
"""The columns of the table."""
Vendor = Literal["postgresql", "sqlite", "mysql"]
Parameters = Mapping[str, Any]
Execute = Callable[[str, Parameters], tuple[int, Sequence[Sequence[Any]]]]
"""Run one statement with named `:parameters`: how many rows it wrote, and the rows it returned."""

_FIND_TRIES = 10
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")

_PUT = (
    "UPDATE oncegate_once SET fingerprint = :fingerprint, outcome = :outcome, reply = :reply, at = :at "
    "WHERE kind = :kind AND key = :key"
)
_PRUNE = "DELETE FROM oncegate_once WHERE at < :before AND key <> ''"
# HORIZON, which only ever rises.
_PRUNED = (
    "INSERT INTO oncegate_once (kind, key, fingerprint, outcome, reply, at) "
    "VALUES ('call', '', '', 'refused', '', :before) "
)
_RISES = (
    "ON CONFLICT (kind, key) DO UPDATE "
    "SET at = CASE WHEN oncegate_once.at < excluded.at THEN excluded.at ELSE oncegate_once.at END"
)
_FORGET = "DELETE FROM oncegate_once WHERE kind = :kind AND key = :key"


@dataclass(frozen=True, slots=True)
class Statements:
    """One database's words. Parameters are the fields of a Record."""

    claim: str
    find: str
    put: str = _PUT
    forget: str = _FORGET
    prune: str = _PRUNE
    pruned: str = _PRUNED + _RISES
    read_only: tuple[str, ...] = ()


_INSERT = (
    "INSERT INTO oncegate_once (kind, key, fingerprint, outcome, reply, at) "
    "VALUES (:kind, :key, :fingerprint, :outcome, :reply, :at)"
)
_SELECT = "SELECT kind, key, fingerprint, outcome, reply, at FROM oncegate_once WHERE kind = :kind AND key = :key"
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"


def _quoted(sql: str) -> str:
    return re.sub(r"(?<!:)\bkey\b", "`key`", sql)


STATEMENTS: dict[Vendor, Statements] = {
    "postgresql": Statements(
        claim=f"{_INSERT} ON CONFLICT (kind, key) DO NOTHING",
        # Locked, because an old purchase's row may be taken over: two that find it must not both do so.
        find=f"{_SELECT} FOR UPDATE",
        read_only=(f"{_SNAPSHOT}, READ ONLY",),
    ),
    "sqlite": Statements(claim=f"{_INSERT} ON CONFLICT (kind, key) DO NOTHING", find=_SELECT),
    "mysql": Statements(
        # INSERT IGNORE would leave every loser with a shared lock, and a deadlock when two of them want more.
        # Turning the sign takes the exclusive lock at once and tells the found row (2 affected) from the new
        # one (1) under every client flag. It never lasts: who finds a row rolls back, or puts its own over it.
        claim=_quoted(f"{_INSERT} ON DUPLICATE KEY UPDATE at = -at"),
        find=_quoted(_SELECT).replace(", at FROM", ", ABS(at) FROM"),
        put=_quoted(_PUT),
        forget=_quoted(_FORGET),
        prune=_quoted(_PRUNE),
        pruned=_quoted(
            _PRUNED.partition(" ON CONFLICT")[0] + " ON DUPLICATE KEY UPDATE at = GREATEST(ABS(at), :before)"
        ),
        # Works for the next transaction only, so it goes before the first read.
        read_only=(_SNAPSHOT, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"),
    ),
}


_MARKS: Final[Mapping[str, str]] = {
    "named": r":\1",
    "pyformat": r"%(\1)s",
    "format": "%s",
    "qmark": "?",
    "numeric": ":{}",
    "numeric_dollar": "${}",
}


@cache
def in_style(sql: str, style: str) -> tuple[str, tuple[str, ...] | None]:
    """The same statement in a DB-API `paramstyle`, and the names of its parameters in order; None where they go by
    name. Raises ValueError for a style that PEP 249 does not know."""
    if style not in _MARKS:
        raise ValueError(f"there is no paramstyle {style}")
    names = tuple(_PARAMETER.findall(sql))
    if style in ("named", "pyformat"):
        return _PARAMETER.sub(_MARKS[style], sql), None
    order = itertools.count(1)
    return _PARAMETER.sub(lambda _: _MARKS[style].format(next(order)), sql), names


@cache
def pyformat(sql: str) -> str:
    """The same statement with `%(name)s` for `:name`, as DB-API drivers write it."""
    return in_style(sql, "pyformat")[0]


class Records:
    """Claims and records over one open transaction."""

    def __init__(self, vendor: Vendor, execute: Execute) -> None:
        self._statements = STATEMENTS[vendor]
        self._execute = execute

    def claim(self, wanted: Record) -> Record | None:
        """See `store.Transaction.claim`."""
        with claiming:
            for _ in range(_FIND_TRIES):
                written, _rows = self._execute(self._statements.claim, wanted._asdict() | {"reply": UNFINISHED})
                if written == 1:
                    return None
                found = self.find(wanted.kind, wanted.key)
                if found is not None:
                    return found
        raise Contention("the record of this key comes and goes")

    def find(self, kind: Kind, key: str) -> Record | None:
        """The row of this key, which nobody else can change before our end."""
        _written, rows = self._execute(self._statements.find, {"kind": kind, "key": key})
        return record_of(rows[0]) if rows else None

    def put(self, records: Sequence[Record]) -> None:
        """See `store.Transaction.put`."""
        for record in records:
            written, _rows = self._execute(self._statements.put, record._asdict())
            if written != 1:
                # InnoDB ends a transaction at a deadlock, and what follows would run in a new one.
                raise TransactionEnded(GONE)

    def forget(self, kind: Kind, key: str) -> None:
        """See `store.Transaction.forget`."""
        self._execute(self._statements.forget, {"kind": kind, "key": key})

    def prune(self, before: float) -> int:
        """See `store.Store.prune`. Both statements belong into one transaction."""
        dropped, _rows = self._execute(self._statements.prune, {"before": before})
        if dropped:
            self._execute(self._statements.pruned, {"before": before})
        return dropped


def record_of(row: Sequence[Any]) -> Record:
    """A row as a Record, whatever the driver makes of text."""
    texts: list[Any] = [value.decode() if isinstance(value, bytes | bytearray) else value for value in row]
    kind, key, fingerprint, outcome, reply, at = texts
    return Record(kind, key, fingerprint, outcome, reply, float(at))
