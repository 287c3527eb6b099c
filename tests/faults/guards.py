"""The guards of the product, taken out one at a time: a simulator that lets one go unnoticed proves nothing.

Each guard names its promise, what is put in its place, and which histories to look for it in. `python -m
tests.faults --guards` says how many histories each needed.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.faults.plan import Plan
from tests.faults.run import World, run
from tests.faults.themes import plan_of

KEEP_MS: Final = 86_400_000


Change = tuple[Any, str, Any]


@dataclass(frozen=True)
class Guard:
    """One guard. `changes`: what stands in its place; `world`: the same for what a simulated part guards."""

    name: str
    promise: str
    changes: tuple[Change, ...] = ()
    world: Callable[[World], object] = field(default=lambda world: None)
    fits: Callable[[Plan], bool] = field(default=lambda plan: True)
    """Whether a history is worth running: one that cannot meet the guard is passed over."""


@contextmanager
def without(guard: Guard) -> Generator[None]:
    """The product without it, meanwhile."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in guard.changes]
    for owner, name, value in guard.changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@dataclass(frozen=True)
class Caught:
    """How a missing guard was noticed: the seed, after how many histories, and what broke."""

    seed: int
    histories: int
    broken: tuple[str, str]


def caught(guard: Guard, seeds: Iterable[int]) -> Caught | None:
    """The first of these histories that breaks without the guard; None if none does."""
    histories = 0
    with without(guard):
        for seed in seeds:
            plan = plan_of(seed)
            if not guard.fits(plan):
                continue
            histories += 1
            result = run(plan, change=guard.world)
            if result.broken:
                return Caught(seed, histories, result.broken[0])
    return None


def changed_source(owner: Any, name: str, change: Callable[[str], str]) -> Any:
    """A method with something of its text changed."""
    function = getattr(owner, name)
    text = "class _:\n" + inspect.getsource(function)
    module = inspect.getmodule(function)
    made: dict[str, Any] = {}
    changed = change(text)
    assert changed != text, f"{name} has changed: look at what guards it"
    exec(compile(changed, f"without a guard: {name}", "exec"), {**vars(module)}, made)
    return vars(made["_"])[name]


def theme(*names: str) -> Callable[[Plan], bool]:
    return lambda plan: plan.theme in names


MOST_SEEDS: Final = 20_000
"""How far to look for a history that notices."""


def seeds(limit: int) -> Iterable[int]:
    """Where guards are looked for: far from the seeds that `make faults` runs."""
    return itertools.islice(itertools.count(1_000_000), limit)
