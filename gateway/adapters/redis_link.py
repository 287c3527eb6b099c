"""One connection to Redis on which many commands are under way at once, answered in the order they were written.

redis-py connects (TCP, TLS, Unix sockets, AUTH, SELECT, Sentinel); from then on this protocol has the transport to
itself, with hiredis reading. A command that nobody answers ends the connection: its late reply must never be taken
for another one's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, cast

import hiredis
from redis import exceptions as rx
from redis.asyncio.connection import AbstractConnection

from gateway.adapters.redis_errors import ErrorReply, first_error, meaning_of, unreachable

_NOTHING: Final = object()


class Request:
    """Commands that are written together, and who waits: one reply, or a list of ``count``."""

    __slots__ = ("count", "future", "packed", "replies", "since")

    def __init__(self, packed: bytes, count: int, future: asyncio.Future[Any], since: float) -> None:
        self.packed = packed
        self.count = count
        self.future = future
        self.since = since
        self.replies: list[Any] = []

    def fail(self, error: Exception) -> None:
        if not self.future.done():  # else its caller gave up
            self.future.set_exception(error)

    def answer(self, reply: Any) -> ErrorReply | None:
        """Hand over the reply, or the first error in it, which is returned."""
        error = first_error(reply) if type(reply) in (list, ErrorReply) else None
        if not self.future.done():
            if error is None:
                self.future.set_result(reply)
            else:
                behind = self.count > 1 and first_error(reply[:1]) is None
                self.future.set_exception(meaning_of(error, behind=behind))
        return error


class RedisLink(asyncio.Protocol):
    """Connects when told to, writes what it is given, calls ``changed`` when it may be given more."""

    def __init__(self, driver: AbstractConnection, changed: Callable[[], None], reply_timeout_s: float) -> None:
        self._driver = driver
        self._changed = changed
        self._reply_timeout_s = reply_timeout_s
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader()
        self._under_way: deque[Request] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._paused = self._retired = False
        self._gone: asyncio.Future[None] | None = None

    @property
    def connected(self) -> bool:
        return self._transport is not None and not self._retired

    @property
    def writable(self) -> bool:
        return self.connected and not self._paused

    @property
    def idle(self) -> bool:
        return not self._under_way

    @property
    def address(self) -> tuple[str, int]:
        """Of the server, as it was connected to; empty for a socket file."""
        return getattr(self._driver, "host", ""), int(getattr(self._driver, "port", 0))

    def retire(self) -> None:
        """Write nothing more on this connection; hang up once what was written is answered."""
        self._retired = True
        if self._transport is not None and not self._under_way:
            self._end(None)

    async def connect(self) -> None:
        """Raises RedisError or OSError, also where the server speaks unasked."""
        while self._transport is not None:  # retired: what it still owes comes first, or its time-out
            await self._ending()
        await self._driver.connect()  # type: ignore[no-untyped-call]
        if await self._driver.can_read():
            await self._driver.disconnect(nowait=True)
            raise rx.ConnectionError("the server sent something that nobody asked for")
        stream = self._driver._writer
        assert stream is not None  # just connected
        transport = cast(asyncio.Transport, stream.transport)
        self._reader = hiredis.Reader(replyError=ErrorReply, notEnoughData=_NOTHING)
        self._paused = self._retired = False
        self._transport = transport
        transport.set_protocol(self)

    def send(self, batch: Sequence[Request], now: float) -> None:
        """Write all of it at once; every request is answered, or failed within the reply time-out."""
        assert self._transport is not None
        for request in batch:
            request.since = now
        self._under_way.extend(batch)
        self._transport.write(b"".join([request.packed for request in batch]))
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(self._reply_timeout_s, self._look)

    def data_received(self, data: bytes) -> None:
        reader, under_way = self._reader, self._under_way
        moved_on = False
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not _NOTHING:
                if not under_way:
                    raise hiredis.ProtocolError("a reply that nobody asked for")
                request = under_way[0]
                if request.count > 1:
                    request.replies.append(reply)
                    if len(request.replies) < request.count:
                        continue
                    reply = request.replies
                under_way.popleft()
                error = request.answer(reply)
                moved_on = moved_on or (error is not None and error.moved_on)
        except hiredis.HiredisError as wrong:
            self._end(wrong)
            return
        if moved_on:
            self._retired = True
        if self._retired and not under_way:
            self._end(None)

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._changed()

    async def close(self) -> None:
        """Let what was written be answered, for as long as the time-out allows, then hang up."""
        was_connected = self._transport is not None
        self.retire()
        if was_connected:
            await self._ending()

    async def _ending(self) -> None:
        if self._gone is None or self._gone.done():
            self._gone = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._gone)

    def _look(self) -> None:
        """The watch: whether the oldest command has waited too long."""
        self._watch = None
        if not self._under_way:
            return
        loop = asyncio.get_running_loop()
        left = self._under_way[0].since + self._reply_timeout_s - loop.time()
        if left > 0:
            self._watch = loop.call_later(left, self._look)
        else:
            self._end(TimeoutError())

    def _end(self, cause: BaseException | None) -> None:
        """Hang up. Whatever was not answered may have run."""
        transport, self._transport = self._transport, None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        while self._under_way:
            self._under_way.popleft().fail(unreachable(cause, may_have_run=True))
        if transport is not None:
            transport.abort()
            # The driver must forget the stream as well, or it takes itself for connected.
            self._driver._reader = self._driver._writer = None
            self._changed()


class MemoryLink:
    """The same over fakeredis, which has no transport: each command is done on the spot."""

    paused = False

    def __init__(self, driver: AbstractConnection, changed: Callable[[], None], reply_timeout_s: float) -> None:
        self._driver = driver
        self._changed = changed
        self._running: set[asyncio.Task[None]] = set()

    @property
    def connected(self) -> bool:
        return bool(self._driver.is_connected)

    @property
    def writable(self) -> bool:
        return self.connected and not self._running

    @property
    def idle(self) -> bool:
        return not self._running

    address = ("", 0)

    def retire(self) -> None:
        """There is one fake server, and no other to go to."""

    async def connect(self) -> None:
        """Raises RedisError where the fake server is told to be down."""
        await self._driver.connect()  # type: ignore[no-untyped-call]

    def send(self, batch: Sequence[Request], now: float) -> None:
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._running.add(task)
        task.add_done_callback(self._done)

    async def close(self) -> None:
        if self._running:
            await asyncio.wait(set(self._running))
        with suppress(rx.RedisError, OSError):
            await self._driver.disconnect()

    async def _run(self, batch: Sequence[Request]) -> None:
        for request in batch:
            try:
                await self._driver.send_packed_command([request.packed], check_health=False)
                replies = [await self._read() for _ in range(request.count)]
            except (rx.RedisError, OSError) as error:
                request.fail(unreachable(error, may_have_run=True))
                with suppress(rx.RedisError, OSError):
                    await self._driver.disconnect()  # as with a socket: replies must not fall out of step
            else:
                request.answer(replies if request.count > 1 else replies[0])

    async def _read(self) -> Any:
        try:
            return await self._driver.read_response(disconnect_on_error=False)
        except rx.NoScriptError as error:  # redis-py takes the code word off
            return ErrorReply(f"NOSCRIPT {error}")
        except rx.OutOfMemoryError as error:
            return ErrorReply(f"OOM {error}")
        except rx.ResponseError as error:
            return ErrorReply(str(error))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._changed()
