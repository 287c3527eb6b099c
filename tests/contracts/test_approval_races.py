"""Whoever decides, submits, asks and sweeps at once: one of them wins, whatever the order of their looks and writes
(promises 4.1, 4.15, 7.4)."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.core import decisions as d
from gateway.core.identity import Kind
from gateway.core.record import Mode, Status
from gateway.core.requests import Grant, OnRepeat

TOOL = {"kind": Kind.TOOL_CALL, "tool": "place_order", "mode": Mode.AT_MOST_ONCE, "on_repeat": OnRepeat.HOLD}
CALLS = (
    "grant",
    "grant again",
    "grant by another",
    "deny",
    "deny by another",
    "sweep",
    "request",
    "join",
    "late request",
)
SUBMISSIONS = (*CALLS, "use", "use by another")
_fresh = itertools.count()


class Turns:
    """A ledger whose every look and write waits for its turn."""

    confirms = False

    def __init__(self, ledger):
        self._ledger = ledger
        self.parked = []

    async def _turn(self):
        turn = asyncio.get_running_loop().create_future()
        self.parked.append(turn)
        await turn

    async def read(self, where):
        await self._turn()
        return await self._ledger.read(where)

    async def swap(self, where, view, writes):
        await self._turn()
        return await self._ledger.swap(where, view, writes)

    async def play(self, works, draw):
        """Run them side by side; `draw(n)` picks whose turn it is, once each has either come to its next or ended."""
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            while left := [task for task in tasks if not task.done()]:
                while len(self.parked) < len([task for task in left if not task.done()]):  # noqa: ASYNC110
                    await asyncio.sleep(0)
                if self.parked:
                    self.parked.pop(draw(len(self.parked))).set_result(None)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [task.result() for task in tasks]


def works(bench, held, conversation, submitted):
    """What may be done to one held effect, by name."""
    where = {"conversation": conversation, "turn": "t-1"}

    def now():
        return bench.submission("call_2", **TOOL, **where) if submitted else bench.ask("call_2", **where)

    async def grant(request, by):
        decision, _ = await bench.decider.grant(Grant(held.effect_id, held.approval.id, by, request), held)
        return decision

    mine = now()
    ask = bench.submit if submitted else bench.claim
    more = TOOL if submitted else {}
    return {
        "grant": lambda: grant(mine, "ops"),
        "grant again": lambda: grant(mine, "ops"),
        "grant by another": lambda: grant(now(), "anna"),
        "deny": lambda: bench.deny(held, "ops"),
        "deny by another": lambda: bench.deny(held, "ben"),
        "sweep": lambda: bench.expire(held, hold_ms=0),
        "request": lambda: bench.again(now()),
        "join": lambda: ask("call_3", **more, **where),
        "late request": lambda: ask("call_2", hold_ms=0, **more, **where),
        "use": lambda: ask("call_2", token=b"the-runtimes-own", **more, **where),
        "use by another": lambda: ask("call_2", token=b"another-runtimes", **more, **where),
    }


async def held_in(bench, submitted):
    """A held repeat in a conversation of its own."""
    conversation = f"race-{next(_fresh)}"
    where = {"conversation": conversation, "turn": "t-1"}
    if submitted:
        first = await bench.submit("call_1", **TOOL, **where)
        await bench.settle(first.effect)
        return conversation, (await bench.submit("call_2", **TOOL, **where)).effect
    await bench.run("call_1", **where)
    return conversation, (await bench.claim("call_2", **where)).effect


async def hold_true(bench, conversation, held, names, decisions, submitted):
    events = Counter(e.type for e in await bench.events("acme", conversation) if e.effect_id in (held.effect_id, None))
    stands = await bench.record(held)
    said = dict(zip(names, decisions, strict=True))
    granted, denied, expired = (events[f"approval.{end}"] for end in ("granted", "denied", "expired"))
    assert granted + denied <= 1, "two decided"
    assert denied + expired <= 1, "it ended twice"
    assert expired == 0 or granted == 0 or submitted, "what ran has lapsed"
    assert events["approval.used"] <= granted, "used, and not granted"
    holders = {d_.effect.tokens[-1] for d_ in decisions if isinstance(d_, d.Granted)}
    assert len(holders) == events["effect.executing"] <= 1, "two run it"
    assert events["approval.requested"] == 1
    expected = Status.AWAITING_APPROVAL
    if events["effect.executing"]:
        expected = Status.EXECUTING
    elif denied + expired:
        expected = Status.DENIED
    assert stands.status is expected
    for name in ("grant by another", "grant"):
        if isinstance(said.get(name), d.Granted | d.Approved) and stands.status is not Status.DENIED:
            assert stands.approval.decided_by == ("anna" if name == "grant by another" else "ops")
    if isinstance(said.get("deny"), d.Settled) or isinstance(said.get("deny by another"), d.Settled):
        assert (denied, stands.status) == (1, Status.DENIED)
    if isinstance(said.get("deny"), d.Settled) and isinstance(said.get("deny by another"), d.Settled):
        raise AssertionError("two denied it")


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data(), submitted=st.booleans())
async def test_p4_15_whatever_the_order_one_decision_holds(memory_bench, data, submitted):
    """4.15, 7.4: every look and every write of up to five in any order; deciding, asking, joining, using, sweeping."""
    bench = memory_bench
    conversation, held = await held_in(bench, submitted)
    pool = SUBMISSIONS if submitted else CALLS
    names = data.draw(st.lists(st.sampled_from(pool), min_size=2, max_size=5, unique=True), "who")
    kept, turns = bench.decider._ledger, Turns(bench.ledger)
    bench.decider._ledger = turns
    try:
        todo = works(bench, held, conversation, submitted)
        decisions = await turns.play(
            [todo[name]() for name in names], lambda left: data.draw(st.integers(0, left - 1), "turn")
        )
    finally:
        bench.decider._ledger = kept
    await hold_true(bench, conversation, held, names, decisions, submitted)


@pytest.mark.parametrize("submitted", [False, True], ids=["a call", "a submission"])
@pytest.mark.parametrize("pair", list(itertools.combinations(CALLS, 2)), ids=" & ".join)
async def test_p4_15_two_at_once_on_real_ledgers(bench, pair, submitted):
    """4.15, 7.4: each pair, both ways round."""
    for names in (pair, pair[::-1]):
        conversation, held = await held_in(bench, submitted)
        todo = works(bench, held, conversation, submitted)
        decisions = await asyncio.gather(*(todo[name]() for name in names))
        await hold_true(bench, conversation, held, names, decisions, submitted)


async def test_p7_4_a_crowd_of_approvers_runs_it_once(bench):
    """7.4: twenty principals, one click each."""
    conversation, held = await held_in(bench, False)
    where = {"conversation": conversation, "turn": "t-1"}
    decisions = await asyncio.gather(
        *(bench.grant(held, bench.ask("call_2", **where), f"ops-{number}") for number in range(20))
    )
    assert sorted(type(each).__name__ for each in decisions) == ["Granted", *["Late"] * 19]
