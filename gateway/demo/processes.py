"""The two servers of the demo: the shop in this process, the gateway in one that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import uvicorn

START_TIMEOUT_S = 30.0


class GatewayDidNotStart(Exception):
    """The gateway's process ended, or was not ready in time; the message holds what it said."""


class GatewayProcess:
    """`oncegate serve --dev` as a child, started, killed and started again on the same port and ledger."""

    def __init__(self, ledger: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._ledger = ledger
        self._child: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Raises GatewayDidNotStart."""
        self._child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gateway.cli",
            "serve",
            "--dev",
            "--port",
            str(self.port),
            "--ledger",
            self._ledger,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._ready()
        except TimeoutError:
            await self.kill()
            raise GatewayDidNotStart(f"the gateway was not ready within {START_TIMEOUT_S:.0f} s") from None
        except BaseException:
            await self.kill()  # nobody knows of it yet who would
            raise

    async def kill(self) -> None:
        """SIGKILL: it gets no chance to tidy up."""
        if self._child is not None and self._child.returncode is None:
            self._child.kill()
            await self._child.wait()

    async def stop(self) -> int | None:
        """SIGTERM, and the exit status of a graceful stop."""
        if self._child is None or self._child.returncode is not None:
            return None if self._child is None else self._child.returncode
        self._child.terminate()
        _, _ = await self._child.communicate()
        return self._child.returncode

    async def _ready(self) -> None:
        assert self._child is not None
        async with aiohttp.ClientSession(trust_env=False) as session:
            while True:
                if self._child.returncode is not None:
                    said = await self._child.stderr.read() if self._child.stderr is not None else b""
                    raise GatewayDidNotStart(said.decode(errors="replace").strip() or "the gateway ended at once")
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    async with session.get(f"{self.url}/readyz") as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.05)


class Counting:
    """Counts the requests that reach the shop, by tool, around an ASGI application."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.requests: Counter[str] = Counter()
        self.before: Callable[[str], Awaitable[None]] | None = None
        """Awaited with the tool's name before the shop does anything."""
        self._arrival = asyncio.Event()

    async def reached(self, tool: str) -> None:
        """Until a request for that tool has come."""
        while not self.requests[tool]:
            self._arrival.clear()
            await self._arrival.wait()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        tool = body.split(b'"tool":"', 1)[-1].split(b'"', 1)[0].decode(errors="replace")
        self.requests[tool] += 1
        self._arrival.set()
        if self.before is not None:
            await self.before(tool)
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive_again() -> Any:
            return next(given, None) or await receive()

        await self._app(scope, receive_again, send)


@contextlib.asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI application on loopback for as long as the block lasts; gives its URL."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        config = uvicorn.Config(app, log_config=None, log_level="critical", lifespan="off", access_log=False)
        server = _Quiet(config)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started and not running.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            await running


class _Quiet(uvicorn.Server):
    """Leaves the process's signals alone: they belong to the demo."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


def free_port() -> int:
    """A loopback port nobody listens on right now, below those that the system gives to outgoing connections: one of
    these could take it while the gateway is killed."""
    chance = random.SystemRandom()
    for _ in range(100):
        port = chance.randrange(10_240, 32_768)
        with contextlib.suppress(OSError), socket.socket() as probe, socket.socket(type=socket.SOCK_DGRAM) as beside:
            beside.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
            return port
    raise GatewayDidNotStart("there is no free port on loopback")
