"""The embedded ledger: a private redis-server child that keeps its data in one folder.

It listens on a Unix socket only, syncs every write before it answers, evicts nothing, and lives exactly
as long as the process that started it. POSIX only.

The folder is guarded by a file lock that the child inherits: as long as any process can still write the
data, the lock is held, and a second start waits a moment and is then refused. Two servers on one folder
would both grant the same claim.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.adapters import child_guard
from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_program import LocalRedisError, find_redis_server
from gateway.adapters.redis_urls import LedgerUrl

_SETTINGS: Final = {
    "port": "0",
    "unixsocketperm": "700",
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
    "databases": "1",
    "daemonize": "no",
}
# A socket's path has to fit into 104 bytes on BSD and macOS, 108 on Linux, with its closing zero.
_LONGEST_SOCKET_PATH: Final = 103
SOCKET_NAME: Final = "redis.sock"
"""Within the folder, where its path is short enough."""
_LOOK_EVERY_S: Final = 0.01
_LAST_LINES: Final = 8


class LedgerInUse(LocalRedisError):
    """Another process holds this folder."""


class LocalRedisFailed(LocalRedisError):
    """The child ended, or did not answer, while starting. Carries its last log lines."""


class LocalRedis:
    """``async with LocalRedis(folder) as ledger:`` and then ``ledger.socket``; or start() and stop().

    Start it on the loop of the process's main thread: the child ends with the thread that started it.
    ``lock_wait_s`` is how long a start waits for a predecessor that is still ending; ``ready_timeout_s``
    includes loading the data. ``guard`` is how the child is bound to this process (see child_guard).
    """

    def __init__(
        self,
        folder: Path,
        *,
        program: Path | None = None,
        lock_wait_s: float = 5.0,
        ready_timeout_s: float = 60.0,
        stop_timeout_s: float = 10.0,
        guard: Literal["signal", "watch"] = "signal",
    ) -> None:
        self.folder = folder.expanduser().absolute()
        self.socket: Path | None = None
        self._program = program
        self._lock_wait_s = lock_wait_s
        self._ready_timeout_s = ready_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._guard = guard
        self._process: Process | None = None
        self._open_files: list[int] = []
        self._socket_folder: Path | None = None  # a temporary one, where the folder's own path is too long

    async def start(self) -> Path:
        """Start the server and return its socket once it answers.

        Raises NoRedisServer, LedgerInUse, LocalRedisFailed, or LocalRedisError for an unusable folder.
        """
        if self._process is not None:
            raise RuntimeError("already started")
        program = self._program or await find_redis_server()
        try:
            self._make_folder()
            lock = await self._take_lock()
            self.socket = self._choose_socket()
            with suppress(FileNotFoundError):
                self.socket.unlink()  # left behind by one that was killed
            log_starts_at = await self._spawn(program, lock)
            await self._wait_until_ready(self.socket, log_starts_at)
        except BaseException:
            await self.stop()
            raise
        return self.socket

    async def stop(self) -> None:
        """End the child, gracefully if it lets itself be asked, and release the folder. May be repeated."""
        process, self._process = self._process, None
        try:
            if process is not None and process.returncode is None:
                process.terminate()
                async with asyncio.timeout(self._stop_timeout_s):
                    await process.wait()
        except TimeoutError:
            pass
        finally:
            # Also when stop() itself is cancelled: a child that is left running would hold the folder.
            if process is not None and process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
            while self._open_files:
                os.close(self._open_files.pop())
            if self.socket is not None:
                self.socket.unlink(missing_ok=True)
                self.socket = None
            if self._socket_folder is not None:
                shutil.rmtree(self._socket_folder, ignore_errors=True)
                self._socket_folder = None

    async def wait(self) -> int:
        """Wait until the child ends, which it never should by itself; returns its exit code."""
        if self._process is None:
            raise RuntimeError("not started")
        return await self._process.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def exists(self) -> bool:
        """Whether a ledger was ever started here; looked at without starting one."""
        return self._data.is_dir()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _log(self) -> Path:
        return self.folder / "redis.log"

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._data.mkdir(mode=0o700, exist_ok=True)
            if self._data.stat().st_uid != os.geteuid():
                raise LocalRedisError(f"{self._data} belongs to another user; choose another folder")
            self._data.chmod(0o700)
        except OSError as error:
            raise LocalRedisError(f"{self.folder} cannot hold the ledger: {error.strerror}") from error

    async def _take_lock(self) -> int:
        """Never unlocked by hand, only closed: an unlock here would unlock it for the child as well."""
        try:
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LocalRedisError(f"{self.folder} cannot hold the ledger: {error.strerror}") from error
        self._open_files.append(lock)
        try:
            async with asyncio.timeout(self._lock_wait_s):
                while not _try_lock(lock):  # noqa: ASYNC110 (nothing tells when another process lets go)
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            raise LedgerInUse(
                f"{self.folder} is in use by another gateway; stop that one, or choose another folder "
                "(two on one folder would run the same call twice)"
            ) from None
        return lock

    def _choose_socket(self) -> Path:
        socket = self.folder / SOCKET_NAME
        if len(os.fsencode(socket)) <= _LONGEST_SOCKET_PATH:
            return socket
        self._socket_folder = Path(tempfile.mkdtemp(prefix="oncegate-"))  # 0700
        socket = self._socket_folder / SOCKET_NAME
        if len(os.fsencode(socket)) > _LONGEST_SOCKET_PATH:
            raise LocalRedisError("the paths of the folder and of TMPDIR are both too long for a socket")
        return socket

    async def _spawn(self, program: Path, lock: int) -> int:
        lifeline, held_by_us = os.pipe()
        self._open_files.append(held_by_us)
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            log_starts_at = os.fstat(log).st_size
            settings = {**_SETTINGS, "dir": self._data, "logfile": self._log, "unixsocket": self.socket}
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", child_guard.__file__),
                *(str(os.getpid()), str(lifeline), self._guard, str(program)),
                *(word for name, value in settings.items() for word in (f"--{name}", str(value))),
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock, lifeline),
                # The terminal's Ctrl-C goes to the whole group; the ledger has to outlast the calls.
                start_new_session=True,
            )
        finally:
            os.close(lifeline)
            os.close(log)
        return log_starts_at

    async def _wait_until_ready(self, socket: Path, log_starts_at: int) -> None:
        client = open_client(LedgerUrl.for_socket(socket))
        try:
            async with asyncio.timeout(self._ready_timeout_s):
                while not await _answers(client):
                    if self._process is None or self._process.returncode is not None:
                        raise LocalRedisFailed(f"redis-server ended at start{self._last_lines(log_starts_at)}")
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            raise LocalRedisFailed(
                f"redis-server was not ready within {self._ready_timeout_s:g} s{self._last_lines(log_starts_at)}"
            ) from None
        finally:
            await client.aclose()

    def _last_lines(self, log_starts_at: int) -> str:
        with self._log.open("rb") as log:
            log.seek(log_starts_at)
            lines = log.read().decode(errors="replace").split("\n")
        kept = [line.rstrip() for line in lines if line.strip()][-_LAST_LINES:]
        return "\n  ".join([f"; the end of {self._log}:", *kept]) if kept else f"; {self._log} is empty"


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _answers(client: Redis) -> bool:
    """False while there is no socket yet, and while the data is being loaded."""
    try:
        return bool(await client.ping())
    except (RedisError, OSError):
        return False
