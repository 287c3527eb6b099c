"""Searches on all cores, each in a process of its own: what it met is let go of when it ends."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

from tests.small_world.search import Found, search
from tests.small_world.situations import HASTY, SITUATIONS, Trouble
from tests.small_world.world import World

ALL: Final = {situation.name: situation for situation in (*SITUATIONS, HASTY)}
Asked = tuple[str, Trouble]


class Searched(NamedTuple):
    """`memory_mb`: the most that its process held."""

    name: str
    trouble: Trouble
    found: Found
    seconds: float
    memory_mb: int


def searches(names: Sequence[str], *, near: bool) -> list[Asked]:
    """Situations and troubles, all of them if none is named; the widest first, since they take longest."""
    chosen = [situation for situation in ALL.values() if not names or situation.name in names]
    asked = [
        (situation.name, trouble)
        for situation in chosen
        for trouble in ((situation.near,) if near else situation.searches)
    ]
    return sorted(asked, key=lambda each: _width(each[1]), reverse=True)


def many(asked: Sequence[Asked], *, workers: int | None = None) -> Generator[Searched]:
    """Each search as it ends."""
    with multiprocessing.get_context("spawn").Pool(workers or os.cpu_count(), maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_searched, asked)


def _width(trouble: Trouble) -> int:
    return sum((trouble.crashes, trouble.resends, trouble.delayed, trouble.ticks, trouble.resolves, trouble.decisions))


def _searched(asked: Asked) -> Searched:
    name, trouble = asked
    started = time.monotonic()
    found = search(World(ALL[name].under(trouble)))
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Searched(name, trouble, found, time.monotonic() - started, memory_mb)
