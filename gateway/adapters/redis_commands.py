"""One asyncio front for every Redis command of the hot path.

Commands asked for in the same turn of the event loop leave in one write and are answered from one
read, over a few connections. That is worth a factor of three over a pooled client, and it decides
what a failure means, so the rules below are promises to the ledger:

* An error is always an exception. No failure is ever answered with ``None``, which the ledger would
  read as "no such record" and pay for with a second order.
* Nothing is sent twice. The library's own retries are off; a connection that is found closed before
  a byte was written is replaced, and that is all.
* ``LedgerUnreachable.may_have_run`` says whether the bytes may have reached Redis.

The driver is redis-py's ``Connection`` object (connect, TLS, AUTH, parsing) with hiredis packing; no
protocol code lives here.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

import hiredis
from redis import exceptions as rx
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

Argument = str | bytes | int | float


class LedgerUnreachable(Exception):
    """Redis did not do, or did not say that it did, what was asked. The cause is kept.

    ``may_have_run`` is False when the command was refused or never written, True when its bytes left
    and no reply came back: it may have run, or may still run later.
    """

    def __init__(self, message: str, *, may_have_run: bool) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class ScriptMissing(Exception):
    """NOSCRIPT: the server does not know this script's hash (it restarted, or was flushed)."""


# Replies that mean "this server cannot serve the ledger now". redis-py has classes for some ...
_REFUSALS: Final = (
    rx.AskError,
    rx.AuthenticationError,
    rx.AuthenticationWrongNumberOfArgsError,
    rx.BusyLoadingError,
    rx.ClusterDownError,  # and MASTERDOWN
    rx.ExternalAuthProviderError,
    rx.NoPermissionError,
    rx.OutOfMemoryError,
    rx.ReadOnlyError,
    rx.TryAgainError,
)
# ... and only the code word of others.
_REFUSAL_CODES: Final = frozenset(
    ("BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN")
)
# After one of these the address may lead to another server by now: connect anew.
_MOVED_ON: Final = (rx.ReadOnlyError, rx.ClusterDownError, rx.BusyLoadingError)
# Before Redis 7 an error raised inside a script hides behind ERR: "... @user_script:12: -OOM command ...".
_INSIDE_SCRIPT: Final = re.compile(r"@user_script: ?\d+: -?([A-Z]+) ")

_MOST_AT_ONCE: Final = 256  # commands a write; bounds the memory that one batch can hold


class _Request:
    __slots__ = ("count", "future", "packed", "since")

    def __init__(self, packed: bytes, count: int, future: asyncio.Future[list[Any]], since: float) -> None:
        self.packed = packed
        self.count = count
        self.future = future
        self.since = since

    def fail(self, cause: BaseException | None, message: str, *, may_have_run: bool) -> None:
        if not self.future.done():
            error = LedgerUnreachable(message, may_have_run=may_have_run)
            error.__cause__ = cause
            self.future.set_exception(error)


