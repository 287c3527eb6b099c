"""Holds that nobody approves in time, over both ledgers (promises 4.1, 4.9, 4.13, 7.4)."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core import decisions as d
from gateway.core.record import Fault, Status
from gateway.core.requests import HOLD_MS, OnRepeat

RUN = OnRepeat.RUN
STEP_LIMIT = d.Denied(Fault("step_limit", "Not done."))
OVER = {"hold_ms": 0}
"""Whatever is held has been for long enough: the next read that meets it ends it."""
ELSEWHERE = {"turn": "t-9", "window_ms": 0}
"""Where nothing done before counts, unless it is open."""


def is_denied(decision, effect, matched="tool_call_id"):
    return (
        isinstance(decision, d.Replay)
        and (decision.effect.effect_id, decision.matched) == (effect.effect_id, matched)
        and decision.effect.status is Status.DENIED
        and decision.effect.outcome.fault.code == "approval_expired"
    )


async def held_repeat(bench, call="call_2", **more):
    """A hold of a repeat, in turn t-1 as the first is."""
    first = await bench.run("call_1", turn="t-1")
    held = await bench.claim(call, **{"turn": "t-1", **more})
    assert isinstance(held, d.Blocked)
    return first, held.effect


async def test_p7_4_an_expired_hold_is_denied_and_its_id_replays_that(bench):
    """7.4, 4.1: stored, so also when time is no matter any more."""
    first, held = await held_repeat(bench)
    expired = await bench.claim("call_2", turn="t-1", **OVER)
    assert is_denied(expired, held)
    assert is_denied(await bench.claim("call_2", turn="t-1"), held)
    assert is_denied(await bench.claim("call_2", turn="t-1", on_repeat=RUN), held)
    kept = await bench.record(held)
    assert kept.settled_at is not None
    assert (kept.arguments, kept.tokens) == (None, ())
    assert (await bench.record(first)).status is Status.SUCCEEDED


async def test_p7_6_an_expiry_is_logged_once_and_nothing_runs(bench):
    """7.6, 7.4"""
    _, held = await held_repeat(bench)
    before = await bench.types()
    for _ in range(3):
        await bench.claim("call_2", turn="t-1", **OVER)
    logged = await bench.ledger.events(bench.conversation(), len(before), 99)
    assert [(e.event.type, e.event.effect_id, e.event.data) for e in logged] == [
        ("approval.expired", held.effect_id, {"approval": held.approval.id.hex()}),
        ("effect.denied", held.effect_id, {"code": "approval_expired"}),
    ]


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
async def test_p7_4_a_hold_stands_for_fifteen_minutes_by_the_ledgers_clock(memory_bench, memory_time, early):
    """7.4: from when it was first held, however often it is asked for or joined."""
    assert HOLD_MS == 15 * 60_000
    _, held = await held_repeat(memory_bench)
    memory_time.advance(HOLD_MS // 2)
    assert isinstance(await memory_bench.claim("call_2", turn="t-1"), d.Blocked)
    assert isinstance(await memory_bench.claim("call_3", **ELSEWHERE), d.Blocked)
    memory_time.advance(HOLD_MS // 2 + (-5_000 if early else 1))
    decision = await memory_bench.claim("call_2", turn="t-1")
    assert isinstance(decision, d.Blocked) if early else is_denied(decision, held)


async def test_p7_4_an_expired_hold_blocks_its_work_no_longer(bench):
    """7.4, 4.9: met by another call, it is ended first, and denied ones do not count."""
    _, held = await held_repeat(bench)
    granted = await bench.claim("call_3", **ELSEWHERE, **OVER)
    assert isinstance(granted, d.Granted)
    assert granted.effect.effect_id != held.effect_id
    assert (await bench.types())[-5:] == [
        "approval.expired",
        "effect.denied",
        "effect.proposed",
        "effect.allowed",
        "effect.executing",
    ]
    assert is_denied(await bench.claim("call_2", turn="t-1"), held)


@pytest.mark.parametrize(
    "where",
    [{"turn": "t-1", "window_ms": 0}, {"turn": "t-2"}, {}],
    ids=["in its turn", "in the window", "in the window, no turn"],
)
async def test_p4_9_after_an_expiry_a_first_that_counts_holds_the_next_call_anew(bench, where):
    """4.9: a new hold of the first success, with an approval of its own."""
    first, held = await held_repeat(bench)
    again = await bench.claim("call_3", **where, **OVER)
    assert isinstance(again, d.Blocked)
    assert again.first == first
    assert again.effect.effect_id != held.effect_id
    assert (await bench.types()).count("effect.awaiting_approval") == 2
    assert (await bench.record(held)).status is Status.DENIED
    assert isinstance(await bench.claim("call_3", **where), d.Blocked)


async def test_p2_4_a_denied_hold_keeps_its_number(bench):
    """2.4, 2.5: so a turn that is run over gets the denial for its call, and the next hold for the next."""
    _, held = await held_repeat(bench, attempt=1)
    again = await bench.claim("call_3", turn="t-1", attempt=1, **OVER)
    assert (held.occurrence, again.effect.occurrence) == (1, 2)
    rerun = [await bench.claim(f"call_{n}", turn="t-1", attempt=2) for n in (7, 8, 9)]
    assert [type(decision) for decision in rerun] == [d.Replay, d.Replay, d.Blocked]
    assert is_denied(rerun[1], held, "effect")
    assert rerun[2].effect.effect_id == again.effect.effect_id


async def test_p7_4_every_id_that_joined_the_hold_replays_the_denial(bench):
    """7.4, 4.9, 2.5"""
    _, held = await held_repeat(bench)
    for n in (3, 4):
        assert isinstance(await bench.claim(f"call_{n}", turn=f"t-{n}", window_ms=0), d.Blocked)
    for n in (4, 3, 2):
        turn = "t-1" if n == 2 else f"t-{n}"
        assert is_denied(await bench.claim(f"call_{n}", turn=turn, window_ms=0, **OVER), held)
    assert (await bench.types()).count("effect.denied") == 1


async def test_p7_4_a_hold_without_an_id_expires_too(bench):
    """7.4, 2.7: its number is its key."""
    await bench.run("call_1", turn="t-1")
    place = {"turn": "t-2", "attempt": 1}
    held = await bench.claim(None, **place)
    assert is_denied(await bench.claim(None, **place, **OVER), held.effect, "effect")
    assert isinstance(await bench.claim("call_3", **ELSEWHERE), d.Granted)


async def test_p4_10_an_expired_hold_replays_also_where_a_new_call_would_be_refused(bench):
    """4.10: it is recorded by now; before it was, policy was asked anew (4.9)."""
    _, held = await held_repeat(bench)
    assert await bench.claim("call_2", turn="t-1", refusal=STEP_LIMIT) == STEP_LIMIT
    assert is_denied(await bench.claim("call_2", turn="t-1", refusal=STEP_LIMIT, **OVER), held)


@pytest.mark.parametrize("late", [False, True], ids=["while it stands", "too late"])
async def test_p4_9_a_hold_whose_first_is_gone_runs_as_long_as_it_stands(memory_bench, memory_time, late):
    """4.9, 7.4: here the first's retention is over; a hold that nobody asked for in time is denied all the same."""
    day = 86_400_000
    asked = {"turn": "t-1", "keep_ms": 2 * day, "hold_ms": day + (0 if late else 60_000)}
    await memory_bench.run("call_1", turn="t-1", keep_ms=2 * day)
    memory_time.advance(day)
    held = (await memory_bench.claim("call_2", **asked)).effect
    memory_time.advance(day + 1_000)
    decision = await memory_bench.claim("call_2", **asked)
    if late:
        assert is_denied(decision, held)
    else:
        assert isinstance(decision, d.Granted)
        assert decision.effect.effect_id == held.effect_id


