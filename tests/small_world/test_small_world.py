"""Every interleaving of two callers, two gateways, a merchant, a sweeper, an operator and a crash, over the pure step."""

from __future__ import annotations

import pytest

from tests.small_world.mutants import MUTANTS, Mutant, applied
from tests.small_world.search import Found, search
from tests.small_world.situations import HASTY, SITUATIONS, Situation, Trouble
from tests.small_world.world import World

BY_NAME = {situation.name: situation for situation in SITUATIONS}
SAME = BY_NAME["the same call twice"]
ALL = [pytest.param(situation, id=situation.name) for situation in (*SITUATIONS, HASTY)]


def _held(found: Found) -> None:
    assert found.broken is None, "\n".join([str(found.broken), *found.story])
    assert found.ends > 0


@pytest.mark.parametrize("situation", ALL)
def test_p4_1_every_promise_holds_in_every_state_near_by(situation: Situation) -> None:
    """2.1, 2.2, 2.5, 4.1, 4.2, 4.3, 4.4, 4.5, 4.6, 4.7, 4.8, 4.9, 7.3, 7.4, 7.6, 8: to the end of both calls."""
    _held(search(World(situation.under(situation.near))))


@pytest.mark.slow
@pytest.mark.parametrize("situation", ALL)
def test_p4_1_every_promise_holds_in_every_state(situation: Situation) -> None:
    """The same with swaps that arrive late, an operator, requests sent again, leases that lapse twice,
    and approvals that are given twice, refused or never decided."""
    for trouble in situation.searches:
        _held(search(World(situation.under(trouble))))


@pytest.mark.parametrize("mutant", [pytest.param(mutant, id=mutant.name) for mutant in MUTANTS])
def test_a_guard_that_is_taken_out_is_missed(mutant: Mutant) -> None:
    """What the search would not notice it does not hold."""
    trouble = Trouble(ticks=mutant.ticks, resolves=mutant.resolves, decisions=mutant.decisions)
    situation = BY_NAME[mutant.situation].under(trouble)
    with applied(mutant):
        found = search(World(situation))
    assert found.broken is not None
    assert len(found.story) > 1


@pytest.mark.parametrize("guard", ["compares", "settles_first"])
def test_p4_2_p4_15_a_ledger_that_swaps_blindly_and_an_answer_before_its_record_are_missed(guard: str) -> None:
    """4.2, 4.15: the two guards outside of the rules."""
    found = search(World(SAME.under(SAME.near), **{guard: False}))
    assert found.broken is not None


def test_a_story_can_be_read() -> None:
    """The shortest way to what broke, in words."""
    with applied(next(mutant for mutant in MUTANTS if mutant.name.startswith("any worker holds"))):
        found = search(World(SAME.under(SAME.near)))
    assert found.broken == "2 orders were made of 1 that were meant"
    assert found.story[0] == "caller 1 asks gateway A, which takes the call for new"
    assert found.story[-1].endswith(f"the merchant commits the order (request 2): {found.broken}")
