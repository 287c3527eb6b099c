"""Real processes for the flow tests: a redis-server on a Unix socket, and `oncegate serve`. Ended by who starts them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import redis

from benchmarks.processes import free_port

START_S = 60.0
"""A bound for a process that should be there in a second; nothing is measured against it."""

PATIENT_S = "20"
"""How long a gateway waits for its Redis: a machine that stands still for seconds is not what is looked for."""


def clean_environment() -> dict[str, str]:
    """This environment without settings of the gateway's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ONCEGATE_")}


class RedisProcess:
    """A redis-server under `folder`; with `durable`, every write is synced and outlives `kill`."""

    def __init__(self, folder: Path, *options: str, durable: bool = False) -> None:
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._folder = folder
        self._kept = ("--appendonly", "yes", "--appendfsync", "always") if durable else ("--appendonly", "no")
        self._options = options
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, *options: str, wait: bool = True) -> None:
        """With options for this life only; without `wait` it may still load its data."""
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        assert program is not None
        self._child = subprocess.Popen(
            [
                *(program, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self._folder)),
                *("--save", "", "--logfile", str(self._folder / "redis.log"), *self._kept),
                *(*self._options, *options),
            ],
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_S
        while wait and not self._answers():
            assert self._child.poll() is None, (self._folder / "redis.log").read_text()
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.01)

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket))

    def signal(self, number: int) -> None:
        """SIGSTOP lets it stand still, SIGCONT lets it go on."""
        assert self._child is not None
        self._child.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: nothing is written that was not written before."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except (redis.RedisError, OSError):
            return False


class GatewayProcess:
    """`oncegate serve`: started, killed or stopped, and started again on the same port and ledger."""

    def __init__(
        self,
        folder: Path,
        ledger: str,
        *flags: str,
        dev: bool = True,
        unsafe: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.said: list[str] = []
        """Every line of its standard error, over all its lives."""
        self._folder = folder
        # Most of these ledgers are thrown away with the test.
        allowed = ["--allow-unsafe-ledger"] if unsafe else []
        self._flags = ["--ledger", ledger, *allowed, *(["--dev"] if dev else []), *flags]
        patient = {"LEDGER_COMMAND_TIMEOUT_S": PATIENT_S} | dict(settings or {})
        self._settings = {f"ONCEGATE_{name}": value for name, value in patient.items()}
        self._port = free_port()  # its own, also between two lives
        self._child: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._listening = threading.Event()
        """Set as well where it ended before it listened."""
        self._serves = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    def start(self) -> None:
        """Start it and wait until it says where it listens."""
        self._listening.clear()
        self._serves = False
        self._child = subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", "serve", "--port", str(self._port), *self._flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self._folder,
            env=clean_environment() | self._settings,
        )
        self._reader = threading.Thread(target=self._read, args=(self._child,), daemon=True)
        self._reader.start()
        assert self._listening.wait(START_S), self.said
        assert self._serves, self.said

    def kill(self) -> None:
        """SIGKILL: it gets no chance to tidy up."""
        self.signal(signal.SIGKILL)
        self.exit_status()

    def signal(self, number: int) -> None:
        if self._child is not None:
            self._child.send_signal(number)

    def peak_bytes(self) -> int:
        """The most memory that was resident at one time since this was asked last; what was freed again counts too."""
        assert self._child is not None
        folder = Path(f"/proc/{self._child.pid}")
        found = re.search(r"VmHWM:\s*(\d+) kB", (folder / "status").read_text())
        assert found is not None
        (folder / "clear_refs").write_text("5")  # begins anew (proc(5))
        return int(found[1]) * 1024

    def exit_status(self) -> int | None:
        """Wait for its end; None where it is not running."""
        if self._child is None or self._reader is None:
            return None
        status = self._child.wait(START_S)
        self._reader.join(START_S)
        assert self._child.stderr is not None
        self._child.stderr.close()
        self._child = self._reader = None
        return status

    def _read(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stderr is not None
        for raw in child.stderr:
            line = raw.decode(errors="replace").rstrip("\n")
            self.said.append(line)
            if "listening on http://" in line:
                self._serves = True
                self._listening.set()
        self._listening.set()
