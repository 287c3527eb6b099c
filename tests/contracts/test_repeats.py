"""Repeats, waits and unknown firsts, over both ledgers (promises 4.7, 4.8, 4.9)."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core import decisions as d
from gateway.core.record import Fault, Outcome, Status
from gateway.core.requests import OnRepeat

RUN, REPLAY, HOLD = OnRepeat.RUN, OnRepeat.REPLAY, OnRepeat.HOLD
STEP_LIMIT = d.Denied(Fault("step_limit", "Not done."))
MINUTE_MS = 60_000


def order(number):
    return Outcome(Status.SUCCEEDED, b'"MO-%d"' % number)


def is_unknown(decision):
    return isinstance(decision, d.Denied) and decision.fault.code == "prior_outcome_unknown"


async def waited(bench, wait, *args, **more):
    """The decision once the first has ended: the same request, with what it keeps while it waits."""
    assert isinstance(wait, d.Wait), wait
    return await bench.claim(*args, repeat_of=wait.repeat_of, **more)


# --- what makes a call a repeat (4.9) ------------------------------------------------------------------------

# what was done before, how the second call is asked: is it a repeat?
WHEN = {
    "in its turn, however old": ({"turn": "t-1"}, {"turn": "t-1", "window_ms": 0}, True),
    "in another turn, in the window": ({"turn": "t-1"}, {"turn": "t-2"}, True),
    "in another turn, after the window": ({"turn": "t-1"}, {"turn": "t-2", "window_ms": 0}, False),
    "without turns, in the window": ({}, {}, True),
    "without turns, after the window": ({}, {"window_ms": 0}, False),
    "turn stated by one only, after the window": ({"turn": "t-1"}, {"window_ms": 0}, False),
    "other arguments": ({"turn": "t-1"}, {"turn": "t-1", "arguments": {"sku": "B"}}, False),
    "another tool": ({"turn": "t-1"}, {"turn": "t-1", "tool": "add_to_cart"}, False),
    "another conversation": ({}, {"conversation": "c-2"}, False),
    "another company": ({}, {"company": "other"}, False),
}


@pytest.mark.parametrize(("first", "second", "repeat"), WHEN.values(), ids=WHEN.keys())
async def test_p4_9_when_a_call_under_another_key_is_a_repeat(bench, first, second, repeat):
    """4.9"""
    done = await bench.run("call_1", **first)
    decision = await bench.claim("call_2", **second)
    if repeat:
        assert isinstance(decision, d.Blocked)
        assert decision.first == done
    else:
        assert isinstance(decision, d.Granted)


async def test_p4_9_the_window_is_measured_by_the_ledgers_clock(memory_bench, memory_time):
    """4.9: from when the first settled, not from when it was claimed."""
    granted = await memory_bench.claim("call_1", lease_ms=10 * MINUTE_MS)
    memory_time.advance(5 * MINUTE_MS)
    await memory_bench.settle(granted.effect)
    memory_time.advance(MINUTE_MS - 1_000)
    assert isinstance(await memory_bench.claim("call_2", window_ms=MINUTE_MS), d.Blocked)
    memory_time.advance(2_000)
    assert isinstance(await memory_bench.claim("call_3", window_ms=MINUTE_MS, turn="t"), d.Blocked)  # joins the hold
    memory_time.advance(10 * MINUTE_MS)
    await memory_bench.run("other", {"sku": "B"})
    memory_time.advance(MINUTE_MS + 1_000)
    assert isinstance(await memory_bench.claim("other_2", {"sku": "B"}, window_ms=MINUTE_MS), d.Granted)


async def test_p4_9_what_runs_makes_a_repeat_however_long_it_does(bench):
    """4.9"""
    await bench.claim("call_1", turn="t-1")
    assert isinstance(await bench.claim("call_2", turn="t-2", window_ms=0), d.Wait)


async def test_p4_9_what_was_ever_unknown_makes_a_repeat_however_old(bench, outcomes):
    """4.9: it may have been done twice by now; a third is asked about."""
    lost = await bench.lost("call_1", turn="t-1")
    await bench.resolve(lost, outcomes.success)
    decision = await bench.claim("call_2", turn="t-2", window_ms=0)
    assert isinstance(decision, d.Blocked)
    assert decision.first.effect_id == lost.effect_id


@pytest.mark.parametrize("on_repeat", OnRepeat)
@pytest.mark.parametrize("place", [{}, {"turn": "t-1"}], ids=["no turn", "same turn"])
async def test_p4_9_a_first_that_failed_does_not_count(bench, outcomes, on_repeat, place):
    """4.9: a model may try a refused booking again."""
    failed = await bench.run("call_1", outcome=outcomes.failure, **place)
    again = await bench.claim("call_2", on_repeat=on_repeat, **place)
    assert isinstance(again, d.Granted)
    assert again.effect.effect_id != failed.effect_id


async def test_p4_9_a_first_that_was_released_does_not_count(bench):
    """4.9"""
    await bench.release((await bench.claim("call_1", turn="t-1")).effect)
    assert isinstance(await bench.claim("call_2", turn="t-1"), d.Granted)


async def test_p4_9_an_unknown_first_that_then_failed_does_not_count(bench, outcomes):
    """4.9"""
    await bench.resolve(await bench.lost("call_1", turn="t-1"), outcomes.failure)
    assert isinstance(await bench.claim("call_2", turn="t-1"), d.Granted)


async def test_p4_9_it_is_judged_against_the_latest_that_counts(bench, outcomes):
    """4.9: failures between them do not hide a success."""
    await bench.run("call_1", turn="t-1", outcome=order(1))
    second = await bench.run("call_2", turn="t-1", on_repeat=RUN, outcome=order(2))
    await bench.run("call_3", turn="t-1", on_repeat=RUN, outcome=outcomes.failure)
    decision = await bench.claim("call_4", turn="t-1")
    assert isinstance(decision, d.Blocked)
    assert decision.first == second


# --- what follows (hold, replay, run) ------------------------------------------------------------------------


async def test_k1_02_two_ids_in_one_reply_under_hold_run_once(bench):
    """4.9, 4.15: at the same moment; the second waits, is held and shown the first's outcome."""
    place = {"turn": "t-1", "step": 1, "attempt": 1}
    one, other = await asyncio.gather(bench.claim("call_a", **place), bench.claim("call_b", **place))
    granted, wait = (one, other) if isinstance(one, d.Granted) else (other, one)
    waiter = "call_b" if granted is one else "call_a"
    settled = await bench.settle(granted.effect)
    held = await waited(bench, wait, waiter, **place)
    assert isinstance(held, d.Blocked)
    assert held.first == settled.effect
    assert (await bench.types()).count("effect.executing") == 1
    assert (await bench.types())[-3:] == ["effect.proposed", "effect.awaiting_approval", "approval.requested"]


