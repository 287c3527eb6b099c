"""The two statements of `once` on a psycopg connection, each in one message with BEGIN or COMMIT.

A message is a pipeline of statements up to one Sync: the first that fails ends it, COMMIT included. All four are
prepared once a connection, by name, because planning them anew costs more than running them. Names are lost: psycopg
says DEALLOCATE ALL after a rollback (of a savepoint too), DROP and ALTER; a proxy that gives every transaction
another server (pgbouncer) never knew them. At the beginning of a transaction that is told by the server's answer and
mended; inside one an unknown name would undo the work, so that none is said where it is in doubt.
What psycopg documents of `psycopg.pq` is used, not its cursors, which do more for each statement than these need.
"""

from __future__ import annotations

import asyncio
import re
import select
import struct
from collections.abc import Generator, Sequence
from typing import Any, Final, Literal, NamedTuple

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from merchant_sdk.errors import TransactionMisuse
from merchant_sdk.store import Record
from merchant_sdk.stores.failures import Translation
from merchant_sdk.stores.records import FIELDS, STATEMENTS

Wanted = Literal["read", "write"]
Exchange = Generator[Wanted, None, "list[pq.abc.PGresult]"]

PIPELINES: Final = pq.version() >= 140000
"""Of the client's library. Without them each statement is a round trip."""

_SQL = STATEMENTS["postgresql"]
_FAILED: Final = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
# Results of their own, before that of their statement, where the merchant's last statement was a `stream`: the library
# keeps its mode for the first of our message.
_ROWS: Final = (pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.TUPLES_CHUNK)
# A server without an encoding takes what it gets, and psycopg's own texts go there like this.
_AS_UTF8: Final = frozenset({b"UTF8", b"SQL_ASCII"})
_WORDS: Final = {word: word.encode() for word in ("call", "request", "succeeded", "refused")}
_TYPES: Final = (25, 25, 25, 25, 25, 701)  # text and, for `at`, float8
_BINARY: Final = (1,) * len(FIELDS)
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
    """One statement, with the `values` of a Record's fields or (). With None it is to be prepared under its `name`;
    else a `name` says that it is."""

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


class Wire:
    """What one store knows of its server. Who begins with what this gives, sync or async, hands its error to
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

    def of(self, record: Record, statement: Statement, connection: Any) -> Statement:
        """The statement for this record, as this connection, psycopg's sync or async one, knows it."""
        utf8 = connection.pgconn.parameter_status(b"client_encoding") in _AS_UTF8
        encoding = "utf-8" if utf8 else connection.info.encoding
        values = (
            _WORDS[record.kind],
            record.key.encode(encoding),
            record.fingerprint.encode(encoding),
            _WORDS[record.outcome],
            record.reply.encode(encoding),
            _DOUBLE(record.at),
        )
        return Statement(statement.sql, statement.name if self._knows(connection) else b"", values)

    def plain(self, statement: Statement, connection: Any) -> Statement:
        """The same for BEGIN and COMMIT, which have no values."""
        return statement if self._knows(connection) else statement._replace(name=b"")

    def _knows(self, connection: Any) -> bool:
        return self._named and _MARK in connection.__dict__ and _DOUBT not in connection.__dict__

    def names_are_gone(self, connection: Any, error: psycopg.Error) -> bool:
        """Whether the error says so. Names that never lasted to a second transaction tell of a proxy: then nothing is
        prepared any more."""
        if error.sqlstate not in _NOT_THIS_SERVER:
            return False
        if connection.__dict__.pop(_MARK, 0) < _LASTING:
            self._named = False
        return True


def doubt_names(connection: Any) -> None:
    """What was sent in this transaction may have dropped every prepared statement of the connection."""
    connection.__dict__[_DOUBT] = True
    if _MARK in connection.__dict__:
        connection.__dict__[_MARK] = _LASTING  # who lost them is known, and is no proxy


def is_in_doubt(connection: Any) -> bool:
    """Whether a statement of this transaction may have undone what came with BEGIN, and begun another."""
    return _DOUBT in connection.__dict__


def committed(connection: Any, results: Sequence[pq.abc.PGresult]) -> None:
    """After a message that ends with COMMIT. Raises TransactionMisuse where the server undid the work instead, which it
    does without an error in a transaction that failed before."""
    # Not at the beginning of the next: after a rollback psycopg may still have its DEALLOCATE to send.
    connection.__dict__.pop(_DOUBT, None)
    if results[-1].command_status != b"COMMIT":
        raise TransactionMisuse("the transaction had failed before the commit; nothing is stored")


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


