"""K7-02: twenty at once in four processes, one order a round, whoever is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

from benchmarks.sdk.race_worker import close_store, open_store
from merchant_sdk.store import Store

PROCESSES: Final = 4
THREADS: Final = 5
KILL_EVERY: Final = 10
WAIT_WITHIN_S: Final = 30.0
_WAITING: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@dataclass(frozen=True, slots=True)
class RaceResult:
    """`wrong` tells each round that was not one order and equal answers from all who lived."""

    rounds: int
    answers: int
    kills: int
    orders: int
    wrong: tuple[str, ...]


class Worker:
    """One process, spoken to in lines."""

    def __init__(self, database: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sdk.race_worker", database, str(THREADS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout

    def say(self, line: str) -> None:
        """Hand it one line."""
        self._stdin.write(line + "\n")

    def hear(self, lines: int) -> list[str]:
        """Its next lines; empty ones if it died."""
        return [self._stdout.readline().strip() for _ in range(lines)]

    def kill(self) -> None:
        """SIGKILL, wherever it is."""
        self.process.kill()
        self.process.wait()
        with suppress(BrokenPipeError):
            self._stdin.close()
        self._stdout.close()


def race(database: str, rounds: int, *, say: Callable[[str], None] = lambda line: None) -> RaceResult:
    """Run `rounds` rounds on this database (see `open_store`), which has an `orders` table. In each tenth, one of the
    four is killed inside its transaction, its order inserted and not committed, while the other fifteen wait for it; on
    PostgreSQL they are seen waiting."""
    store = open_store(database)
    wrong: list[str] = []
    answers = kills = 0
    with ExitStack() as stack:
        workers = [Worker(database) for _ in range(PROCESSES)]
        stack.callback(lambda: [worker.kill() for worker in workers])
        for number in range(rounds):
            turn = f"r{number}"
            doomed = workers[number // KILL_EVERY % PROCESSES] if number % KILL_EVERY == KILL_EVERY - 1 else None
            if doomed is not None:
                doomed.say(f"die {turn}")
                if doomed.hear(1) != ["inside"]:
                    wrong.append(f"{turn}: the doomed worker did not get inside")
            living = [worker for worker in workers if worker is not doomed]
            for worker in living:
                worker.say(turn)
            if doomed is not None:
                if not _all_wait(database, len(living) * THREADS):
                    wrong.append(f"{turn}: the others did not wait for the doomed worker")
                doomed.kill()
                kills += 1
                workers[workers.index(doomed)] = reborn = Worker(database)
                # Its twin after the restart asks as well, so that there are twenty answers again.
                reborn.say(turn)
                living.append(reborn)
            heard = [line for worker in living for line in worker.hear(THREADS)]
            answers += len(heard)
            wrong += _judged(store, turn, heard)
            if number % 50 == 49:
                say(f"  {number + 1} rounds, {kills} kills, {len(wrong)} wrong")
    with store.reading() as db:
        made = len(db.execute("SELECT id FROM orders WHERE buyer LIKE 'r%'").fetchall())
    close_store(store)
    return RaceResult(rounds, answers, kills, made, tuple(wrong))


def _all_wait(database: str, others: int) -> bool:
    """Whether so many wait for somebody's lock, within a while. Nobody can see that on SQLite, where it is taken for
    granted."""
    if "=" not in database:
        return True
    import psycopg

    deadline = time.monotonic() + WAIT_WITHIN_S
    with psycopg.connect(database, autocommit=True) as db:
        while db.execute(_WAITING).fetchone() != (others,):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
    return True


def _judged(store: Store, turn: str, heard: list[str]) -> list[str]:
    with store.reading() as db:
        ids = [row[0] for row in db.execute(f"SELECT id FROM orders WHERE buyer = '{turn}'").fetchall()]
    if len(ids) == 1 and heard == [f"{turn} {ids[0]}"] * (PROCESSES * THREADS):
        return []
    return [f"{turn}: orders {ids}, answers {sorted(set(heard))}"]