async def test_k1_02_two_ids_in_one_reply_under_run_both_run(bench):
    """4.9: at the same moment, without a wait."""
    place = {"turn": "t-1", "step": 1, "attempt": 1, "on_repeat": RUN}
    one, other = await asyncio.gather(bench.claim("call_a", **place), bench.claim("call_b", **place))
    assert isinstance(one, d.Granted)
    assert isinstance(other, d.Granted)
    assert {one.effect.occurrence, other.effect.occurrence} == {0, 1}


async def test_p4_9_under_replay_the_first_outcome_answers_and_the_id_is_its_alias(bench):
    """4.9, 2.5"""
    first = await bench.run("call_1")
    replay = await bench.claim("call_2", on_repeat=REPLAY)
    assert isinstance(replay, d.Replay)
    assert (replay.matched, replay.effect.outcome) == ("repeat", first.outcome)
    later = await bench.claim("call_2", on_repeat=HOLD, window_ms=0)
    assert isinstance(later, d.Replay)
    assert (later.matched, later.effect.effect_id) == ("tool_call_id", first.effect_id)


async def test_p4_9_a_first_that_is_shown_makes_no_alias(bench):
    """4.9: the held call has an effect of its own, by which it is found again."""
    first = await bench.run("call_1")
    held = await bench.claim("call_2")
    again = await bench.claim("call_2", window_ms=0)
    assert isinstance(again, d.Blocked)
    assert again.effect.effect_id == held.effect.effect_id != first.effect_id
    assert again.first == first
    assert (await bench.record(first)).slots == first.slots


