"""Lines to standard error: one that cannot be written is lost, and nobody waits for it (K8-12)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.commands import error_lines
from gateway.commands.error_lines import LONGEST, MOST_WAITING, ErrorLines


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def read_all(end: int) -> bytes:
    text = b""
    while part := os.read(end, 65_536):
        text += part
    return text


def test_lines_come_out_whole_and_in_order(pipe: tuple[int, int]) -> None:
    lines = ErrorLines(pipe[1])
    lines.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    lines.say("first")
    lines.handle(logging.makeLogRecord({"msg": "caf\ud83d", "levelname": "INFO"}))
    lines.handle(logging.makeLogRecord({"msg": "%d", "args": ("x",), "name": "a.b"}))
    lines.say("x" * (LONGEST + 1))
    lines.close()
    lines.close()
    os.close(pipe[1])
    first, odd, unmade, long = read_all(pipe[0]).split(b"\n")[:-1]
    assert (first, odd) == (b"first", b"INFO caf\\ud83d")
    assert unmade == b"a log line of a.b could not be made: TypeError"
    assert long == b"x" * LONGEST


def test_k8_12_a_pipe_that_nobody_reads_holds_nothing_up_and_says_what_was_lost(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """K8-12: far more than a pipe and the queue hold; whoever says it goes on, and once read the loss is told of."""
    monkeypatch.setattr(error_lines, "LAST_WORDS_S", 60.0)  # a slow machine needs more than a second to write them all
    lines = ErrorLines(pipe[1])
    for n in range(3 * MOST_WAITING):
        lines.say(f"line {n} {'x' * 80}")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_all, pipe[0])
        lines.close()
        os.close(pipe[1])
        read = reading.result().splitlines()
    told = [line for line in read if line.startswith(b"oncegate: ")]
    written = [int(line.split()[1]) for line in read if line.startswith(b"line ")]
    assert written == sorted(set(written))
    assert all(line.endswith(b" lines of the log could not be written") for line in told)
    lost = sum(int(line.split()[1]) for line in told)
    assert lost > 0
    assert len(written) + lost == 3 * MOST_WAITING


def test_k8_12_a_pipe_that_is_closed_and_a_disk_that_is_full_raise_nothing(pipe: tuple[int, int]) -> None:
    """K8-12"""
    os.close(pipe[0])
    full = Path("/dev/full")
    descriptors = [pipe[1]]
    if full.exists():
        descriptors.append(os.open(full, os.O_WRONLY))
    for descriptor in descriptors:
        lines = ErrorLines(descriptor)
        for _ in range(100):
            lines.say("nobody hears it")
        lines.close()
    for extra in descriptors[1:]:
        os.close(extra)
