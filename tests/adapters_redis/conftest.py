"""A real redis-server, a scripted one, and a bounded wait; skipped where no redis-server is installed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import hiredis
import pytest

from gateway.adapters.local_redis import LocalRedis
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_urls import LedgerUrl, open_client

Answer = Callable[[list[bytes]], bytes | None]


class StubRedis:
    """Speaks RESP on a Unix socket and answers what the test says; counts what it saw.

    ``answer`` maps a command to the bytes of its reply; None means no reply, ever.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answer: Answer = lambda command: b"+OK\r\n"
        self.seen: list[list[bytes]] = []
        self.connections = 0
        self.hang_up_after: bytes | None = None  # a command after whose reply the connection is closed
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        self.break_connections()
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def break_connections(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    def push(self, unasked: bytes) -> None:
        for writer in self._open:
            writer.write(unasked)

    @property
    def open_connections(self) -> int:
        return len(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        parser = hiredis.Reader()
        try:
            while data := await reader.read(65536):
                parser.feed(data)
                while command := parser.gets():
                    self.seen.append(command)
                    reply = self.answer(command)
                    if reply is not None:
                        writer.write(reply)
                    if command[0] == self.hang_up_after:
                        return
        except ConnectionError:
            pass
        finally:
            self._open.discard(writer)
            writer.close()


@pytest.fixture
async def stub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StubRedis]:
    server = StubRedis(tmp_path_factory.mktemp("stub") / "s")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def to_stub(stub: StubRedis) -> AsyncIterator[Callable[..., Commands]]:
    """Builds a Commands that talks to the stub; closed at the end of the test."""
    client = open_client(LedgerUrl.for_socket(stub.path))
    built: list[Commands] = []

    def build(**settings: float) -> Commands:
        built.append(Commands(client, **settings))  # type: ignore[arg-type]
        return built[-1]

    yield build
    stub.break_connections()
    for commands in built:
        await commands.close()
    await client.aclose()


@pytest.fixture
def redis_installed() -> None:
    if not any(map(shutil.which, ("redis-server", "valkey-server"))):
        pytest.skip("no redis-server or valkey-server on PATH")


@pytest.fixture
async def ledger(redis_installed: None, tmp_path: Path) -> AsyncIterator[LocalRedis]:
    async with LocalRedis(tmp_path / "ledger") as running:
        yield running


@pytest.fixture
async def commands(ledger: LocalRedis) -> AsyncIterator[Commands]:
    """To the real server."""
    assert ledger.socket is not None
    client = open_client(LedgerUrl.for_socket(ledger.socket))
    front = Commands(client)
    yield front
    await front.close()
    await client.aclose()


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Waits until a condition holds, or fails after ten seconds."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 (it may be about another process)
                await asyncio.sleep(0.01)

    return wait
