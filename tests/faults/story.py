"""A history told: its plan, everything that happened in order, and what broke."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.plan import Plan
from tests.faults.run import Result, World, run
from tests.faults.shrink import smallest
from tests.faults.themes import plan_of


def told(result: Result) -> str:
    """The whole story of one history that was run with `telling`."""
    broken = [f"  broken: promise {promise}: {what}" for promise, what in result.broken]
    return "\n".join([*result.plan.lines(), *result.story, *(broken or ["  nothing broke"])])


def report(seed: int, *, change: Callable[[World], object] | None = None) -> str:
    """What to print of a failing seed: its whole story, its smallest form, and how to run it again."""
    plan = plan_of(seed)
    whole = run(plan, telling=True, change=change)
    if not whole.broken:
        return told(whole)
    promise = whole.broken[0][0]

    def fails(smaller: Plan) -> bool:
        found = run(smaller, change=change).broken
        return bool(found) and found[0][0] == promise

    small = run(smallest(plan, fails), telling=True, change=change)
    again = f"again: python -m tests.faults --seed {seed}"
    return "\n".join([told(whole), "", "the smallest form found:", told(small), "", again])