async def test_p4_9_a_repeat_of_what_is_held_joins_it(bench):
    """4.9: as its alias; one approval for all of them."""
    await bench.run("call_1")
    held = await bench.claim("call_2")
    joined = await bench.claim("call_3", turn="t-9", window_ms=0)
    assert isinstance(joined, d.Blocked)
    assert joined.effect.effect_id == held.effect.effect_id
    assert (await bench.types()).count("effect.awaiting_approval") == 1
    run = await bench.run("call_2", on_repeat=RUN)
    replay = await bench.claim("call_3", turn="t-9", window_ms=0)
    assert isinstance(replay, d.Replay)
    assert (replay.matched, replay.effect.effect_id) == ("tool_call_id", run.effect_id)


async def test_p4_9_a_wanted_second_joins_what_is_held_and_runs_it(bench):
    """4.9: run skips the wait, not the hold that stands."""
    await bench.run("call_1")
    held = await bench.claim("call_2")
    granted = await bench.claim("call_3", on_repeat=RUN)
    assert isinstance(granted, d.Granted)
    assert granted.effect.effect_id == held.effect.effect_id
    assert isinstance(await bench.claim("call_2"), d.Wait)


async def test_p4_9_a_hold_ends_when_its_first_has_vanished(memory_bench, memory_time):
    """4.9: its retention was over first; the held one runs as itself."""
    day = 86_400_000
    await memory_bench.run("call_1", keep_ms=2 * day)
    memory_time.advance(day)
    asked = {"window_ms": 2 * day, "keep_ms": 2 * day, "hold_ms": 2 * day}
    held = await memory_bench.claim("call_2", **asked)
    memory_time.advance(day + 1_000)
    granted = await memory_bench.claim("call_2", **asked)
    assert isinstance(granted, d.Granted)
    assert granted.effect.effect_id == held.effect.effect_id
    assert granted.effect.tokens != ()


async def test_p4_9_a_held_call_is_judged_anew_by_policy_at_each_request(bench):
    """4.9: also when it may not run any more, or its tool is gone."""
    await bench.run("call_1")
    await bench.claim("call_2")
    assert await bench.claim("call_2", refusal=STEP_LIMIT) == STEP_LIMIT
    assert isinstance(await bench.claim("call_2"), d.Blocked)


async def test_p4_9_a_held_call_stays_held_when_its_window_has_passed(bench):
    """4.9: that it is a repeat is decided once, when it first comes."""
    await bench.run("call_1", turn="t-1")
    held = await bench.claim("call_2", turn="t-2")
    for window_ms in (0, 1, 60_000):
        again = await bench.claim("call_2", turn="t-2", window_ms=window_ms)
        assert isinstance(again, d.Blocked)
        assert again.effect.effect_id == held.effect.effect_id


async def test_p4_9_a_call_that_waits_stays_a_repeat_when_its_window_has_passed(bench):
    """4.9: also of a first in another turn."""
    granted = await bench.claim("call_1", turn="t-1")
    wait = await bench.claim("call_2", turn="t-2", window_ms=0)
    await bench.settle(granted.effect)
    assert isinstance(await waited(bench, wait, "call_2", turn="t-2", window_ms=0), d.Blocked)


async def test_p4_9_a_held_call_without_an_id_is_found_again(bench):
    """4.9, 2.7"""
    place = {"turn": "t-2", "attempt": 1}
    await bench.run("call_1", turn="t-1")
    held = await bench.claim(None, **place)
    again = await bench.claim(None, **place, window_ms=0)
    assert isinstance(again, d.Blocked)
    assert again.effect.effect_id == held.effect.effect_id == bench.ask(None, **place).effect_id(0)


# --- waiting (4.8) -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waiter", ["call_1", "call_2"], ids=["the same call", "a repeat"])
async def test_p4_8_a_duplicate_waits_and_a_released_first_ends_the_wait(bench, waiter):
    """4.8: it is then judged as new."""
    granted = await bench.claim("call_1", turn="t-1")
    wait = await bench.claim(waiter, turn="t-1")
    assert isinstance(wait, d.Wait)
    assert wait.effect_id == granted.effect.effect_id
    await bench.release(granted.effect)
    assert isinstance(await waited(bench, wait, waiter, turn="t-1"), d.Granted)


