"""A merchant that is nothing but a socket: it counts and keeps every request, and replies what a test says."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """One POST as it came; header names lowercase."""

    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def tool(self) -> str:
        return str(self.json["tool"])


class Connection:
    """What a behaviour may do to the connection that its request came on."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def reset(self) -> None:
        """Close with a RST, as a crashing peer does."""
        plain: socket.socket = self._writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Behaviour = Callable[[Request, Connection], Awaitable[bytes | None]]


def reply(body: object = b"", *headers: str, status: int = 200, length: bool = True) -> bytes:
    """A response; what is not bytes becomes JSON with its type."""
    lines = [f"HTTP/1.1 {status} Whatever", *headers]
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
        lines.append("Content-Type: application/json")
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class RawMerchant:
    """Listens on loopback. `behave` answers each request: bytes are written, None leaves it to the behaviour.

    By default it makes an order for every request and says its number.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.behave: Behaviour = self.order
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self._port = 0
        self._scheme = "http"

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._port}/tools"

    @property
    def hits(self) -> int:
        return len(self.requests)

    def hits_of(self, tool: str) -> int:
        return sum(request.tool == tool for request in self.requests)

    async def order(self, request: Request, connection: Connection) -> bytes | None:
        return reply({"order": f"O-{self.hits}"})

    def answers(self, *replies: bytes) -> None:
        """These replies in turn; the last one for good."""
        left = list(replies)

        async def behave(request: Request, connection: Connection) -> bytes | None:
            return left.pop(0) if len(left) > 1 else left[0]

        self.behave = behave

    def waits_for(self, gate: asyncio.Event, then: Behaviour | None = None) -> None:
        """Count the request, and answer once the gate is open."""
        then = then or self.order

        async def behave(request: Request, connection: Connection) -> bytes | None:
            await gate.wait()
            return await then(request, connection)

        self.behave = behave

    async def start(self, tls: ssl.SSLContext | None = None, listens_on: socket.socket | None = None) -> None:
        """On a port of its own, or on one that `listens_on` is bound to; that may be closed after it."""
        where: dict[str, Any] = {"sock": listens_on.dup()} if listens_on else {"host": "127.0.0.1", "port": 0}
        self._server = await asyncio.start_server(self._accepted, ssl=tls, **where)
        self._port = self._server.sockets[0].getsockname()[1]
        self._scheme = "http" if tls is None else "https"

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                answer = await self.behave(request, Connection(writer))
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._handlers.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(first.split(" ")[1], headers, body)
