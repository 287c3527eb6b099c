"""aiohttp's request and connector, told to note what `Seen.sent` and a clean connection depend on.

Each exchange carries a note in a context variable: aiohttp hands nothing of the caller's down to the layers
where writing and dialling happen, but the tasks that it starts there inherit the context.
"""

from __future__ import annotations

import asyncio
import select
from contextvars import ContextVar

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client import ClientTimeout
from aiohttp.connector import Connection
from aiohttp.tracing import Trace


class Exchange:
    """The note of one exchange: `sent`, whether a byte of the request may have left; `dialled`, whether its
    connection is new; `status`, once a reply's head was read; `only_allowed`, whether the address must be in
    the allow-list; `latest_start`, until when (the loop's clock) it may begin."""

    __slots__ = ("dialled", "latest_start", "only_allowed", "sent", "status")

    def __init__(self, only_allowed: bool, latest_start: float) -> None:
        self.only_allowed = only_allowed
        self.latest_start = latest_start
        self.dialled = False
        self.sent = False
        self.status: int | None = None


class TooLate(Exception):
    """No connection was free before most of the deadline had passed: sent now, the call would likely be cut off
    half-way and nobody would know how it ended; not sent, it may simply be made again."""


current: ContextVar[Exchange] = ContextVar("merchant_exchange")


class NotedRequest(aiohttp.ClientRequest):
    """A request that marks its exchange before its first byte can leave."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        if not self.body:
            current.get().sent = True  # written on the spot, without `write_bytes`
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        # The headers are held back until the first body byte, so this is where writing starts. Between this
        # look at the transport and that write the loop does not turn: a transport that is closing now takes
        # nothing, and one that is not may take everything.
        transport = conn.transport
        if transport is not None and not transport.is_closing():
            current.get().sent = True
        await super().write_bytes(writer, conn, content_length)


class CheckedConnector(aiohttp.TCPConnector):
    """A connector that hands out an idle connection only if nothing has happened on it."""

    async def connect(self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        exchange = current.get()
        while True:
            exchange.dialled = False
            conn = await super().connect(req, traces, timeout)
            if exchange.dialled or not has_spoken(conn):
                if asyncio.get_running_loop().time() > exchange.latest_start:
                    conn.release()
                    raise TooLate
                return conn
            conn.close()


def has_spoken(conn: Connection) -> bool:
    """Whether an idle connection holds anything: a close, which would make the outcome unknown, or bytes
    nobody asked for, which aiohttp would take for the answer to the next request."""
    protocol, transport = conn.protocol, conn.transport
    if protocol is None or transport is None or protocol.should_close:
        return True
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))