def exchange(connection: Any, statements: Sequence[Statement]) -> Exchange:
    """Send one message and collect its results, yielding what has to be waited for. Raises psycopg.Error for the
    first statement that failed; none after it was run. TransactionMisuse inside a pipeline of the merchant's."""
    if not PIPELINES:
        return (yield from _one_by_one(connection, statements))
    pgconn = connection.pgconn
    if pgconn.pipeline_status != pq.PipelineStatus.OFF:
        raise TransactionMisuse("a psycopg pipeline is open on the connection: leave its block first")
    pgconn.enter_pipeline_mode()
    for statement in statements:
        _send(pgconn, statement)
    pgconn.pipeline_sync()
    results: list[pq.abc.PGresult] = []
    yield from _flushed(pgconn)
    while True:
        while pgconn.is_busy():
            yield "read"
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:  # between the results of two statements
            if pgconn.status == pq.ConnStatus.BAD:
                break
        elif result.status == pq.ExecStatus.PIPELINE_SYNC:
            pgconn.exit_pipeline_mode()
            break
        elif result.status not in _ROWS:
            results.append(result)
    return _successes(connection, results, len(statements))


def _one_by_one(connection: Any, statements: Sequence[Statement]) -> Exchange:
    pgconn = connection.pgconn
    results: list[pq.abc.PGresult] = []
    for statement in statements:
        _send(pgconn, statement)
        yield from _flushed(pgconn)
        while True:
            while pgconn.is_busy():
                yield "read"
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                break
            if result.status not in _ROWS:
                results.append(result)
        _successes(connection, results, len(results))
    return results


def _send(pgconn: Any, statement: Statement) -> None:
    sql, name, values = statement
    if values is None:
        pgconn.send_prepare(name, sql, _TYPES if b"$" in sql else None)
    elif name:
        pgconn.send_query_prepared(name, values, _BINARY if values else None)
    elif not values:
        pgconn.send_query_params(sql, None)
    else:
        pgconn.send_query_params(sql, values, _TYPES, _BINARY)


def _flushed(pgconn: Any) -> Generator[Wanted, None, None]:
    while pgconn.flush():
        yield "write"
        pgconn.consume_input()  # a server that talks back is not listening


def _successes(connection: Any, results: list[pq.abc.PGresult], expected: int) -> list[pq.abc.PGresult]:
    for result in results:
        if result.status in _FAILED:
            raise error_from_result(result, connection.info.encoding)
    if len(results) != expected:
        raise psycopg.OperationalError("the server closed the connection inside an answer")
    return results


def say(connection: Any, *statements: Statement) -> list[pq.abc.PGresult]:
    """`exchange` on a sync connection, blocking. An interrupt leaves the connection busy: it must be closed."""
    talk = exchange(connection, statements)
    try:
        wanted = next(talk)
        while True:
            _wait(connection.pgconn.socket, wanted)
            wanted = talk.send(None)
    except StopIteration as done:
        results: list[pq.abc.PGresult] = done.value
        return results


if hasattr(select, "poll"):

    def _wait(socket: int, wanted: Wanted) -> None:
        # Not `selectors`, which costs as much as the exchange.
        poll = select.poll()
        poll.register(socket, select.POLLIN | select.POLLOUT if wanted == "write" else select.POLLIN)
        poll.poll()

else:  # Windows

    def _wait(socket: int, wanted: Wanted) -> None:
        select.select([socket], [socket] if wanted == "write" else [], [])


async def say_async(connection: Any, *statements: Statement) -> list[pq.abc.PGresult]:
    """`exchange` on an async one."""
    loop = asyncio.get_running_loop()
    talk = exchange(connection, statements)
    try:
        wanted = next(talk)
        while True:
            await _ready(loop, connection.pgconn.socket, wanted)
            wanted = talk.send(None)
    except StopIteration as done:
        results: list[pq.abc.PGresult] = done.value
        return results


async def _ready(loop: asyncio.AbstractEventLoop, socket: int, wanted: Wanted) -> None:
    ready = asyncio.Event()
    loop.add_reader(socket, ready.set)
    if wanted == "write":
        loop.add_writer(socket, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(socket)
        if wanted == "write":
            loop.remove_writer(socket)


def _told_of_put(error: Exception) -> TransactionMisuse | None:
    if not isinstance(error, psycopg.DataError) or _GONE not in str(error):
        return None
    return TransactionMisuse(
        "the claim was gone at the end of the work, which committed or rolled back by SQL; nothing is stored"
    )


putting = Translation(_told_of_put)
"""Around a message with PUT: a claim that is gone is TransactionMisuse, and nothing was committed."""
