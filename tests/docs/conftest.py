"""A terminal as the reader of a page has one, for pages whose commands are run as written."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 180.0


@dataclass
class Terminal:
    """A folder with the examples in it, as in a clone; ports are free ones instead of the page's."""

    folder: Path
    gateway: int
    merchant: int
    variables: dict[str, str]
    background: ExitStack

    def here(self, command: str) -> str:
        return command.replace(":8080", f":{self.gateway}").replace("8081", str(self.merchant))

    def run(self, script: str) -> str:
        """Run a block in one shell that keeps nothing but what it prints."""
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.here(script)],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def start(self, script: str, port: int) -> Path:
        """Run a block whose last command is a server, in a shell of its own, until its port answers; the test's end
        stops it. Returns the file with what it prints."""
        printed = self.folder / f"{port}.log"
        log = self.background.enter_context(printed.open("wb"))
        child = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", self.here(script)],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.background.callback(_end, child)
        deadline = time.monotonic() + BOUND_S
        while not _answers(port):
            assert child.poll() is None, printed.read_text()
            assert time.monotonic() < deadline, f"nothing answers: {printed.read_text()}"
            time.sleep(0.02)
        return printed

    def curl(self, command: str) -> tuple[int, Any]:
        """Send what a curl command line says, with Python's own client: status and JSON."""
        words = shlex.split(self.here(command))
        assert words.pop(0) == "curl"
        (url,) = [word for word in words if word.startswith("http://")]
        words.remove(url)
        words.remove("-s")
        options = list(zip(words[::2], words[1::2], strict=True))
        assert {name for name, _ in options} <= {"-H", "-d", "-w"}
        headers = dict(value.split(": ", 1) for name, value in options if name == "-H")
        (data,) = [value for name, value in options if name == "-d"]
        request = urllib.request.Request(url, data.encode(), headers)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=BOUND_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.loads(refused.read())


def _end(child: subprocess.Popen[bytes]) -> None:
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(BOUND_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Page:
    """A page's parts."""

    def __init__(self, file: Path) -> None:
        self.text = file.read_text(encoding="utf-8")

    def section(self, title: str) -> str:
        """What stands under a heading of the second level."""
        found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", self.text, re.M | re.S)
        assert found is not None, f"the page has no section {title!r}"
        return found[1]

    def blocks(self, title: str, language: str = "") -> list[str]:
        """The section's code blocks in one language, those in lists too."""
        found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", self.section(title), re.M | re.S)
        return [textwrap.dedent(block) for _, written_in, block in found if written_in == language]


@pytest.fixture
def page() -> Any:
    """A page by its path from the top of the project."""
    return lambda path: Page(ROOT / path)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if not any(map(shutil.which, ("redis-server", "valkey-server"))):
        pytest.skip("there is no redis-server or valkey-server on PATH")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    # The virtual environment that the page makes and fills is here the one that the test runs in.
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')
    gateway, merchant = free_port(), free_port()
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONCEGATE_")}
    # The only two things that the reader does not set: which ports are free on this machine.
    variables |= {"ONCEGATE_HTTP_PORT": str(gateway), "ONCEGATE_URL": f"http://127.0.0.1:{gateway}"}
    with ExitStack() as background:
        yield Terminal(tmp_path, gateway, merchant, variables, background)
