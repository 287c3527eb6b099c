"""What `once` says to PostgreSQL through psycopg, and under which names.

All four statements are prepared once a connection, by name, because planning them anew costs more than running them.
Names are lost: psycopg says DEALLOCATE ALL after a rollback (of a savepoint too), DROP and ALTER; a proxy that gives
every transaction another server (pgbouncer) never knew them. At the beginning of a transaction that is told by the
server's answer and mended; inside one an unknown name would undo the work, so that none is said where it is in doubt.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import psycopg

from merchant_sdk.errors import FAILED, GONE, Misuse, StoreBusy, TransactionEnded, TransactionMisuse
from merchant_sdk.store import Record
from merchant_sdk.stores.failures import Translation
from merchant_sdk.stores.records import FIELDS, STATEMENTS

_SQL = STATEMENTS["postgresql"]
# A server without an encoding takes what it gets, and psycopg's own texts go there like this.
_AS_UTF8: Final = frozenset({b"UTF8", b"SQL_ASCII"})
_WORDS: Final = {word: word.encode() for word in ("call", "request", "succeeded", "refused")}
TYPES: Final = (25, 25, 25, 25, 25, 701)  # text and, for `at`, float8
BINARY: Final = (1,) * len(FIELDS)
_DOUBLE: Final = struct.Struct("!d").pack
# On a psycopg connection: how many transactions its names have served, and that they may be gone in the present one.
_MARK: Final = "oncegate_prepared"
_DOUBT: Final = "oncegate_doubt"
_LASTING: Final = 2
"""Transactions that a name serves before it is known to last."""
BEGIN_TRIES: Final = 3
"""With names that are known, with names that are prepared anew, and without any."""
_GONE: Final = "oncegate: the claim is gone"
# What a server says of a name that it was not asked to prepare, or that another client of a proxy has prepared.
_NOT_THIS_SERVER: Final = frozenset({"26000", "42P05"})


class Statement(NamedTuple):
    """One statement, with the `values` of a Record's fields or (). With None it is to be prepared under its `name`."""

    sql: bytes
    name: bytes = b""
    values: tuple[bytes, ...] | None = ()


def _numbered(sql: str) -> bytes:
    return re.sub(r"(?<![:\w]):(\w+)", lambda found: f"${FIELDS.index(found[1]) + 1}", sql).encode()


CLAIM: Final = Statement(_numbered(_SQL.claim), b"oncegate_claim_v1", None)
# Fails where it writes no row, so that the COMMIT behind it is not run.
_PUT_OR_FAIL: Final = (
    f"WITH put AS ({_SQL.put} RETURNING 1) "  # noqa: S608 (our own text)
    f"SELECT (CASE WHEN EXISTS (SELECT FROM put) THEN '1' ELSE '{_GONE}' END)::integer"
)
PUT: Final = Statement(_numbered(_PUT_OR_FAIL), b"oncegate_put_v3", None)
_BEGIN: Final = Statement(b"BEGIN", b"oncegate_begin_v1")
COMMIT: Final = Statement(b"COMMIT", b"oncegate_commit_v1")
ROLLBACK: Final = Statement(b"ROLLBACK")
_PREPARED: Final = (CLAIM, PUT, _BEGIN._replace(values=None), COMMIT._replace(values=None))


class Names:
    """What one store knows of its server's names. Who begins with what this gives, sync or async, hands its error to
    `names_are_gone`, and tries anew if they are."""

    def __init__(self) -> None:
        self._named = True

    def prepare(self, connection: Any) -> Sequence[Statement]:
        """What has to be sent first on this connection, outside any transaction; empty: nothing."""
        # A threshold of None is how psycopg is told that there is a proxy.
        if not self._named or _MARK in connection.__dict__ or connection.prepare_threshold is None:
            return ()
        return _PREPARED

    def prepared(self, connection: Any) -> None:
        """It was sent."""
        connection.__dict__[_MARK] = 0

    def begun(self, connection: Any) -> None:
        """A claim was sent and answered."""
        if _MARK in connection.__dict__:
            connection.__dict__[_MARK] += 1

    def knows(self, connection: Any) -> bool:
        """Whether statements are said by their names now."""
        known = connection.__dict__
        return self._named and _MARK in known and _DOUBT not in known

    def names_are_gone(self, connection: Any, error: psycopg.Error) -> bool:
        """Whether the error says so. Names that never lasted to a second transaction tell of a proxy: then nothing is
        prepared any more."""
        if error.sqlstate not in _NOT_THIS_SERVER:
            return False
        if connection.__dict__.pop(_MARK, 0) < _LASTING:
            self._named = False
        return True

    def lost_inside(self) -> StoreBusy:
        """What to raise for a name that is unknown inside a transaction: a function of the merchant's dropped it, as
        nobody saw. From now on none is used, or the same work would fail again."""
        self._named = False
        return StoreBusy("the work dropped every prepared statement of its connection; nothing was stored")


