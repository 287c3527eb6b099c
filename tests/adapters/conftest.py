from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from ipaddress import ip_network

import pytest
import trustme
import uvloop

from gateway.adapters.merchant_http import MerchantHttp
from gateway.core.ports import MerchantRequest


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The gateway runs on uvloop where there is one; its transports differ from asyncio's in when they write."""
    both = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return both if item.path.name.startswith("test_merchant_") else {"asyncio": asyncio.new_event_loop}


LOCAL = (ip_network("127.0.0.1/32"),)


class Peer:
    """The merchant's end of one connection."""

    def __init__(self, merchant: Merchant, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._merchant = merchant
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """Read one whole request and count it."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
        )
        whole = head + await self.reader.readexactly(length)
        self._merchant.requests.append(whole)
        self._merchant.asked.set()
        return whole

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
        self, body: bytes = b"{}", status: str = "200 OK", *headers: str, kind: str = "application/json"
    ) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        if kind:
            lines.append(f"Content-Type: {kind}")
        await self.write("\r\n".join([*lines, "", ""]).encode() + body)

    def reset(self) -> None:
        """End the connection with RST instead of FIN."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Wait until the gateway has closed its end."""
        with contextlib.suppress(OSError):
            while await self.reader.read(65_536):
                pass
        self._merchant.left.set()

    async def drip(self, data: bytes, gap_s: float = 0.03) -> None:
        """One byte at a time for ever, or until the gateway leaves."""
        leaving = asyncio.ensure_future(self.gone())
        try:
            while not leaving.done():
                self.writer.write(data)
                await asyncio.wait([leaving], timeout=gap_s)
        finally:
            leaving.cancel()


Script = Callable[[Peer], Awaitable[None]]


class Merchant:
    """A merchant on a loopback socket who does exactly what its script says, once per connection."""

    def __init__(self, script: Script, scheme: str) -> None:
        self.script = script
        self.scheme = scheme
        self.requests: list[bytes] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.port = 0
        self.address = "127.0.0.1"
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def url(self, host: str | None = None, path: str = "/tools") -> str:
        return f"{self.scheme}://{host or self.address}:{self.port}{path}"

    async def open(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        """On a duplicate of `listener`: the port stays taken when this merchant closes."""
        self._server = await asyncio.start_server(self._accepted, sock=listener.dup(), ssl=context)
        self.address, self.port = listener.getsockname()[:2]

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(Peer(self, reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, peer: Peer) -> None:
        try:
            with contextlib.suppress(OSError, EOFError):
                await self.script(peer)
        finally:
            peer.writer.close()
            with contextlib.suppress(OSError):
                await peer.writer.wait_closed()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Street:
    """Opens merchants and clients for one test and closes them after it."""

    def __init__(self) -> None:
        self._stack = contextlib.AsyncExitStack()

    def bound(self, address: str = "127.0.0.1", port: int = 0) -> socket.socket:
        """A port at which nobody listens yet, and nobody else can: connections to it are refused."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        held = self._stack.enter_context(socket.socket(family))
        held.bind((address, port))
        return held

    def bound_twice(self) -> tuple[socket.socket, socket.socket]:
        """One port number at 127.0.0.1 and at 127.0.0.2."""
        for _ in range(100):
            first = self.bound()
            with contextlib.suppress(OSError):
                return first, self.bound("127.0.0.2", first.getsockname()[1])
        raise AssertionError("no port is free at both addresses")

    async def merchant(
        self, script: Script, *, tls: ssl.SSLContext | None = None, listener: socket.socket | None = None
    ) -> Merchant:
        """On a port of its own, or on one that is `bound`."""
        merchant = Merchant(script, "https" if tls else "http")
        await merchant.open(listener or self.bound(), tls)
        self._stack.push_async_callback(merchant.close)
        return merchant

    def client(self, **options: object) -> MerchantHttp:
        options.setdefault("allow", LOCAL)
        client = MerchantHttp(**options)  # type: ignore[arg-type]
        self._stack.push_async_callback(client.close)
        return client

    async def close(self) -> None:
        await self._stack.aclose()


@pytest.fixture
async def street() -> AsyncIterator[Street]:
    street = Street()
    yield street
    await street.close()


@pytest.fixture
def call() -> Callable[..., MerchantRequest]:
    """A request to a URL, with a body worth recognising."""

    def make(url: str, body: bytes = b'{"tool":"place_order"}', *headers: tuple[str, str]) -> MerchantRequest:
        return MerchantRequest(url, headers, body)

    return make


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority: trustme.CA) -> Callable[[], ssl.SSLContext]:
    """Make a client context that trusts the test authority and nothing else."""

    def make() -> ssl.SSLContext:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    return make


@pytest.fixture(scope="session")
def certified(authority: trustme.CA) -> Callable[..., ssl.SSLContext]:
    """Make a server context with a certificate for these names."""

    def make(*names: str, **options: object) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names, **options).configure_cert(context)  # type: ignore[arg-type]
        return context

    return make
