"""Commands that work on this machine: keys on a ledger of their own, ports that are taken, what is missing."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import shutil
import socket
from functools import partial
from pathlib import Path

import pytest

from gateway.adapters.local_redis import LocalRedis
from gateway.cli import main

needs_redis = pytest.mark.skipif(
    not any(map(shutil.which, ("redis-server", "valkey-server"))),
    reason="there is no redis-server or valkey-server on PATH",
)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("action", [["list"], ["revoke", "key_1"], ["list", "--json"]])
def test_looking_at_keys_makes_no_ledger(action, empty_folder, capfd):
    """An empty one, made by looking, would say that there are no keys; the folder that was looked in is named."""
    assert main(["keys", *action]) == 1
    printed = capfd.readouterr()
    assert str(empty_folder / ".oncegate") in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""
    assert list(empty_folder.iterdir()) == []


@needs_redis
def test_p9_3_keys_say_which_ledger_they_are_in_and_a_new_one_is_labelled(empty_folder, capfd):
    """9.3: shown once, under its name, on a line of its own; which ledger is said beside it, not within JSON."""
    ledger = f"local:{empty_folder / 'ledger'}"
    made = ["keys", "create", "--role", "runtime", "--company", "acme", "--principal", "chat", "--ledger", ledger]
    assert main(made) == 0
    printed = capfd.readouterr()
    id_line, label, key, step = printed.out.splitlines()
    assert id_line.startswith("id: key_")
    assert label == "key (shown once):"
    assert key.startswith("og_")
    assert step.startswith("next: ")
    assert printed.err == f"oncegate keys: ledger {ledger}\n"
    id_ = id_line.removeprefix("id: ")
    assert main(["keys", "list", "--json", "--ledger", ledger]) == 0
    printed = capfd.readouterr()
    assert [row["id"] for row in json.loads(printed.out)["keys"]] == [id_]
    assert key not in printed.out + printed.err
    assert main(["keys", "revoke", id_, "--ledger", ledger]) == 0
    capfd.readouterr()
    assert main(["keys", "list", "--ledger", ledger]) == 0
    assert capfd.readouterr().out == "no keys\n"


@needs_redis
def test_an_embedded_ledger_beside_its_gateway_is_asked_through_its_redis(empty_folder, capfd, monkeypatch):
    """Its folder is open to one process, and the advice, pasted, works beside that one."""
    monkeypatch.setattr("gateway.ledger.LocalRedis", partial(LocalRedis, lock_wait_s=0.05))

    async def beside_a_gateway() -> None:
        async with LocalRedis(Path(".oncegate")):
            for command in ("doctor", "keys list"):
                assert await asyncio.to_thread(main, command.split()) == 2
                *_, said = capfd.readouterr().err.splitlines()
                assert "is open in another process" in said
                advised = shlex.split(said.partition("beside it: ")[2])
                assert advised[:-2] == ["oncegate", *command.split()]
                assert await asyncio.to_thread(main, advised[1:]) == 0

    asyncio.run(beside_a_gateway())


def test_a_taken_port_is_one_line_and_exit_status_2(capfd):
    """Found before anything is opened, whoever has it."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["serve", "--dev", "--ledger", "memory", "--port", str(port)]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"oncegate serve: port {port} of 127.0.0.1 is taken")


def test_serve_leaves_the_log_of_its_process_as_it_was():
    """Whoever calls it has a log of their own, with the levels that they chose."""
    ours = [logging.getLogger(name) for name in ("oncegate", "gateway")]
    before = [each.level for each in ours], list(logging.getLogger().handlers)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        assert main(["serve", "--dev", "--ledger", "memory", "--port", taken, "--log-level", "debug"]) == 2
    assert ([each.level for each in ours], list(logging.getLogger().handlers)) == before


def test_an_address_that_is_not_this_machines_is_one_line_and_exit_status_2(capfd):
    """TEST-NET-1 belongs to nobody."""
    assert main(["serve", "--ledger", "memory", "--host", "192.0.2.1", "--port", "0"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("oncegate serve: port 0 of 192.0.2.1 cannot be listened on: ")


def test_the_demo_without_a_redis_server_is_one_line(monkeypatch, capfd):
    """What is missing, and two ways out."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main(["demo"]) == 2
    printed = capfd.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("oncegate demo: the embedded ledger needs redis-server")
    assert "--ledger memory" in line
    assert printed.out == ""
