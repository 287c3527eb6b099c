"""One asyncio front for every Redis command of the hot path.

Commands asked for in the same turn of the event loop leave in one write, and more may follow before the first are
answered. That is worth a factor of six over a pooled client, and it decides what a failure means, so the rules below
are promises to the ledger:

* An error is always an exception. No failure is ever answered with ``None``, which the ledger would
  read as "no such record" and pay for with a second order.
* Nothing is sent twice. The library's own retries are off; a connection that is found closed before
  a byte was written is replaced, and that is all.
* ``LedgerUnreachable.may_have_run`` says whether the bytes may have reached Redis.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.adapters.redis_errors import LedgerUnreachable, ScriptMissing, unreachable
from gateway.adapters.redis_link import MemoryLink, RedisLink, Request

__all__ = ["Argument", "Commands", "LedgerUnreachable", "ScriptMissing", "SendsCommands"]

Argument = str | bytes | int | float
Connect = Callable[[], AbstractConnection]

_MOST_AT_ONCE: Final = 256
"""Commands a write; bounds the memory that one write can hold."""
_BLOCKING: Final = frozenset(("WAIT", "WAITAOF"))
"""Commands that hold up whatever is behind them on their connection."""


class SendsCommands(Protocol):
    """A front to the ledger's Redis: one server (`Commands`) or a cluster of them."""

    @property
    def one_server(self) -> bool:
        """Whether all keys are at one server, so that one script may look into any of them."""
        ...

    @property
    def unpacks(self) -> bool:
        """Whether scripts there can unpack MessagePack: every Redis and Valkey, but not fakeredis."""
        ...

    async def do(self, *args: Argument) -> Any: ...
    async def do_together(self, *commands: tuple[Argument, ...]) -> list[Any]: ...
    async def close(self) -> None: ...


class Commands:
    """Sends commands to one Redis over at most ``connections`` connections of its own.

    ``server`` says where and how to connect: a client (see ``redis_clients.open_client``), which stays the
    caller's to close, or what makes an unconnected connection. Times are in seconds. A command is answered
    or failed within ``connect_timeout_s`` plus twice ``command_timeout_s`` (waiting for a connection, then
    for the reply).

    Commands share connections: nothing that changes a connection's state (MULTI, SELECT, SUBSCRIBE)
    belongs here, nor what blocks one, but for WAIT and WAITAOF through ``do_together``: they have the
    connections beyond the first.
    """

    one_server = True

    def __init__(
        self,
        server: Redis | Connect,
        *,
        connections: int = 4,
        connect_timeout_s: float = 1.0,
        command_timeout_s: float = 2.0,
    ) -> None:
        connect: Connect = server.connection_pool.make_connection if isinstance(server, Redis) else server
        self._server = server  # what makes connections through sentinels holds on to its pool weakly
        self._lanes = [_Lane(connect, connect_timeout_s, command_timeout_s) for _ in range(connections)]
        self._first = self._lanes[0]
        self.unpacks = self._first.unpacks

    async def do(self, *args: Argument) -> Any:
        """Send one command and return its reply, as bytes, integers, lists or None (a nil reply).

        Raises LedgerUnreachable, ScriptMissing, or redis' ResponseError where the command itself is
        wrong. Arguments that cannot be packed raise TypeError and reach no connection.
        """
        return await self._first.submit(_pack(args), 1)

    async def do_together(self, *commands: tuple[Argument, ...]) -> list[Any]:
        """Send several commands in this order over one connection and return their replies.

        They are not atomic. WAIT answers for what its own connection wrote before, hence this method.
        All replies are read; the first that is an error is raised.
        """
        lane = self._first
        if commands[-1][0] in _BLOCKING:
            lane = min(self._lanes[1:] or self._lanes, key=lambda each: each.load)
        reply = await lane.submit(b"".join([_pack(command) for command in commands]), len(commands))
        return reply if len(commands) > 1 else [reply]

    def leave_all_but(self, address: tuple[str, int]) -> None:
        """Hang up on every other server, once what was sent there is answered, and connect anew when next used."""
        for lane in self._lanes:
            lane.leave_all_but(address)

    async def close(self) -> None:
        """Refuse what waits, let what was sent finish (it is bounded), then hang up. May be repeated."""
        await asyncio.gather(*(lane.close() for lane in self._lanes))


class _Lane:
    """A connection, and what waits to be written to it."""

    def __init__(self, connect: Connect, connect_timeout_s: float, command_timeout_s: float) -> None:
        self._link = _link(connect(), self._flush, command_timeout_s)
        self.unpacks = isinstance(self._link, RedisLink)
        self._connect_timeout_s = connect_timeout_s
        self._command_timeout_s = command_timeout_s
        self._waiting: deque[Request] = deque()
        self._connecting: asyncio.Task[None] | None = None
        self._flush_due = self._closed = False
        self.load = 0

    def submit(self, packed: bytes, count: int) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if self._closed:
            future.set_exception(_closed())
            return future
        self._waiting.append(Request(packed, count, future, loop.time()))
        if count > 1:
            self.load += 1
            future.add_done_callback(self._lighter)
        if not self._flush_due:
            self._flush_due = True
            loop.call_soon(self._soon, loop)
        return future

    def leave_all_but(self, address: tuple[str, int]) -> None:
        if self._link.connected and self._link.address != address:
            self._link.retire()

    async def close(self) -> None:
        self._closed = True
        self._refuse_waiting(_closed())
        if self._connecting is not None:
            await asyncio.wait([self._connecting])
        await self._link.close()

    def _lighter(self, _: object) -> None:
        self.load -= 1

    def _soon(self, loop: asyncio.AbstractEventLoop) -> None:
        # Two turns of the loop, so that it has looked at the sockets in between: a hang-up that arrived before the
        # command was asked for is known before it is written.
        loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        while self._waiting and self._link.writable:
            batch = self._take()
            if batch:
                self._link.send(batch, asyncio.get_running_loop().time())
        if self._waiting and not self._link.connected and self._connecting is None and not self._closed:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def _take(self) -> list[Request]:
        batch: list[Request] = []
        overdue = asyncio.get_running_loop().time() - self._command_timeout_s
        while self._waiting and len(batch) < _MOST_AT_ONCE:
            request = self._waiting.popleft()
            if request.future.done():
                continue  # its caller gave up before anything was sent
            if request.since < overdue:
                request.fail(LedgerUnreachable("no ledger connection was free in time", may_have_run=False))
            else:
                batch.append(request)
        return batch

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._link.connect()
        except BaseException as error:
            self._refuse_waiting(unreachable(error, may_have_run=False))
            if not isinstance(error, Exception):
                raise
        finally:
            self._connecting = None
        self._flush()

    def _refuse_waiting(self, error: LedgerUnreachable) -> None:
        while self._waiting:
            refusal = LedgerUnreachable(str(error), may_have_run=False)
            refusal.__cause__ = error.__cause__
            self._waiting.popleft().fail(refusal)


# Its stub knows tuples of one only.
_pack: Final[Callable[[tuple[Argument, ...]], bytes]] = cast(Any, hiredis.pack_command)


def _closed() -> LedgerUnreachable:
    return LedgerUnreachable("the ledger connection was closed", may_have_run=False)


def _link(driver: AbstractConnection, changed: Callable[[], None], reply_timeout_s: float) -> RedisLink | MemoryLink:
    driver.retry = Retry(NoBackoff(), 0)
    driver.socket_timeout = None  # the link has its own
    kind = MemoryLink if type(driver).__module__.startswith("fakeredis") else RedisLink
    return kind(driver, changed, reply_timeout_s)
