"""The two statements of `once` on a psycopg connection, each in one message with BEGIN or COMMIT.

A message is one text of several statements: the first that fails ends it, COMMIT included. libpq quotes the values
for the connection they are sent on. The statements are prepared once a connection, by name in SQL, because planning
them anew costs more than running them; a proxy that gives every transaction another server (pgbouncer) does not know
such names, and is told from a server by its answer. What psycopg documents of `psycopg.pq` is used, not its cursors,
which do more for each statement than these need.
"""

from __future__ import annotations

import asyncio
import re
import select
from collections.abc import Generator, Sequence
from typing import Any, Final, Literal

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from merchant_sdk.errors import TransactionMisuse
from merchant_sdk.store import Record
from merchant_sdk.stores.records import FIELDS, STATEMENTS

Wanted = Literal["read", "write"]
Exchange = Generator[Wanted, None, "list[pq.abc.PGresult]"]

_SQL = STATEMENTS["postgresql"]
_FAILED: Final = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
_WORDS: Final = {word: f"'{word}'".encode() for word in ("call", "request", "succeeded", "refused")}
_MARK: Final = "oncegate_prepared"
# What a server says of a name that it was not asked to prepare, or that another client of a proxy has prepared.
_NOT_THIS_SERVER: Final = frozenset({"26000", "42P05"})


def _with(sql: str, place: str) -> bytes:
    """The statement with `place` for each parameter, {} in it being the number of its field."""
    return re.sub(r"(?<![:\w]):(\w+)", lambda found: place.format(FIELDS.index(found[1]) + 1), sql).encode()


class Statement:
    """One statement of a Record's fields, said by name or as a whole."""

    def __init__(self, name: str, sql: str) -> None:
        self.prepare = f"PREPARE {name} (text, text, text, text, text, float8) AS ".encode() + _with(sql, "${}")
        self._execute = f"EXECUTE {name} (".encode()
        self._parts = [part.encode() for part in re.split(r"(?<![:\w]):(\w+)", sql)]

    def text(self, connection: Any, record: Record, *, prepared: bool) -> bytes:
        """Ready to be sent on this connection, psycopg's sync or async one."""
        encoding = connection.info.encoding
        quote = pq.Escaping(connection.pgconn).escape_literal
        key, fingerprint, reply = (
            bytes(quote(text.encode(encoding))) for text in (record.key, record.fingerprint, record.reply)
        )
        values = (_WORDS[record.kind], key, fingerprint, _WORDS[record.outcome], reply, repr(record.at).encode())
        if prepared:
            return self._execute + b", ".join(values) + b")"
        named = {field.encode(): value for field, value in zip(FIELDS, values, strict=True)}
        return b"".join(named.get(part, part) for part in self._parts)


CLAIM: Final = Statement("oncegate_claim_v1", _SQL.claim)
PUT: Final = Statement("oncegate_put_v1", _SQL.put)
_PREPARE: Final = CLAIM.prepare + b"; " + PUT.prepare


class Wire:
    """What one store knows of its server. `claim`, `put` and `prepare` give a message; who sends it, sync or async,
    hands its error to `give_up_names`."""

    def __init__(self) -> None:
        self._named = True

    def prepare(self, connection: Any) -> bytes:
        """What has to be sent first on this connection, outside any transaction; empty: nothing."""
        # A threshold of None is how psycopg is told that there is a proxy.
        if not self._named or _MARK in connection.__dict__ or connection.prepare_threshold is None:
            return b""
        return _PREPARE

    def prepared(self, connection: Any) -> None:
        """It was sent."""
        connection.__dict__[_MARK] = True

    def text(self, statement: Statement, connection: Any, record: Record) -> bytes:
        """The statement for this record, as this connection knows it."""
        return statement.text(connection, record, prepared=self._named and _MARK in connection.__dict__)

    def give_up_names(self, error: psycopg.Error) -> bool:
        """Whether the error says that there is a proxy; then nothing is prepared any more."""
        if error.sqlstate not in _NOT_THIS_SERVER or not self._named:
            return False
        self._named = False
        return True


def begin_text(connection: Any) -> bytes:
    """BEGIN as psycopg would say it, from what was set on its connection."""
    parts = ["BEGIN"]
    if connection.isolation_level is not None:
        parts.append(f"ISOLATION LEVEL {connection.isolation_level.name.replace('_', ' ')}")
    if connection.read_only is not None:
        parts.append("READ ONLY" if connection.read_only else "READ WRITE")
    if connection.deferrable is not None:
        parts.append("DEFERRABLE" if connection.deferrable else "NOT DEFERRABLE")
    return " ".join(parts).encode()


def exchange(connection: Any, text: bytes) -> Exchange:
    """Send one message and collect its results, yielding what has to be waited for. Raises psycopg.Error for the
    first statement that failed."""
    pgconn = connection.pgconn
    pgconn.send_query(text)
    while pgconn.flush():
        yield "write"
        pgconn.consume_input()  # a server that talks back is not listening
    results = []
    while True:
        while pgconn.is_busy():
            yield "read"
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            break
        results.append(result)
    for result in results:
        if result.status in _FAILED:
            raise error_from_result(result, connection.info.encoding)
    return results


def say(connection: Any, text: bytes) -> list[pq.abc.PGresult]:
    """`exchange` on a sync connection, blocking. An interrupt leaves the connection busy: it must be closed."""
    talk = exchange(connection, text)
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


async def say_async(connection: Any, text: bytes) -> list[pq.abc.PGresult]:
    """`exchange` on an async one."""
    loop = asyncio.get_running_loop()
    talk = exchange(connection, text)
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


def check_put(results: Sequence[pq.abc.PGresult]) -> None:
    """Each of the results wrote its row. Raises TransactionMisuse."""
    if any(result.command_tuples != 1 for result in results):
        raise TransactionMisuse("the claim was gone at the end of the work: it committed or rolled back by SQL")
