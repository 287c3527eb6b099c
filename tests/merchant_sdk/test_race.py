"""K7-02: twenty at once, four processes, one order a round."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from merchant_sdk import SQLiteStore

PROCESSES, THREADS = 4, 5
WORKER = Path(__file__).with_name("race_worker.py")


class Worker:
    def __init__(self, database: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), str(database), str(THREADS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def say(self, line: str) -> None:
        self.stdin.write(line + "\n")

    def hear(self, lines: int) -> list[str]:
        return [self.stdout.readline().strip() for _ in range(lines)]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()


@pytest.fixture
def workers(store: SQLiteStore, database: Path) -> Iterator[list[Worker]]:
    made = [Worker(database) for _ in range(PROCESSES)]
    yield made
    for worker in made:
        worker.end()


@pytest.mark.parametrize("rounds", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_k7_02_twenty_simultaneous_calls_are_one_order_a_round(
    workers: list[Worker], rows: Callable[[], list[Any]], rounds: int
) -> None:
    """K7-02: every reply names the round's order; the losers waited, none failed."""
    for number in range(rounds):
        for worker in workers:
            worker.say(f"r{number}")
        replies = [reply for worker in workers for reply in worker.hear(THREADS)]
        assert replies == [f"r{number} {number + 1}"] * (PROCESSES * THREADS)
    assert [buyer for _, buyer, _ in rows()] == [f"r{number}" for number in range(rounds)]


def test_k7_02_a_worker_killed_inside_its_work_leaves_nothing_behind(
    workers: list[Worker], rows: Callable[[], list[Any]]
) -> None:
    """K7-02: it had inserted the order and not committed; the others are waiting for it when it dies."""
    doomed, *others = workers
    doomed.say("die r0")
    assert doomed.hear(1) == ["inside"]
    for worker in others:
        worker.say("r0")
    doomed.process.kill()
    assert {reply for worker in others for reply in worker.hear(THREADS)} == {"r0 1"}
    assert rows() == [(1, "r0", "pizza")]