async def test_p4_9_a_hold_that_ended_by_running_does_not_expire(bench):
    """4.9, 4.1"""
    _, held = await held_repeat(bench)
    granted = await bench.claim("call_2", turn="t-1", on_repeat=RUN)
    assert granted.effect.effect_id == held.effect_id
    assert isinstance(await bench.claim("call_2", turn="t-1", **OVER), d.Wait)
    settled = await bench.settle(granted.effect)
    replay = await bench.claim("call_2", turn="t-1", **OVER)
    assert isinstance(replay, d.Replay)
    assert replay.effect.outcome == settled.effect.outcome


async def test_p4_15_an_expiry_that_many_meet_at_once_is_written_once(bench):
    """4.15, 7.4: by its own id, its aliases and others; one of these runs."""
    _, held = await held_repeat(bench)
    await bench.claim("call_3", **ELSEWHERE)
    ids = ["call_2", "call_3", "call_4", "call_5"]
    places = [{"turn": "t-1", "window_ms": 0}, *[ELSEWHERE] * 3]
    decisions = await asyncio.gather(
        *(bench.claim(call, **place, **OVER) for call, place in zip(ids, places, strict=True))
    )
    assert all(is_denied(decision, held) for decision in decisions[:2])
    assert sorted(type(decision).__name__ for decision in decisions[2:]) == ["Granted", "Wait"]
    assert (await bench.types()).count("approval.expired") == 1


