"""Statements on a psycopg connection, several in one message.

A message is a pipeline of statements up to one Sync: the first that fails ends it, COMMIT included. What psycopg
documents of `psycopg.pq` is used, not its cursors, which do more for each statement than these need.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Generator, Sequence
from typing import Any, Final, Literal

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from merchant_sdk.errors import TransactionMisuse
from merchant_sdk.stores.postgres_statements import BINARY, TYPES, Statement

Wanted = Literal["read", "write"]
Exchange = Generator[Wanted, None, "list[pq.abc.PGresult]"]

PIPELINES: Final = pq.version() >= 140000
"""Of the client's library. Without them each statement is a round trip."""

# As plain numbers: an enum's member costs as much as a call, and one exchange asks for a dozen.
IDLE: Final = int(pq.TransactionStatus.IDLE)
INTRANS: Final = int(pq.TransactionStatus.INTRANS)
INERROR: Final = int(pq.TransactionStatus.INERROR)
UNKNOWN: Final = int(pq.TransactionStatus.UNKNOWN)
_FAILED: Final = (int(pq.ExecStatus.FATAL_ERROR), int(pq.ExecStatus.BAD_RESPONSE))
# Results of their own, before that of their statement, where the merchant's last statement was a `stream`: the library
# keeps its mode for the first of our message.
_ROWS: Final = (int(pq.ExecStatus.SINGLE_TUPLE), int(pq.ExecStatus.TUPLES_CHUNK))
_SYNC: Final = int(pq.ExecStatus.PIPELINE_SYNC)
_NO_PIPELINE: Final = int(pq.PipelineStatus.OFF)


def exchange(connection: Any, statements: Sequence[Statement], named: bool) -> Exchange:
    """Send one message and collect its results, yielding what has to be waited for. Raises psycopg.Error for the
    first statement that failed; none after it was run. TransactionMisuse inside a pipeline of the merchant's."""
    if not PIPELINES:
        return (yield from _one_by_one(connection, statements, named))
    pgconn = connection.pgconn
    if pgconn.pipeline_status != _NO_PIPELINE:
        raise TransactionMisuse("a psycopg pipeline is open on the connection: leave its block first")
    pgconn.enter_pipeline_mode()
    for statement in statements:
        _send(pgconn, statement, named)
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
        elif result.status == _SYNC:
            pgconn.exit_pipeline_mode()
            break
        elif result.status not in _ROWS:
            results.append(result)
    return _successes(connection, results, len(statements))


def _one_by_one(connection: Any, statements: Sequence[Statement], named: bool) -> Exchange:
    pgconn = connection.pgconn
    results: list[pq.abc.PGresult] = []
    for statement in statements:
        _send(pgconn, statement, named)
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


def _send(pgconn: Any, statement: Statement, named: bool) -> None:
    sql, name, values = statement
    if values is None:
        pgconn.send_prepare(name, sql, TYPES if b"$" in sql else None)
    elif named and name:
        pgconn.send_query_prepared(name, values, BINARY if values else None)
    elif not values:
        pgconn.send_query_params(sql, None)
    else:
        pgconn.send_query_params(sql, values, TYPES, BINARY)


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


def say(connection: Any, *statements: Statement, named: bool = False) -> list[pq.abc.PGresult]:
    """`exchange` on a sync connection, blocking. An interrupt leaves the connection busy: it must be closed."""
    talk = exchange(connection, statements, named)
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


async def say_async(connection: Any, *statements: Statement, named: bool = False) -> list[pq.abc.PGresult]:
    """`exchange` on an async one."""
    loop = asyncio.get_running_loop()
    talk = exchange(connection, statements, named)
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
