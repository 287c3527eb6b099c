"""Many at once over two gateways: one send, everybody answered, nobody told that the ledger is away (4.8, 4.15)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from gateway.core.answer import answer_bytes
from gateway.core.model import Principal, Role
from gateway.core.requests import OnRepeat

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
MANY = 100


@pytest.mark.parametrize("settled_before", [False, True])
async def test_p4_15_a_hundred_identical_calls_under_as_many_ids_are_one_send_and_all_answered(
    world, retag, settled_before
):
    """4.15, 4.9, 2.5: each id becomes an alias of the first in the same record, so each swap spoils all others'."""
    retag(world, "create_order", on_repeat=OnRepeat.REPLAY)
    gateways = (world, world.another_gateway())
    if settled_before:
        await world.call(tool_call_id="first")
    answers = await asyncio.gather(*(gateways[n % 2].call(tool_call_id=f"n{n}") for n in range(MANY)))
    for gateway in gateways:
        await gateway.settle_background()
    assert world.merchant.hits == 1
    assert {json.loads(answer_bytes(a))["result"]["order"] for a in answers} == {"O-1"}
    assert len({a.effect_id for a in answers}) == 1
    new = 0 if settled_before else 1
    assert Counter(a.decision for a in answers) == Counter({"replay": MANY - new, "proceed": new})
    again = await asyncio.gather(*(gateways[(n + 1) % 2].call(tool_call_id=f"n{n}") for n in range(MANY)))
    assert {(a.decision, a.effect_id) for a in again} == {("replay", answers[0].effect_id)}
    assert world.merchant.hits == 1


async def test_p4_9_a_crowd_that_is_held_is_one_send_and_one_hold(world):
    """4.9, 4.15: all but one are blocked, and join one hold as its aliases."""
    gateways = (world, world.another_gateway())
    answers = await asyncio.gather(*(gateways[n % 2].call(tool_call_id=f"n{n}") for n in range(40)))
    assert world.merchant.hits == 1
    assert Counter(a.decision for a in answers) == Counter({"blocked": 39, "proceed": 1})
    assert len({a.effect_id for a in answers if a.decision == "blocked"}) == 1


async def test_p4_15_a_crowd_of_different_calls_in_one_conversation_runs_each_once(world):
    """4.15: what they share is the conversation; neither its log nor its indexes cost anybody a call."""
    gateways = (world, world.another_gateway())
    calls = [{"tool_call_id": f"n{n}", "arguments": {"n": n}} for n in range(40)]
    answers: list[Any] = await asyncio.gather(*(gateways[n % 2].call(**call) for n, call in enumerate(calls * 2)))
    assert world.merchant.hits == 40
    assert Counter(a.decision for a in answers) == Counter({"proceed": 40, "replay": 40})
    events = await world.look_up.events(OPERATOR, "shop1", "c1", 0, 500)
    assert Counter(e["type"] for e in events)["effect.succeeded"] == 40
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
