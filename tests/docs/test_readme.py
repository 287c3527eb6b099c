"""The README is true: its code is the examples', and its commands, run as written, do what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BOUND_S = 60.0


def section(title: str) -> str:
    """What stands under a heading of the second level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.M | re.S)
    assert found is not None, f"the README has no section {title!r}"
    return found[1]


def blocks(text: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


@pytest.mark.parametrize(
    ("title", "example"),
    [("A runtime in ten lines", "runtime_ten_lines.py"), ("A merchant in ten lines", "merchant_ten_lines.py")],
)
def test_the_readme_shows_the_examples_as_they_are(title: str, example: str) -> None:
    """What is shown is what other tests run."""
    assert blocks(section(title), "python") == [(ROOT / "examples" / example).read_text(encoding="utf-8")]


def test_the_pages_that_the_readme_links_to_exist() -> None:
    """Every relative link leads to a file."""
    links = re.findall(r"\]\((?!https?://)([^)#]+)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@dataclass
class Terminal:
    """A terminal in an empty folder with the examples in it, as the reader has; ports are free ones."""

    folder: Path
    gateway: int
    merchant: int
    variables: dict[str, str]
    background: ExitStack
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

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

    def start(self, command: str, port: int) -> None:
        """Start a server and wait until its port answers; it is stopped at the end of the test."""
        log = self.background.enter_context((self.folder / f"{port}.log").open("wb"))
        words = shlex.split(self.here(command), comments=True)
        child = subprocess.Popen(words, cwd=self.folder, env=self.variables, stdout=log, stderr=log)
        self.background.callback(_end, child)
        deadline = time.monotonic() + BOUND_S
        while not _answers(port):
            assert child.poll() is None, (self.folder / f"{port}.log").read_text()
            assert time.monotonic() < deadline, f"{command} never answered"
            time.sleep(0.02)

    def curl(self, command: str) -> Any:
        """Send what a curl command line says, with Python's own client."""
        words = shlex.split(self.here(command))
        assert words[:2] == ["curl", "-s"]
        options = list(zip(words[3::2], words[4::2], strict=True))
        headers = dict(value.split(": ", 1) for name, value in options if name == "-H")
        (data,) = [value for name, value in options if name == "-d"]
        assert len(headers) + 1 == len(options)
        request = urllib.request.Request(words[2], data.encode(), headers)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=BOUND_S) as answer:
            return json.loads(answer.read())


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(BOUND_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if not any(map(shutil.which, ("redis-server", "valkey-server"))):
        pytest.skip("there is no redis-server or valkey-server on PATH")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    gateway, merchant = _free_ports()
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONCEGATE_")}
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    # The only two things that the reader does not set: which ports are free on this machine.
    variables |= {"ONCEGATE_HTTP_PORT": str(gateway), "ONCEGATE_URL": f"http://127.0.0.1:{gateway}"}
    with ExitStack() as background:
        yield Terminal(tmp_path, gateway, merchant, variables, background)


def test_the_commands_under_start_place_one_order_and_replay_it(terminal: Terminal) -> None:
    """Everything a newcomer types, in order, with real servers."""
    text = section("Start")
    installing, preparing, calling = blocks(text)
    inline = [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S))]
    (merchant,) = [command for command in inline if command.startswith("uvicorn ")]
    (telling,) = [command for command in inline if command.startswith("oncegate ")]

    pip, serve = installing.strip().splitlines()
    assert pip == "pip install 'oncegate[gateway]'"
    terminal.start(serve, terminal.gateway)
    assert (terminal.folder / ".oncegate").is_dir()

    (secret,) = re.findall(r"^whsec_\S+$", prepared := terminal.run(preparing), re.M)
    assert "place_order v1: side-effecting" in prepared
    terminal.variables |= {"SHOP_SECRET": secret, "ONCEGATE_KEY": "dev"}
    terminal.start(merchant, terminal.merchant)

    first, again = terminal.curl(calling), terminal.curl(calling)
    assert (first["decision"], first["status"], first["result"]) == ("proceed", "succeeded", {"order_id": 1})
    assert (again["decision"], again["result"]) == ("replay", first["result"])
    with closing(sqlite3.connect(terminal.folder / "orders.db")) as orders:
        assert orders.execute("SELECT item, quantity FROM orders").fetchall() == [("dosa", 2)]

    told = terminal.run(telling)
    for event in ("effect.executing", "effect.succeeded"):
        assert event in told
    assert terminal.run("python examples/runtime_ten_lines.py").strip() == "Tools: place_order"
