"""`oncegate doctor`, and what `oncegate serve` refuses to start on (4.14)."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main

NEEDED = pytest.mark.skipif(
    not any(map(shutil.which, ("redis-server", "valkey-server"))),
    reason="there is no redis-server or valkey-server on PATH",
)
KEPT = ("--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "200mb")
BOUND_S = 120.0


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Starts a redis-server with these options; gives its ledger URL."""
    children: list[subprocess.Popen[bytes]] = []

    def run(*options: str) -> str:
        folder = tmp_path_factory.mktemp("own")
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        assert program is not None
        place = ("--port", "0", "--unixsocket", str(folder / "s"), "--dir", str(folder), "--logfile", str(folder / "l"))
        children.append(subprocess.Popen([program, *place, *options], stdin=subprocess.DEVNULL))
        deadline = time.monotonic() + BOUND_S
        while not ((folder / "l").exists() and "eady to accept" in (folder / "l").read_text()):
            assert children[-1].poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return f"unix://{folder / 's'}"

    yield run
    for child in children:
        child.kill()
        child.wait()


def machine(capfd: Any, *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["doctor", "--json", *arguments])
    return status, json.loads(capfd.readouterr().out)


@NEEDED
def test_p4_14_a_ledger_that_can_be_relied_on_is_status_0(start, capfd):
    """4.14: notes are for reading, not for failing."""
    status, report = machine(capfd, "--ledger", start(*KEPT))
    assert (status, report["worst"]) == (0, "note")
    assert {"code", "severity", "found", "cost", "do"} == set(report["findings"][0])


@NEEDED
@pytest.mark.parametrize(
    ("options", "code", "severity"),
    [
        (("--save", "", "--appendonly", "no"), "persists-nothing", "unsafe"),
        ((*KEPT, "--maxmemory-policy", "allkeys-lru"), "evicts-keys", "unsafe"),
        ((*KEPT, "--appendfsync", "everysec"), "fsync-each-second", "warning"),
    ],
)
def test_p4_14_the_doctor_says_what_is_wrong_what_it_costs_and_what_to_do(start, capfd, options, code, severity):
    """4.14: as a text too; status 1."""
    ledger = start(*options)
    status, report = machine(capfd, "--ledger", ledger)
    (found,) = [finding for finding in report["findings"] if finding["code"] == code]
    assert (status, found["severity"]) == (1, severity)
    assert main(["doctor", "--ledger", ledger]) == 1
    text = capfd.readouterr().out
    assert f"{severity.upper()}" in text
    assert f"[{code}]" in text
    assert " ".join(found["cost"].split()[:4]) in text
    assert "CONFIG SET" in text


@NEEDED
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--save", "", "--appendonly", "no"), "persists-nothing"),
        ((*KEPT, "--maxmemory-policy", "volatile-ttl"), "evicts-keys"),
    ],
)
def test_p4_14_k4_12_c_serve_refuses_a_ledger_that_forgets_and_says_how_to_mend_it(start, capfd, options, code):
    """4.14, K4-12 (c): status 2, before it listens to anyone."""
    assert main(["serve", "--port", "0", "--ledger", start(*options)]) == 2
    said = capfd.readouterr().err
    assert f"[{code}]" in said
    assert "CONFIG SET" in said
    assert "--allow-unsafe-ledger" in said
    assert "listening" not in said


@NEEDED
def test_p4_14_waiting_for_a_disk_needs_a_server_that_can_say_so(start, capfd, monkeypatch):
    """4.14: WAITAOF is looked for, never assumed; where it is missing nothing lets the gateway start."""
    ledger = start(*KEPT, "--rename-command", "WAITAOF", "") if _knows_waitaof() else start(*KEPT)
    monkeypatch.setenv("ONCEGATE_LEDGER_WAIT_FSYNC", "true")
    assert main(["serve", "--port", "0", "--allow-unsafe-ledger", "--ledger", ledger]) == 2
    said = capfd.readouterr().err
    assert "[waitaof-missing]" in said
    assert "upgrade to Redis 7.2" in said


def _knows_waitaof() -> bool:
    program = shutil.which("redis-server") or shutil.which("valkey-server") or ""
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split("v=")[1]
    return tuple(int(part) for part in version.split(".")[:2]) >= (7, 2)


@NEEDED
def test_p9_3_the_doctor_tells_no_password(start, capfd):
    """9.3: neither of a ledger that it reached, nor of one that refused it."""
    ledger = start(*KEPT, "--requirepass", "hunter2")
    path = ledger.removeprefix("unix://")
    for url, expected in ((f"unix://:hunter2@{path}", 0), (f"unix://:hunter3@{path}", 2)):
        for more in ([], ["--json"]):
            assert main(["doctor", "--ledger", url, *more]) == expected
            printed = capfd.readouterr()
            assert "hunter" not in printed.out + printed.err
            assert "***@" in printed.out + printed.err


@pytest.mark.parametrize("url", ["redis://127.0.0.1:9/0", "redis+cluster://127.0.0.1:9", "redis+cluster://a..b:9"])
@pytest.mark.parametrize("command", ["doctor", "serve"])
def test_p4_14_a_ledger_that_cannot_be_reached_is_status_2_and_one_line(capfd, command, url):
    """4.14"""
    assert main([command, "--ledger", url, *(["--port", "0"] if command == "serve" else [])]) == 2
    *_, line = capfd.readouterr().err.splitlines()
    assert line.startswith(f"oncegate {command}: the ledger {url} does not answer")


def test_p4_14_the_doctor_makes_no_embedded_ledger_by_looking(empty_folder, capfd):
    """4.14"""
    assert main(["doctor"]) == 2
    assert "there is no ledger in" in capfd.readouterr().err
    assert list(empty_folder.iterdir()) == []


@NEEDED
def test_p4_14_the_embedded_ledger_passes_its_own_examination(empty_folder, capfd):
    """4.14: every write synced, nothing evicted."""
    ledger = f"local:{empty_folder / 'ledger'}"
    made = ["keys", "create", "--role", "runtime", "--company", "acme", "--principal", "chat", "--ledger", ledger]
    assert main(made) == 0
    capfd.readouterr()
    status, report = machine(capfd, "--ledger", ledger)
    assert status == 0
    assert {"fsync-each-write", "no-eviction", "appends"} <= {finding["code"] for finding in report["findings"]}


def test_p4_14_the_memory_ledger_says_that_nothing_survives(capfd):
    """4.14: status 1, though serve starts on it: it was asked for by name."""
    status, report = machine(capfd, "--ledger", "memory")
    assert (status, [finding["code"] for finding in report["findings"]]) == (1, ["memory-ledger"])
