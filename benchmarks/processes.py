"""The servers a run needs, each a child of its own that ends with the run: redis-server and the gateway."""

from __future__ import annotations

import asyncio
import atexit
import os
import random
import shutil
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

REDIS_PROGRAMS: Final = ("redis-server", "valkey-server")
LOOPBACK: Final = "127.0.0.1"
ROOT: Final = Path(__file__).resolve().parent.parent
DEV_KEY: Final = "dev"
_LOOK_EVERY_S: Final = 0.02
_LAST_LINES: Final = 15
_PORTS: Final = (10_240, 32_768)
_PORT_TRIES: Final = 100
_held: Final = ExitStack()
"""What holds the ports that were given, until the process ends."""
atexit.register(_held.close)


class StartFailed(Exception):
    """A server that a run needs did not come up. Carries the end of its log."""


def redis_program() -> str | None:
    """The redis-server (or valkey-server) on PATH, or None."""
    return next((found for name in REDIS_PROGRAMS if (found := shutil.which(name))), None)


def free_port() -> int:
    """A loopback port nobody listens on right now, below those that the system gives to outgoing connections: one to a
    server that was killed could otherwise be given the server's own port, and talk to itself.

    It stays this process's while it lives, also between a server's end and its next start: the UDP port of the same
    number is held, and a number whose UDP port somebody holds is not given.
    """
    for _ in range(_PORT_TRIES):
        port = random.SystemRandom().randrange(*_PORTS)
        token = socket.socket(type=socket.SOCK_DGRAM)
        try:
            token.bind((LOOPBACK, port))
            with socket.socket() as probe:
                probe.bind((LOOPBACK, port))
        except OSError:
            token.close()
            continue
        _held.enter_context(token)
        return port
    raise StartFailed("there is no free port on loopback")


class Server:
    """One child process: started, waited for until it answers, ended. `cpus` pins it where the system can."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        port: int | None = None,
        cpus: frozenset[int] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.port = port
        self._command = command
        self._cpus = cpus
        self._env = dict(env or {})
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    async def start(self, *, within_s: float = 30.0) -> None:
        """Raises StartFailed if it ends, or is not ready in time."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                env={**_environment(os.environ), **self._env},
                # Ctrl-C is for the run, which then ends its servers in order.
                start_new_session=True,
            )
        if self._cpus is not None:
            # At once, before it has threads of its own: they inherit it.
            os.sched_setaffinity(self._process.pid, self._cpus)
        try:
            async with asyncio.timeout(within_s):
                while not await self.ready():
                    if self._process.returncode is not None:
                        raise StartFailed(
                            f"{self.name} ended at start ({self._process.returncode}):\n{self._end_of_log()}"
                        )
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            await self.kill()
            raise StartFailed(f"{self.name} was not ready in {within_s:g} s:\n{self._end_of_log()}") from None

    async def ready(self) -> bool:
        """Whether it accepts connections."""
        return await _exchange(self.port, b"") is not None

    async def stop(self, *, within_s: float = 20.0) -> int:
        """Ask it to end (SIGTERM) and return its exit code; killed if it does not."""
        return await self._end(signal.SIGTERM, within_s)

    async def kill(self) -> int:
        """End it in the middle of whatever it does (SIGKILL)."""
        return await self._end(signal.SIGKILL, 5.0)

    def signal(self, sign: signal.Signals) -> None:
        """Send it a signal, such as SIGSTOP; one that has ended hears nothing."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(sign)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _end(self, sign: signal.Signals, within_s: float) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        try:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.send_signal(sign)
            async with asyncio.timeout(within_s):
                return await process.wait()
        except TimeoutError:
            return -signal.SIGKILL
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    def _end_of_log(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-_LAST_LINES:]) or "  (nothing in its log)"


class RedisServer(Server):
    """A private redis-server on a loopback port: append-only, evicting nothing, its data in `folder`."""

    def __init__(
        self, folder: Path, *, fsync: str = "always", rewrite: bool = True, cpus: frozenset[int] | None = None
    ) -> None:
        """`rewrite`: whether it may rewrite its append-only file while it runs (a burst of work, unasked)."""
        program = redis_program()
        if program is None:
            raise StartFailed("there is no redis-server on PATH: install one (7.0 or newer, or valkey-server)")
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.program = program
        self.url = f"redis://{LOOPBACK}:{port}/0"
        settings = {
            "port": str(port),
            "bind": LOOPBACK,
            "dir": str(folder),
            "appendonly": "yes",
            "appendfsync": fsync,
            "save": "",
            "auto-aof-rewrite-percentage": "100" if rewrite else "0",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        super().__init__("redis-server", [program, *words], log=folder / "redis.log", port=port, cpus=cpus)

    async def ready(self) -> bool:
        # Answers LOADING while it reads its append-only file.
        return (await _exchange(self.port, b"PING\r\n")) == b"+PONG\r\n"


class Gateway(Server):
    """`oncegate serve --dev` on a loopback port, one worker; its key is `dev`."""

    def __init__(
        self,
        folder: Path,
        ledger_url: str,
        *,
        cpus: frozenset[int] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`env`: settings, such as ONCEGATE_CALLS_LEASE_MARGIN_S."""
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        command = [
            *(str(Path(sys.executable).with_name("oncegate")), "serve", "--dev"),
            *("--ledger", ledger_url, "--host", LOOPBACK, "--port", str(port)),
        ]
        super().__init__("oncegate serve", command, log=folder / "gateway.log", port=port, cpus=cpus, env=env)

    async def ready(self) -> bool:
        reply = await _exchange(self.port, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return reply is not None and reply.startswith(b"HTTP/1.1 200")


async def _exchange(port: int | None, request: bytes) -> bytes | None:
    """The first bytes of the answer; None where nobody answers."""
    try:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return None
    try:
        if not request:
            return b""
        writer.write(request)
        async with asyncio.timeout(2):
            return await reader.read(4096)
    except (OSError, TimeoutError):
        return None
    finally:
        writer.close()


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    """A run is the same whatever the shell it was started from has set."""
    return {name: value for name, value in ours.items() if not name.startswith(("ONCEGATE_", "OTEL_", "REDIS_"))}
