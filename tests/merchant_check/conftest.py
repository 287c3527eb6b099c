"""Real servers for the check: a careless shop in a thread, whole merchants in processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.processes import free_port

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BOUND_S = 60.0


@pytest.fixture(scope="session")
def careless() -> ModuleType:
    """The module of the careless shop."""
    sys.path.insert(0, str(HERE))
    try:
        import careless_shop
    finally:
        sys.path.remove(str(HERE))
    return careless_shop


@pytest.fixture
def serve(tmp_path: Path, careless: ModuleType) -> Iterator[Callable[..., str]]:
    """Start a merchant's command (PORT and FOLDER filled in) and give its URL; its whole group ends with the test."""
    with ExitStack() as stack:

        def start(command: list[str], **env: str) -> str:
            port = free_port()
            filled = [part.replace("PORT", str(port)).replace("FOLDER", str(tmp_path)) for part in command]
            log = stack.enter_context((tmp_path / "server.log").open("w+"))
            own = {
                "SHOP_SECRET": careless.SECRET,
                "SHOP_DATABASE": str(tmp_path / "orders.db"),
                "PYTHONPATH": str(ROOT),
            }
            child = subprocess.Popen(
                filled,
                cwd=ROOT,
                env=os.environ | own | env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # workers of a server outlive it, and end with its group
            )
            stack.callback(child.wait, BOUND_S)
            stack.callback(os.killpg, child.pid, signal.SIGKILL)
            deadline = time.monotonic() + BOUND_S
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    return f"http://127.0.0.1:{port}/"
                except OSError:
                    said = (tmp_path / "server.log").read_text()
                    assert child.poll() is None, said
                    assert time.monotonic() < deadline, said
                    time.sleep(0.02)

        yield start