async def test_p4_7_a_hold_expires_also_while_an_identical_outcome_is_unknown(memory_bench, memory_time):
    """4.7, 7.4: its id then replays the denial; other calls are told that an outcome is unknown."""
    first = await memory_bench.claim("call_1", turn="t-1", on_repeat=RUN)
    second = await memory_bench.claim("call_2", turn="t-1", on_repeat=RUN)
    memory_time.advance(1_000)  # so that the success is the latest, and the second is no reason to wait
    await memory_bench.settle(first.effect)
    held = (await memory_bench.claim("call_3", turn="t-1")).effect
    await memory_bench.lose(second.effect)
    for more in ({}, OVER):
        denied = await memory_bench.claim("call_4", turn="t-1", **more)
        assert isinstance(denied, d.Denied)
        assert denied.fault.code == "prior_outcome_unknown"
    assert (await memory_bench.record(held)).status is Status.DENIED
    assert is_denied(await memory_bench.claim("call_3", turn="t-1"), held)


async def test_p4_13_a_denied_hold_is_kept_from_its_expiry_on(memory_bench, memory_time):
    """4.13: for the retention time, its ids and repeat entries with it; then its id is free."""
    day = 86_400_000
    asked = {"keep_ms": 2 * day, "hold_ms": day}
    await memory_bench.run("call_1", turn="t-1", keep_ms=2 * day)
    held = (await memory_bench.claim("call_2", turn="t-1", **asked)).effect
    assert isinstance(await memory_bench.claim("call_3", **ELSEWHERE, **asked), d.Blocked)
    memory_time.advance(day + 1_000)
    assert is_denied(await memory_bench.claim("call_2", turn="t-1", **asked), held)
    assert all(0 < ms <= 2 * day for kind in (await memory_bench.ttls()).values() for ms in kind)
    memory_time.advance(2 * day - 60_000)
    assert is_denied(await memory_bench.claim("call_3", **ELSEWHERE, **asked), held)
    assert is_denied(await memory_bench.claim("call_2", turn="t-1", **asked), held)
    memory_time.advance(60_000 + 1)
    assert isinstance(await memory_bench.claim("call_2", turn="t-1", **asked), d.Granted)


async def test_k1_04_a_recycled_id_that_was_held_and_expired_is_done_in_a_later_turn(bench):
    """4.9, 2.3: under its id the first counts however old, so it is held anew; asked for as wanted, it runs."""
    place = {"step": 1, "attempt": 1, "window_ms": 0}
    first = await bench.run("place_order:0", turn="t-1", **place)
    held = await bench.claim("place_order:0", turn="t-2", **place)
    assert held.first == first
    anew = await bench.claim("place_order:0", turn="t-3", **place, **OVER)
    assert isinstance(anew, d.Blocked)
    assert anew.first == first
    assert is_denied(await bench.claim("place_order:0", turn="t-2", **place), held.effect)
    wanted = await bench.claim("place_order:0", turn="t-3", on_repeat=RUN, **place)
    assert isinstance(wanted, d.Granted)
    assert wanted.effect.effect_id == anew.effect.effect_id