async def test_p4_8_of_two_that_waited_for_a_released_first_one_runs(bench):
    """4.8, 4.9: the other then waits for it."""
    granted = await bench.claim("call_1", turn="t-1")
    waits = [await bench.claim(f"call_{n}", turn="t-1") for n in (2, 3)]
    await bench.release(granted.effect)
    after = await asyncio.gather(
        *(waited(bench, wait, f"call_{n}", turn="t-1") for n, wait in zip((2, 3), waits, strict=True))
    )
    assert sorted(type(decision).__name__ for decision in after) == ["Granted", "Wait"]


async def test_p4_8_of_two_that_waited_for_a_failed_first_one_runs_at_a_time(bench, outcomes):
    """4.8, 4.9: two ids may not both follow it at once."""
    granted = await bench.claim("call_1", turn="t-1")
    waits = [await bench.claim(f"call_{n}", turn="t-1") for n in (2, 3)]
    await bench.settle(granted.effect, outcomes.failure)
    after = await asyncio.gather(
        *(waited(bench, wait, f"call_{n}", turn="t-1") for n, wait in zip((2, 3), waits, strict=True))
    )
    assert sorted(type(decision).__name__ for decision in after) == ["Granted", "Wait"]


async def test_p4_8_the_same_call_gets_the_same_answer(bench, outcomes):
    """4.8"""
    granted = await bench.claim("call_1")
    assert isinstance(await bench.claim("call_1"), d.Wait)
    settled = await bench.settle(granted.effect, outcomes.failure)
    replay = await bench.claim("call_1")
    assert replay.effect == settled.effect


@pytest.mark.parametrize("on_repeat", [HOLD, REPLAY])
async def test_k4_16_fifty_first_requests_at_once_grant_one(bench, on_repeat):
    """4.8, 4.15: identical in company, conversation and id."""
    decisions = await asyncio.gather(*(bench.claim("call_1", on_repeat=on_repeat) for _ in range(50)))
    assert sum(isinstance(decision, d.Granted) for decision in decisions) == 1
    assert sum(isinstance(decision, d.Wait) for decision in decisions) == 49
    granted = next(decision for decision in decisions if isinstance(decision, d.Granted))
    await bench.settle(granted.effect)
    replays = await asyncio.gather(*(bench.claim("call_1", on_repeat=on_repeat) for _ in range(50)))
    assert {type(decision) for decision in replays} == {d.Replay}


@pytest.mark.parametrize("place", [{}, {"turn": "t-1", "attempt": 1}], ids=["no turn", "one turn"])
@pytest.mark.parametrize("on_repeat", [HOLD, REPLAY])
async def test_k4_16_fifty_ids_for_one_work_at_once_grant_one(bench, on_repeat, place):
    """4.8, 4.9, 4.15: then all of them are answered, at once, without a second send."""
    asked = {"on_repeat": on_repeat, **place}
    decisions = await asyncio.gather(*(bench.claim(f"call_{n}", **asked) for n in range(50)))
    granted = [decision for decision in decisions if isinstance(decision, d.Granted)]
    assert len(granted) == 1
    assert sum(isinstance(decision, d.Wait) for decision in decisions) == 49
    await bench.settle(granted[0].effect)
    after = await asyncio.gather(
        *(waited(bench, w, f"call_{n}", **asked) for n, w in enumerate(decisions) if isinstance(w, d.Wait))
    )
    assert {type(decision) for decision in after} == {d.Blocked if on_repeat is HOLD else d.Replay}
    assert len({decision.effect.effect_id for decision in after}) == 1


# --- unknown firsts (4.7) ------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_repeat", OnRepeat)
@pytest.mark.parametrize("place", [{}, {"turn": "t-1"}, {"turn": "t-2", "window_ms": 0}], ids=["none", "same", "other"])
async def test_p4_7_while_an_outcome_is_unknown_no_identical_call_runs(bench, on_repeat, place):
    """4.7: whatever on_repeat says, in whatever turn, however old; nothing is stored."""
    lost = await bench.lost("call_1", turn="t-1", on_repeat=on_repeat)
    before = await bench.types()
    denied = await bench.claim("call_2", on_repeat=on_repeat, **place)
    assert is_unknown(denied)
    assert denied.first == lost
    assert await bench.types() == before
    other = await bench.claim("call_2", {"sku": "B"}, on_repeat=on_repeat, **place)
    assert isinstance(other, d.Granted)
    assert isinstance(await bench.claim("call_3", conversation="c-2", on_repeat=on_repeat, **place), d.Granted)


