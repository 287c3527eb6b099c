"""A log that cannot be written: the call wins (K8-12)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from flow_client import Api
from flow_merchant import RawMerchant
from flow_processes import START_S, RedisProcess, clean_environment

from benchmarks.processes import free_port

MORE_THAN_A_PIPE_HOLDS = 1_500
"""Lines of some hundred bytes each, at a pipe of 64 KiB."""


def unread_pipe() -> tuple[int, list[int]]:
    reading, writing = os.pipe()
    return writing, [reading, writing]


def closed_pipe() -> tuple[int, list[int]]:
    reading, writing = os.pipe()
    os.close(reading)
    return writing, [writing]


def full_disk() -> tuple[int, list[int]]:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    descriptor = os.open("/dev/full", os.O_WRONLY)
    return descriptor, [descriptor]


@pytest.fixture(params=[unread_pipe, closed_pipe, full_disk], ids=lambda each: each.__name__)
def unheard(request: pytest.FixtureRequest, redis_process: RedisProcess, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A gateway whose standard error leads nowhere: its URL, and its process id."""
    error, opened = request.param()
    port = free_port()
    flags = ["--dev", "--allow-unsafe-ledger", "--ledger", redis_process.url, "--port", str(port)]
    child = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli", "serve", *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=error,
        cwd=tmp_path,
        env=clean_environment(),
    )
    try:
        deadline = time.monotonic() + START_S
        while not listens(port):
            assert child.poll() is None, "it did not start"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}", child.pid
        child.send_signal(signal.SIGTERM)
        assert child.wait(START_S) == 0
    finally:
        child.kill()
        child.wait()
        for each in opened:
            os.close(each)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


async def test_k8_12_a_log_that_cannot_be_written_loses_no_call_and_stops_none(
    api: Api, merchant: RawMerchant, unheard: tuple[str, int]
) -> None:
    """K8-12: a full disk, a reader that has gone, a pipe that nobody empties: it starts, answers far more refusals
    than a pipe holds, makes the call, records it with its events, and stops with status 0."""
    shop = api.by(url=lambda: unheard[0])
    await shop.register("place_order", merchant.url)
    for _ in range(MORE_THAN_A_PIPE_HOLDS // 50):
        bad = {"company": shop.company, "conversation": "c", "tool": "no_such", "arguments": {}}
        for _ in range(50):
            assert (await shop.send("POST", "/v1/calls", bad)).status == 404
    assert (await shop.call("l1")).decision == "proceed"
    assert (await shop.call("l1")).decision == "replay"
    kinds = [event["type"] for event in await api.events()]
    assert kinds[-2:] == ["effect.executing", "effect.succeeded"] or kinds[-3] == "effect.executing"
    assert merchant.hits == 1