def of(record: Record, statement: Statement, connection: Any) -> Statement:
    """The statement for this record, in the encoding of this psycopg connection, sync or async."""
    kind, key, fingerprint, outcome, reply, at = record
    utf8 = connection.pgconn.parameter_status(b"client_encoding") in _AS_UTF8
    encoding = "utf-8" if utf8 else connection.info.encoding
    try:
        texts = [text.encode(encoding) for text in (key, fingerprint, reply)]
    except UnicodeEncodeError as error:
        raise _unspeakable(error, connection) from None  # it holds the reply
    values = (_WORDS[kind], *texts[:2], _WORDS[outcome], texts[2], _DOUBLE(at))
    return Statement(statement.sql, statement.name, values)


def is_of(held: Record | None, wanted: Record) -> bool:
    """Whether both have one key."""
    return held is not None and held[:2] == wanted[:2]


def _unspeakable(error: UnicodeEncodeError, connection: Any) -> Misuse:
    character = ord(error.object[error.start])
    return Misuse(
        f"the key or reply holds U+{character:04X}, which the connection's encoding "
        f"{connection.pgconn.parameter_status(b'client_encoding').decode()} cannot say; nothing is stored. "
        "Connect with client_encoding=utf8, to a database in UTF8"
    )


def doubt_names(connection: Any) -> None:
    """What was sent in this transaction may have dropped every prepared statement of the connection."""
    connection.__dict__[_DOUBT] = True
    if _MARK in connection.__dict__:
        connection.__dict__[_MARK] = _LASTING  # who lost them is known, and is no proxy


def is_in_doubt(connection: Any) -> bool:
    """Whether a statement of this transaction may have undone what came with BEGIN, and begun another."""
    return _DOUBT in connection.__dict__


def committed(connection: Any, results: Sequence[Any]) -> None:
    """After a message that ends with COMMIT. Raises TransactionMisuse where the server undid the work instead, which it
    does without an error in a transaction that failed before."""
    # Not at the beginning of the next: after a rollback psycopg may still have its DEALLOCATE to send.
    connection.__dict__.pop(_DOUBT, None)
    if results[-1].command_status != b"COMMIT":
        raise TransactionMisuse(FAILED)


def begin(connection: Any, isolation: str | None = None) -> Statement:
    """BEGIN as psycopg would say it, from what was set on its connection; `isolation` goes before that."""
    if isolation is None and connection.isolation_level is not None:
        isolation = connection.isolation_level.name.replace("_", " ")
    if isolation is None and connection.read_only is None and connection.deferrable is None:
        return _BEGIN
    parts = ["BEGIN"]
    if isolation is not None:
        parts.append(f"ISOLATION LEVEL {isolation.upper()}")
    if connection.read_only is not None:
        parts.append("READ ONLY" if connection.read_only else "READ WRITE")
    if connection.deferrable is not None:
        parts.append("DEFERRABLE" if connection.deferrable else "NOT DEFERRABLE")
    return Statement(" ".join(parts).encode())


def limited(wait_s: float) -> Statement:
    """What follows BEGIN where claims shall wait so long for others."""
    return Statement(f"SET LOCAL lock_timeout = {max(1, int(wait_s * 1000))}".encode())


def _told_of_put(error: Exception) -> TransactionEnded | None:
    if not isinstance(error, psycopg.DataError) or _GONE not in str(error):
        return None
    return TransactionEnded(GONE)


putting = Translation(_told_of_put)
"""Around a message with PUT: a claim that is gone is TransactionEnded, and the COMMIT behind it was not run."""