@pytest.mark.parametrize("on_repeat", OnRepeat)
async def test_p4_7_a_lapsed_first_is_unknown_though_nobody_swept_it(bench, on_repeat):
    """4.5, 4.7: its worker is dead, and its record still says executing."""
    dead = (await bench.claim("call_1", turn="t-1", lease_ms=0, on_repeat=on_repeat)).effect
    assert is_unknown(await bench.claim("call_2", turn="t-2", window_ms=0, on_repeat=on_repeat))
    assert (await bench.record(dead)).status is Status.INDETERMINATE


async def test_p4_7_a_held_call_may_not_run_while_another_is_unknown(bench):
    """4.7: nor by a tool that now wants its seconds."""
    await bench.run("call_1", turn="t-1")
    await bench.claim("call_2", turn="t-1")
    await bench.lost("call_3", turn="t-3", on_repeat=RUN)  # joined the hold, ran it, and lost its answer
    replay = await bench.claim("call_2", turn="t-1", on_repeat=RUN)
    assert isinstance(replay, d.Replay)
    assert replay.effect.status is Status.INDETERMINATE
    assert is_unknown(await bench.claim("call_4", turn="t-1", on_repeat=RUN))


@pytest.mark.parametrize("how", ["succeeded", "failed", "absent"])
async def test_p4_7_once_it_is_resolved_the_next_is_judged_by_what_it_was(bench, outcomes, how):
    """4.7, 4.9"""
    lost = await bench.lost("call_1", turn="t-1")
    outcome = {"succeeded": outcomes.success, "failed": outcomes.failure, "absent": None}[how]
    await bench.resolve(lost, outcome)
    decision = await bench.claim("call_2", turn="t-1")
    assert isinstance(decision, d.Blocked if how == "succeeded" else d.Granted)


@pytest.mark.parametrize("on_repeat", OnRepeat)
async def test_p4_7_under_safe_to_retry_the_first_is_retried_and_answers(bench, on_repeat):
    """4.7, 2.5: under its own key; the id that asked is its alias."""
    asked = {"mode": "safe_to_retry", "on_repeat": on_repeat}
    lost = await bench.lost("call_1", turn="t-1", **asked)
    granted = await bench.claim("call_2", turn="t-2", window_ms=0, **asked)
    assert isinstance(granted, d.Granted)
    assert (granted.matched, granted.effect.effect_id) == ("repeat", lost.effect_id)
    settled = await bench.settle(granted.effect)
    replay = await bench.claim("call_2", turn="t-2", window_ms=0, **asked)
    assert isinstance(replay, d.Replay)
    assert (replay.matched, replay.effect.outcome) == ("tool_call_id", settled.effect.outcome)


@pytest.mark.parametrize("on_repeat", OnRepeat)
async def test_p4_7_while_the_first_is_retried_another_waits_for_its_answer(bench, on_repeat, outcomes):
    """4.7: also where a wanted second would skip the wait, and whatever the answer is."""
    asked = {"mode": "safe_to_retry", "on_repeat": on_repeat}
    await bench.lost("call_1", turn="t-1", **asked)
    granted = await bench.claim("call_1", turn="t-1", **asked)
    wait = await bench.claim("call_2", turn="t-2", window_ms=0, **asked)
    assert isinstance(wait, d.Wait)
    await bench.settle(granted.effect, outcomes.failure)
    replay = await waited(bench, wait, "call_2", turn="t-2", window_ms=0, **asked)
    assert isinstance(replay, d.Replay)
    assert replay.effect.outcome == outcomes.failure


async def test_p4_7_a_retry_that_was_not_sent_leaves_the_first_unknown(bench):
    """4.7, 4.1"""
    lost = await bench.lost("call_1", mode="safe_to_retry")
    granted = await bench.claim("call_2", mode="safe_to_retry")
    await bench.release(granted.effect)
    assert (await bench.record(lost)).status is Status.INDETERMINATE
    again = await bench.claim("call_2", mode="safe_to_retry")
    assert isinstance(again, d.Granted)
    assert again.effect.effect_id == lost.effect_id
