"""Many histories on all cores, and what they amount to."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.faults.coverage import CELLS, KINDS, UNREACHABLE, Cell, watched
from tests.faults.every_step import every_step, every_step_of_efforts
from tests.faults.run import Result, run
from tests.faults.shop import TOOLS
from tests.faults.story import report, told
from tests.faults.themes import plan_of

CHUNK: Final = 500
TOLD: Final = 2
"""Stories kept of a part: making them small takes time."""
ENOUGH: Final = 20
EFFORTS: Final = "efforts"
"""What runtimes run themselves, and approvals."""


class Broken(NamedTuple):
    """One history in which something broke."""

    where: str
    promise: str
    what: str
    story: str = ""


@dataclass
class Figures:
    """Sums over histories."""

    histories: int = 0
    seconds: float = 0.0
    broken: list[Broken] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    cells: Counter[Cell] = field(default_factory=Counter)

    def add(self, other: Figures) -> None:
        self.histories += other.histories
        self.broken += other.broken
        for mine, theirs in (
            (self.faults, other.faults),
            (self.answers, other.answers),
            (self.excused, other.excused),
            (self.cells, other.cells),
        ):
            mine.update(theirs)

    @property
    def missed_kinds(self) -> list[str]:
        return sorted(KINDS - {kind for kind, times in self.faults.items() if times})

    @property
    def missed_cells(self) -> list[Cell]:
        return sorted(CELLS - set(self.cells) - set(UNREACHABLE))

    @property
    def unlisted_cells(self) -> list[Cell]:
        """Cells that were called unreachable, and were reached, or that the table lacks."""
        return sorted((set(self.cells) - CELLS) | (set(self.cells) & set(UNREACHABLE)))

    def as_json(self) -> dict[str, Any]:
        return {
            "histories": self.histories,
            "seconds": round(self.seconds, 1),
            "histories_per_second": round(self.histories / self.seconds) if self.seconds else None,
            "broken": [{"where": b.where, "promise": b.promise, "what": b.what} for b in self.broken],
            "faults": dict(self.faults.most_common()),
            "answers": dict(self.answers.most_common()),
            "excused": dict(self.excused),
            "cells": {" ".join(cell): times for cell, times in sorted(self.cells.items())},
            "cells_missed": [" ".join(cell) for cell in self.missed_cells],
            "cells_unreachable": {" ".join(cell): why for cell, why in UNREACHABLE.items()},
            "kinds_missed": self.missed_kinds,
        }

    def take(self, result: Result, where: str, story: Callable[[], str]) -> None:
        """Add one history."""
        self.histories += 1
        self.faults.update(result.faults)
        self.answers.update(result.answers)
        self.excused.update(result.excused)
        if result.broken:
            promise, what = result.broken[0]
            self.broken.append(Broken(where, promise, what, story() if len(self.broken) < TOLD else ""))


def some(seeds: Iterable[int]) -> Figures:
    """Run these, here and now."""
    figures = Figures()
    with watched() as figures.cells:
        for seed in seeds:
            figures.take(run(plan_of(seed)), f"seed {seed}", lambda seed=seed: report(seed))  # type: ignore[misc]
    return figures


def steps_of(tool: str) -> Figures:
    """Every step of the short histories of this tool, or of EFFORTS."""
    figures = Figures()
    results = every_step_of_efforts() if tool == EFFORTS else every_step((tool,))
    with watched() as figures.cells:
        for result in results:
            plan = result.plan
            figures.take(result, plan.theme, lambda plan=plan: told(run(plan, telling=True)))  # type: ignore[misc]
    return figures


def _part(asked: str | range) -> Figures:
    return steps_of(asked) if isinstance(asked, str) else some(asked)


def many(first: int, number: int, say: Callable[[Figures], None], *, workers: int | None = None) -> Figures:
    """Run `number` histories from the seed `first` on, and every step of every tool, in a pool of processes; `say` is
    told how far it is. Stops early once enough of them broke."""
    figures, began = Figures(), time.monotonic()
    chunks = [range(at, min(at + CHUNK, first + number)) for at in range(first, first + number, CHUNK)]
    asked: list[str | range] = [EFFORTS, *(tool.name for tool in TOOLS), *chunks]
    with multiprocessing.get_context("spawn").Pool(workers or os.cpu_count()) as pool:
        for part in pool.imap_unordered(_part, asked):
            figures.add(part)
            figures.seconds = time.monotonic() - began
            say(figures)
            if len(figures.broken) >= ENOUGH:
                pool.terminate()
                break
    figures.broken.sort()
    return figures
