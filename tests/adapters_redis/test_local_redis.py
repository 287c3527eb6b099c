"""The embedded ledger, with real processes: durable, exclusive, and gone when its gateway is gone."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

import pytest

from gateway.adapters import child_guard
from gateway.adapters.local_redis import LedgerInUse, LocalRedis, LocalRedisFailed
from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_program import LocalRedisError, NoRedisServer, find_redis_server
from gateway.adapters.redis_urls import LedgerUrl

Guard = Literal["signal", "watch"]
GUARDS = [pytest.param("signal", marks=pytest.mark.skipif(sys.platform != "linux", reason="a Linux feature")), "watch"]
needs_redis = pytest.mark.usefixtures("redis_installed")


def _alive(pid: int) -> bool:
    """A zombie that nobody has collected yet counts as gone."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in ("", "Z")


def _free(lock: Path) -> bool:
    """Whether nobody, a forgotten child included, holds the folder any more."""
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


async def _ask(ledger: LocalRedis, *command: Any) -> Any:
    assert ledger.socket is not None
    client = open_client(LedgerUrl.for_socket(ledger.socket))
    try:
        return await client.execute_command(*command)
    finally:
        await client.aclose()


async def _pid(ledger: LocalRedis) -> int:
    return int((await _ask(ledger, "INFO", "server"))["process_id"])


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@needs_redis
@pytest.mark.parametrize("guard", GUARDS)
async def test_data_survives_a_stop_and_a_stop_leaves_no_process(tmp_path: Path, guard: Guard) -> None:
    ledger = LocalRedis(tmp_path / 'it\'s a "ledger" $HOME', guard=guard)
    socket = await ledger.start()
    await _ask(ledger, "SET", "order", "placed")
    server, child = await _pid(ledger), ledger._process.pid  # type: ignore[union-attr]
    await ledger.stop()
    assert not _alive(server)
    assert not _alive(child)
    assert not socket.exists()
    async with ledger:
        assert await _ask(ledger, "GET", "order") == b"placed"
    await ledger.stop()  # once more does nothing


@needs_redis
async def test_p4_14_it_syncs_every_write_evicts_nothing_and_opens_no_port(ledger: LocalRedis) -> None:
    """4.14: the embedded ledger is fit to guard money as it comes."""
    wanted = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "port": "0", "save": ""}
    for name, value in wanted.items():
        assert await _ask(ledger, "CONFIG", "GET", name) == [name.encode(), value.encode()]


@needs_redis
def test_it_serves_on_uvloop_and_a_restart_costs_no_error_there_either(tmp_path: Path) -> None:
    """The loop that serves in production starts the child, and sees a hang-up before it writes, as asyncio does."""

    async def scenario() -> None:
        async with LocalRedis(tmp_path) as ledger:
            assert ledger.socket is not None
            client = open_client(LedgerUrl.for_socket(ledger.socket))
            commands = Commands(client)
            await asyncio.gather(*(commands.do("SET", f"k{n}", n) for n in range(100)))
            await ledger.stop()
            await ledger.start()
            assert await commands.do("GET", "k99") == b"99"
            await commands.close()
            await client.aclose()

    pytest.importorskip("uvloop").run(scenario())


@needs_redis
async def test_only_its_user_can_read_it(ledger: LocalRedis) -> None:
    for path in (ledger.folder, ledger.folder / "data", ledger.folder / "redis.log", ledger.socket):
        assert path is not None
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@needs_redis
async def test_a_second_start_on_the_same_folder_is_refused(ledger: LocalRedis) -> None:
    """Two servers on one folder would grant one claim twice."""
    await _ask(ledger, "SET", "order", "placed")
    with pytest.raises(LedgerInUse, match="in use") as caught:
        await LocalRedis(ledger.folder, lock_wait_s=0.05).start()
    assert str(ledger.folder) in str(caught.value)
    assert await _ask(ledger, "GET", "order") == b"placed"


@needs_redis
async def test_a_start_waits_for_a_predecessor_that_is_still_ending(ledger: LocalRedis) -> None:
    successor = LocalRedis(ledger.folder)
    starting = asyncio.ensure_future(successor.start())
    await asyncio.sleep(0)
    assert not starting.done()
    await ledger.stop()
    await starting
    await successor.stop()


@needs_redis
@pytest.mark.parametrize("guard", GUARDS)
async def test_k4_01_a_killed_gateway_takes_its_redis_along_and_the_data_stays(
    tmp_path: Path, eventually: Any, guard: Guard
) -> None:
    """K4-01: kill -9 of the gateway; the next start gets the folder, and what was written is there."""
    script = Path(__file__).with_name("gateway_process.py")
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, str(script), str(tmp_path), guard, stdout=subprocess.PIPE
    )
    assert gateway.stdout is not None
    redis = json.loads(await gateway.stdout.readline())["redis"]
    assert _alive(redis)
    with pytest.raises(LedgerInUse):
        await LocalRedis(tmp_path, lock_wait_s=0.05).start()
    gateway.kill()
    await gateway.wait()
    await eventually(lambda: not _alive(redis))
    async with LocalRedis(tmp_path) as ledger:
        assert await _ask(ledger, "GET", "order") == b"placed"


