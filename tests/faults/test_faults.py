"""A slice of `make faults`: histories of faults over the real core and service, and that none would go unnoticed.

Every fault is one of tests/faults/themes.py and replies.py; every check is in invariants.py and endings.py.
"""

from __future__ import annotations

import pytest

from tests.faults.coverage import CELLS, KINDS, UNREACHABLE
from tests.faults.guards import MOST_SEEDS, Guard, caught, seeds
from tests.faults.guards_of_answers import DECLARED, GUARDS_OF_ANSWERS, ROWS
from tests.faults.guards_of_claims import GUARDS_OF_CLAIMS
from tests.faults.guards_of_efforts import GUARDS_OF_EFFORTS
from tests.faults.guards_of_ends import GUARDS_OF_ENDS
from tests.faults.guards_of_limits import GUARDS_OF_LIMITS
from tests.faults.guards_of_shops import GUARDS_OF_SHOPS
from tests.faults.many import EFFORTS, Figures, some, steps_of
from tests.faults.plan import Approver, Ask, Fault, On, Plan
from tests.faults.run import run
from tests.faults.shop import TOOLS
from tests.faults.shrink import smallest
from tests.faults.story import report
from tests.faults.themes import plan_of

SLICES = [range(at, at + 500) for at in range(0, 3_000, 500)]
LONG = [range(at, at + 5_000) for at in range(200_000, 240_000, 5_000)]


def nothing_broke(figures: Figures) -> None:
    if figures.broken:
        pytest.fail(figures.broken[0].story, pytrace=False)


@pytest.mark.parametrize("seeds_run", SLICES, ids=lambda seeds_run: str(seeds_run.start))
def test_p4_no_fault_makes_an_effect_happen_twice_or_an_answer_untrue(seeds_run: range) -> None:
    """2.1, 2.2, 2.5, 2.6, 4.1 to 4.9, 4.11, 4.14, 4.15, 5, 5.1, 5.3, 7.2 to 7.4, 7.6, 8: whatever is lost, late, killed."""
    figures = some(seeds_run)
    nothing_broke(figures)
    assert not figures.unlisted_cells, "a move that 4.1 lacks, or one that was called unreachable"


def test_p4_1_the_slice_meets_every_kind_of_fault_and_goes_through_every_reachable_move() -> None:
    """4.1: what is never met proves nothing. The seeds are chosen for what is rare."""
    rare = [seed for seed in range(5_000, 7_000) if plan_of(seed).theme in ("late workers", "days", "settled twice")]
    rare += [seed for seed in range(5_000, 6_000) if plan_of(seed).theme == "submissions"]
    figures = some(range(1_500))
    figures.add(some(rare))
    nothing_broke(figures)
    assert figures.missed_kinds == []
    assert figures.missed_cells == []
    assert set(UNREACHABLE) == set()
    assert len(CELLS) == 29
    assert len(KINDS) > 40


@pytest.mark.parametrize(
    "tool", [TOOLS[0].name, *(pytest.param(tool.name, marks=pytest.mark.slow) for tool in TOOLS[1:])]
)
def test_p4_a_gateway_may_end_or_sleep_at_every_one_of_its_steps_and_any_write_be_lost(tool: str) -> None:
    """4.2, 4.3, 4.5, 4.8, 4.11: no chance here, every step of short histories one after the other."""
    figures = steps_of(tool)
    nothing_broke(figures)
    assert figures.histories > 1_000
    assert figures.faults["gateway killed"] > 400


def test_p7_4_a_gateway_may_end_at_every_step_of_an_approval_and_of_a_submission_and_any_write_be_lost() -> None:
    """7.2, 7.3, 7.4: killed between the grant and the send, between the claim and its answer, at every step between."""
    figures = steps_of(EFFORTS)
    nothing_broke(figures)
    assert figures.histories > 1_400
    assert figures.faults["gateway killed"] > 400
    assert figures.faults["grant reply lost"] > 5
    assert figures.faults["granted submission claimed"] > 150


def test_p4_11_a_grant_that_may_have_landed_is_taken_back_though_the_ledger_goes_away_meanwhile() -> None:
    """4.11, 7.4: the first try is not heard, the next one cannot be sent: nothing was sent, and nothing stays unknown."""
    ask = Ask(0.1, 0, "c1", "call_0a", "place_order", "S0", "t0", 1, 1, "wish 0")
    faults = (Fault("grant reply slow", On.DECIDE, 1.0, 0, 0.53), Fault("ledger restart", On.TIME, 2.8, 0, 0.2))
    asked = Approver(2.392, 0, "op", True)
    plan = Plan(22836, "approved", False, 2, (ask,), faults, approvers=(asked,), policy="operators approve")
    result = run(plan, telling=True)
    assert result.broken == []
    assert any("effect.executing" in line for line in result.story)
    assert any("effect.released" in line for line in result.story)


@pytest.mark.slow
@pytest.mark.parametrize("seeds_run", LONG, ids=lambda seeds_run: str(seeds_run.start))
def test_p4_no_fault_makes_an_effect_happen_twice_or_an_answer_untrue_in_a_long_search(seeds_run: range) -> None:
    """The same, over more seeds; `make faults` runs 100,000."""
    nothing_broke(some(seeds_run))


@pytest.mark.parametrize(
    "guard",
    [*GUARDS_OF_CLAIMS, *GUARDS_OF_ENDS, *GUARDS_OF_EFFORTS, *GUARDS_OF_LIMITS, *GUARDS_OF_SHOPS],
    ids=lambda guard: guard.name,
)
def test_p4_a_missing_guard_is_noticed(guard: Guard) -> None:
    """A simulator that lets a guard be taken out unnoticed proves nothing of it."""
    how = caught(guard, seeds(MOST_SEEDS))
    assert how is not None, f"nobody misses: {guard.name}"


def test_p5_no_row_of_the_table_of_answers_can_be_read_wrongly_unnoticed() -> None:
    """5, 5.1: each group of answers, read as each of the three things that it is not."""
    assert len(GUARDS_OF_ANSWERS) == 3 * (len(ROWS) + len(DECLARED))
    unnoticed = [guard.name for guard in GUARDS_OF_ANSWERS if caught(guard, seeds(MOST_SEEDS)) is None]
    assert unnoticed == []


@pytest.mark.parametrize("seed", [3, 18, 1139, 2641])
def test_one_seed_is_one_history(seed: int) -> None:
    """A failing seed has to fail again, the same way, when its story is told."""
    first, again = run(plan_of(seed), telling=True), run(plan_of(seed), telling=True)
    assert first.story == again.story != []
    assert (first.answers, first.faults) == (again.answers, again.faults)


def test_a_failing_history_is_made_smaller_and_still_fails() -> None:
    """Only what it takes to fail is left in the story."""
    guard = next(guard for guard in GUARDS_OF_CLAIMS if guard.name == "version check")
    how = caught(guard, seeds(MOST_SEEDS))
    assert how is not None

    def fails(plan: Plan) -> bool:
        return bool(run(plan, change=guard.world).broken)

    plan = plan_of(how.seed)
    small = smallest(plan, fails)
    assert fails(small)
    assert len(small.asks) <= len(plan.asks)
    assert len(small.asks) + len(small.faults) <= 3
    assert f"--seed {how.seed}" in report(how.seed, change=guard.world)
