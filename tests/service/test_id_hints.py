"""A word to operators whose runtime's ids start again each turn (2.3, K1-04)."""

from __future__ import annotations

import logging

import pytest

LOGGER = "oncegate.calls"


def hints(caplog):
    return [each for each in caplog.records if "start again each turn" in each.getMessage()]


@pytest.mark.parametrize("id_", ["call_0", "create_order:1", "tool-12"])
async def test_k1_04_a_replay_under_a_counted_id_is_hinted_at_once_a_company(world, caplog, id_):
    """K1-04, 2.3: what may have been a second order is answered with the first and when that was, and the log says
    how to tell the two apart."""
    with caplog.at_level(logging.WARNING, LOGGER):
        first = await world.call(tool_call_id=id_)
        again = await world.call(tool_call_id=id_)
        await world.call(tool_call_id=id_)
    assert (first.decision, again.decision) == ("proceed", "replay")
    assert again.replay["matched"] == "tool_call_id"
    assert again.replay["first_at"].endswith("Z")
    assert again.replay["age_s"] >= 0
    (hint,) = hints(caplog)
    assert (hint.company, hint.such_as) == ("shop1", id_)
    assert "state turn and step" in hint.getMessage()


@pytest.mark.parametrize(
    "fields",
    [{"tool_call_id": "call_9fA0bC"}, {"tool_call_id": "call_0", "turn": "t1"}, {"tool_call_id": "call_1234"}],
    ids=["an id that does not count", "a turn that is stated", "a long number"],
)
async def test_k1_04_nothing_is_hinted_at_where_ids_can_be_told_apart(world, caplog, fields):
    """K1-04"""
    with caplog.at_level(logging.WARNING, LOGGER):
        await world.call(**fields)
        assert (await world.call(**fields)).decision == "replay"
    assert hints(caplog) == []


async def test_k1_09_a_hint_shows_the_end_of_a_long_id_only(world, caplog):
    """K1-09: ids are shortened in logs."""
    id_ = "x" * 900 + "_7"
    with caplog.at_level(logging.WARNING, LOGGER):
        await world.call(tool_call_id=id_)
        await world.call(tool_call_id=id_)
    (hint,) = hints(caplog)
    assert hint.such_as == id_[-24:]
