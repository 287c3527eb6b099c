"""Many histories on all cores, and what they amount to."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.faults.coverage import CELLS, KINDS, UNREACHABLE, Cell, watched
from tests.faults.run import run
from tests.faults.themes import plan_of

CHUNK: Final = 500


@dataclass
class Figures:
    """Sums over histories. `broken`: seed, promise, what."""

    histories: int = 0
    seconds: float = 0.0
    broken: list[tuple[int, str, str]] = field(default_factory=list)
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
            "broken": [{"seed": seed, "promise": promise, "what": what} for seed, promise, what in self.broken],
            "faults": dict(self.faults.most_common()),
            "answers": dict(self.answers.most_common()),
            "excused": dict(self.excused),
            "cells": {" ".join(cell): times for cell, times in sorted(self.cells.items())},
            "cells_missed": [" ".join(cell) for cell in self.missed_cells],
            "cells_unreachable": {" ".join(cell): why for cell, why in UNREACHABLE.items()},
            "kinds_missed": self.missed_kinds,
        }


def some(seeds: range) -> Figures:
    """Run these, here and now."""
    figures = Figures()
    with watched() as cells:
        for seed in seeds:
            result = run(plan_of(seed))
            figures.histories += 1
            figures.faults.update(result.faults)
            figures.answers.update(result.answers)
            figures.excused.update(result.excused)
            figures.broken += [(seed, *result.broken[0])] if result.broken else []
    figures.cells = cells
    return figures


def many(first: int, number: int, say: Callable[[Figures], None], *, workers: int | None = None) -> Figures:
    """Run `number` histories from `first` on in a pool of processes; `say` is told how far it is. Stops early once
    enough of them broke."""
    figures, began = Figures(), time.monotonic()
    chunks = [range(at, min(at + CHUNK, first + number)) for at in range(first, first + number, CHUNK)]
    with multiprocessing.get_context("spawn").Pool(workers or os.cpu_count()) as pool:
        for part in pool.imap_unordered(some, chunks):
            figures.add(part)
            figures.seconds = time.monotonic() - began
            say(figures)
            if len(figures.broken) >= 20:
                pool.terminate()
                break
    figures.broken.sort()
    return figures
