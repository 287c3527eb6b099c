"""A real redis-server, a scripted one, and a bounded wait; skipped where no redis-server is installed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import hiredis
import pytest

from benchmarks.processes import free_port
from gateway.adapters.local_redis import LocalRedis
from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_link import RedisLink
from gateway.adapters.redis_urls import LedgerUrl

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
def time_is_up() -> Callable[[Commands], None]:
    """Lets the time-out of all that was sent pass at once. A real one short enough to wait for is short enough to pass
    before anything is sent."""

    def pass_it(commands: Commands) -> None:
        for lane in commands._lanes:
            link = lane._link
            assert isinstance(link, RedisLink)
            for request in link._under_way:
                request.since -= 3_600
            if link._watch is not None:
                link._watch.cancel()
            link._look()

    return pass_it


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
    front = Commands(client, connect_timeout_s=60, command_timeout_s=60)
    yield front
    await front.close()
    await client.aclose()


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Waits until a condition holds, or fails after two minutes."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not condition():  # noqa: ASYNC110 (it may be about another process)
                await asyncio.sleep(0.01)

    return wait


class OwnRedis:
    """A redis-server with a test's own options, on a Unix socket; ended by the fixture that started it."""

    def __init__(self, program: str, folder: Path, options: Sequence[str]) -> None:
        self.url = LedgerUrl.for_socket(folder / "s")
        self._log = folder / "log"
        self._child = subprocess.Popen(
            [
                *(program, "--port", "0", "--unixsocket", str(folder / "s"), "--dir", str(folder)),
                *("--logfile", str(self._log), "--daemonize", "no", *options),
            ],
            stdin=subprocess.DEVNULL,
        )

    @property
    def text(self) -> str:
        return f"unix://{self.url.path}"

    def ready(self) -> bool:
        assert self._child.poll() is None, self._log.read_text()
        return self._log.exists() and "eady to accept connections" in self._log.read_text()

    def signal(self, number: int) -> None:
        self._child.send_signal(number)

    def end(self) -> None:
        self._child.kill()
        self._child.wait()


@pytest.fixture
async def start_redis(
    tmp_path_factory: pytest.TempPathFactory, eventually: Callable[[Callable[[], bool]], Awaitable[None]]
) -> AsyncIterator[Callable[..., Awaitable[OwnRedis]]]:
    """Starts servers, the installed one or `program`."""
    started: list[OwnRedis] = []

    async def start(*options: str, program: str | None = None) -> OwnRedis:
        chosen = program or shutil.which("redis-server") or shutil.which("valkey-server")
        if chosen is None:
            pytest.skip("no redis-server or valkey-server on PATH")
        started.append(OwnRedis(chosen, tmp_path_factory.mktemp("own"), options))
        await eventually(started[-1].ready)
        return started[-1]

    yield start
    for server in started:
        server.end()


@pytest.fixture
async def reach() -> AsyncIterator[Callable[[OwnRedis | LedgerUrl], Commands]]:
    """A Commands to a server; closed at the end of the test."""
    async with AsyncExitStack() as stack:

        def open_commands(server: OwnRedis | LedgerUrl) -> Commands:
            client = open_client(server.url if isinstance(server, OwnRedis) else server)
            commands = Commands(client, command_timeout_s=60)
            stack.push_async_callback(client.aclose)
            stack.push_async_callback(commands.close)
            return commands

        yield open_commands


@pytest.fixture
def newer_redis() -> str:
    """A server that knows WAITAOF: one on PATH, or the one that NEWER_REDIS_SERVER names."""
    for name in (os.environ.get("NEWER_REDIS_SERVER"), "valkey-server", "redis-server"):
        program = shutil.which(name) if name else None
        if program is not None:
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            version = re.search(r"v=(\d+)\.(\d+)", said)
            if version is not None and (int(version[1]), int(version[2])) >= (7, 2):
                return program
    pytest.skip("WAITAOF needs a redis-server 7.2 or newer, or valkey-server; NEWER_REDIS_SERVER may name one")


@pytest.fixture
def port() -> int:
    return free_port()