class Commands:
    """Sends commands to one Redis over at most ``connections`` connections of its own.

    ``client`` says where and how to connect (see ``redis_urls.open_client``) and stays the caller's to
    close. Times are in seconds. A command is answered or failed within ``connect_timeout_s`` plus twice
    ``command_timeout_s`` (waiting for a connection, then for the reply).

    Commands share connections: nothing that changes a connection's state (MULTI, SELECT, SUBSCRIBE) or
    blocks it (BLPOP) belongs here. WAIT and WAITAOF go through ``do_together``.
    """

    def __init__(
        self,
        client: Redis,
        *,
        connections: int = 4,
        connect_timeout_s: float = 1.0,
        command_timeout_s: float = 2.0,
    ) -> None:
        self._links = [_link(client) for _ in range(connections)]
        self._idle = list(self._links)
        self._connect_timeout_s = connect_timeout_s
        self._command_timeout_s = command_timeout_s
        self._waiting: deque[_Request] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._flush_due = False
        self._closed = False

    async def do(self, *args: Argument) -> Any:
        """Send one command and return its reply, as bytes, integers, lists or None (a nil reply).

        Raises LedgerUnreachable, ScriptMissing, or redis' ResponseError where the command itself is
        wrong. Arguments that cannot be packed raise TypeError and reach no connection.
        """
        return (await self._submit(_pack(args), 1))[0]

    async def do_together(self, *commands: tuple[Argument, ...]) -> list[Any]:
        """Send several commands in this order over one connection and return their replies.

        They are not atomic. WAIT answers for what its own connection wrote before, hence this method.
        All replies are read; the first that is an error is raised.
        """
        return await self._submit(b"".join([_pack(command) for command in commands]), len(commands))

    async def close(self) -> None:
        """Refuse what waits, let what was sent finish (it is bounded), then hang up. May be repeated."""
        self._closed = True
        while self._waiting:
            self._waiting.popleft().fail(None, "the ledger connection was closed", may_have_run=False)
        if self._running:
            await asyncio.wait(set(self._running))
        for link in self._links:
            await _hang_up(link, nowait=False)

    def _submit(self, packed: bytes, count: int) -> asyncio.Future[list[Any]]:
        if self._closed:
            raise LedgerUnreachable("the ledger connection was closed", may_have_run=False)
        loop = asyncio.get_running_loop()
        request = _Request(packed, count, loop.create_future(), loop.time())
        self._waiting.append(request)
        if not self._flush_due and self._idle:
            self._flush_due = True
            loop.call_soon(self._flush)
        return request.future

    def _flush(self) -> None:
        self._flush_due = False
        while self._waiting and self._idle:
            batch = self._take()
            if batch:
                # A task of its own: its first step runs after the loop has looked at the sockets, so a
                # hang-up that arrived before the command was asked for is known before it is written.
                task = asyncio.get_running_loop().create_task(self._run(self._idle.pop(), batch))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def _take(self) -> list[_Request]:
        batch: list[_Request] = []
        overdue = asyncio.get_running_loop().time() - self._command_timeout_s
        while self._waiting and len(batch) < _MOST_AT_ONCE:
            request = self._waiting.popleft()
            if request.future.done():
                continue  # its caller gave up before anything was sent
            if request.since < overdue:
                request.fail(None, "no ledger connection was free in time", may_have_run=False)
            else:
                batch.append(request)
        return batch

    async def _run(self, link: AbstractConnection, batch: list[_Request]) -> None:
        written = moved_on = False
        answered = 0
        try:
            await self._make_ready(link)
            async with asyncio.timeout(self._command_timeout_s):
                written = True
                await link.send_packed_command([each.packed for each in batch], check_health=False)
                for request in batch:
                    replies = [await _read(link) for _ in range(request.count)]
                    answered += 1
                    moved_on = _settle(request, replies) or moved_on
            if moved_on:
                await _hang_up(link)
        except BaseException as error:
            # Whatever happened, replies may still be on their way: this connection can no longer tell
            # whose they are, and one that answers the wrong command is the worst ledger of all.
            for request in batch[answered:]:
                request.fail(error, _describe(error, written), may_have_run=written)
            await _hang_up(link)
            if not isinstance(error, rx.RedisError | OSError):  # TimeoutError is an OSError
                raise
        finally:
            self._idle.append(link)
            self._flush()

    async def _make_ready(self, link: AbstractConnection) -> None:
        if link.is_connected and await _is_stale(link):
            await _hang_up(link)
        if not link.is_connected:
            async with asyncio.timeout(self._connect_timeout_s):
                await link.connect()  # type: ignore[no-untyped-call]


# Its stub knows tuples of one only.
_pack: Final[Callable[[tuple[Argument, ...]], bytes]] = cast(Any, hiredis.pack_command)


def _link(client: Redis) -> AbstractConnection:
    link: AbstractConnection = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    link.retry = Retry(NoBackoff(), 0)
    link.socket_timeout = None  # one deadline a batch instead of one timer a reply
    return link


async def _is_stale(link: AbstractConnection) -> bool:
    """True if the server hung up, the connection broke, or it holds bytes that nobody asked for."""
    stream = getattr(link, "_reader", None)
    if isinstance(stream, asyncio.StreamReader) and stream.exception() is not None:
        return True  # a reset, unlike an end of stream, is not something that can_read() reports
    try:
        return bool(await link.can_read())
    except rx.RedisError:
        return True


async def _hang_up(link: AbstractConnection, *, nowait: bool = True) -> None:
    with suppress(rx.RedisError, OSError):  # it is gone either way
        await link.disconnect(nowait=nowait)


async def _read(link: AbstractConnection) -> Any:
    """One reply; an error *reply* comes back as the exception it is, a broken connection raises."""
    try:
        return await link.read_response(disconnect_on_error=False)
    except (rx.ResponseError, *_REFUSALS) as error:
        return error


def _settle(request: _Request, replies: list[Any]) -> bool:
    """Give the caller its replies, or the first error among them. True if that error says to reconnect."""
    error = _first_error(replies)
    if not request.future.done():  # otherwise its caller gave up; the command ran all the same
        if error is None:
            request.future.set_result(replies)
        else:
            request.future.set_exception(_translate(error))
    return isinstance(error, _MOVED_ON)


def _first_error(replies: list[Any]) -> Exception | None:
    """Also one inside a list, where it would be taken for a field of a record."""
    for reply in replies:
        if isinstance(reply, Exception):
            return reply
        if type(reply) is list and (error := _first_error(reply)) is not None:
            return error
    return None


def _translate(error: Exception) -> Exception:
    if isinstance(error, rx.NoScriptError):
        translated: Exception = ScriptMissing(str(error))
    elif _is_refusal(error):
        translated = LedgerUnreachable(_describe(error, False), may_have_run=False)
    else:
        return error
    translated.__cause__ = error
    return translated


def _is_refusal(error: Exception) -> bool:
    if isinstance(error, _REFUSALS):
        return True
    text = str(error)
    nested = _INSIDE_SCRIPT.search(text)
    return (nested[1] if nested else text.partition(" ")[0]) in _REFUSAL_CODES


def _describe(error: BaseException, written: bool) -> str:
    if isinstance(error, TimeoutError | rx.TimeoutError):
        return "Redis did not answer in time" if written else "Redis could not be reached in time"
    return f"Redis: {type(error).__name__}: {error}"