@needs_redis
@pytest.mark.parametrize("guard", GUARDS)
async def test_k8_01_the_terminals_interrupt_does_not_reach_it(tmp_path: Path, guard: Guard) -> None:
    """K8-01: Ctrl-C goes to the terminal's process group; the ledger outlives it, so that calls can settle."""
    async with LocalRedis(tmp_path, guard=guard) as ledger:
        for pid in (await _pid(ledger), ledger._process.pid):  # type: ignore[union-attr]
            assert os.getsid(pid) != os.getsid(0)
            assert os.getpgid(pid) != os.getpgid(0)


@needs_redis
async def test_a_redis_that_will_not_end_is_killed(tmp_path: Path) -> None:
    ledger = LocalRedis(tmp_path, stop_timeout_s=0.05)
    await ledger.start()
    pid = await _pid(ledger)
    os.kill(pid, signal.SIGSTOP)  # it cannot act on the polite request any more
    await ledger.stop()
    assert not _alive(pid)


@needs_redis
@pytest.mark.parametrize("guard", GUARDS)
async def test_a_redis_that_ends_by_itself_is_noticed_and_can_be_started_anew(tmp_path: Path, guard: Guard) -> None:
    ledger = LocalRedis(tmp_path, guard=guard)
    await ledger.start()
    os.kill(await _pid(ledger), signal.SIGKILL)
    assert await ledger.wait() != 0
    await ledger.stop()
    async with ledger:
        assert await _ask(ledger, "PING")


@needs_redis
async def test_a_folder_too_deep_for_a_socket_gets_one_elsewhere(tmp_path: Path) -> None:
    ledger = LocalRedis(tmp_path / ("deep" * 30))
    socket = await ledger.start()
    assert ledger.folder not in socket.parents
    assert socket.is_relative_to(tempfile.gettempdir())
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    await _ask(ledger, "SET", "order", "placed")
    await ledger.stop()
    assert not socket.parent.exists()
    async with ledger:
        assert await _ask(ledger, "GET", "order") == b"placed"


@needs_redis
async def test_a_redis_that_ends_at_start_is_shown_by_its_last_log_lines(tmp_path: Path) -> None:
    damaged = tmp_path / "data" / "appendonlydir"
    damaged.mkdir(parents=True)
    (damaged / "appendonly.aof.manifest").write_text("not a manifest\n")
    ledger = LocalRedis(tmp_path)
    with pytest.raises(LocalRedisFailed, match="manifest") as caught:
        await ledger.start()
    assert "redis.log" in str(caught.value)
    (damaged / "appendonly.aof.manifest").unlink()
    async with ledger:  # the failed start let go of the folder
        assert await _ask(ledger, "PING")


async def test_a_start_that_takes_too_long_is_given_up_and_cleaned_up(tmp_path: Path) -> None:
    program = _script(tmp_path / "redis-server", "exec sleep 600")
    with pytest.raises(LocalRedisFailed, match="not ready within"):
        await LocalRedis(tmp_path / "x", program=program, ready_timeout_s=0.2).start()
    assert _free(tmp_path / "x" / "lock")


async def test_a_folder_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalRedisError, match=r"file.* cannot hold the ledger"):
        await LocalRedis(tmp_path / "file", program=Path("/bin/true")).start()


async def test_without_a_redis_server_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoRedisServer, match="apt-get install redis-server") as caught:
        await LocalRedis(tmp_path / "x").start()
    assert "--ledger memory" in str(caught.value)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("name", "prints", "fit"),
    [
        ("redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0", True),
        ("redis-server", "Redis server v=8.2.3 sha=00000000:1 malloc=jemalloc-5.3.0 bits=64 build=0", True),
        ("valkey-server", "Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0", True),
        ("redis-server", "Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0", False),
        ("redis-server", "something else", False),
    ],
)
async def test_only_a_server_of_version_7_or_newer_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, prints: str, fit: bool
) -> None:
    program = _script(tmp_path / name, f"echo '{prints}'")
    monkeypatch.setenv("PATH", str(tmp_path))
    if fit:
        assert await find_redis_server() == program
    else:
        with pytest.raises(NoRedisServer, match=rf"{name} is "):
            await find_redis_server()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own wish is a Linux feature")
def test_a_child_whose_parent_ended_first_never_runs(tmp_path: Path) -> None:
    """The wish to die with a parent that is already gone would never come true."""
    lifeline, ours = os.pipe()
    words = [str(os.getpid() + 1), str(lifeline), "signal", "/usr/bin/touch", str(tmp_path / "ran")]
    result = subprocess.run(
        [sys.executable, "-I", "-S", child_guard.__file__, *words], pass_fds=[lifeline], check=False
    )
    os.close(lifeline)
    os.close(ours)
    assert result.returncode == 1
    assert not (tmp_path / "ran").exists()
