"""How a claim ends, over both ledgers (promises 4.1, 4.3, 4.4, 4.5, 4.6, 4.12)."""

from __future__ import annotations

import logging

import msgspec
import pytest

from gateway.core import decisions as d
from gateway.core.conversation import Writes
from gateway.core.record import Fault, Outcome, Status
from gateway.core.requests import OnRepeat

STR = "safe_to_retry"
OTHER_SUCCESS = Outcome(Status.SUCCEEDED, b'"MO-2"')


# --- the table (4.1): every state, and everything that can happen to it ---------------------------------------


async def _nothing(bench, outcomes):
    effect = (await bench.claim("call_1")).effect
    await bench.release(effect)
    return effect


async def _mark(bench, outcomes):
    lost = await bench.lost("call_1")
    await bench.resolve(lost, None)
    return await bench.record(lost)


async def _held(bench, outcomes):
    await bench.run("call_0")
    return (await bench.claim("call_1")).effect


async def _executing(bench, outcomes):
    return (await bench.claim("call_1")).effect


async def _executing_again(bench, outcomes):
    await bench.lost("call_1", mode=STR)
    return (await bench.claim("call_1", mode=STR)).effect


async def _unknown(bench, outcomes):
    return await bench.lost("call_1")


async def _unknown_retryable(bench, outcomes):
    return await bench.lost("call_1", mode=STR)


async def _succeeded(bench, outcomes):
    return await bench.run("call_1")


async def _failed(bench, outcomes):
    return await bench.run("call_1", outcome=outcomes.failure)


async def _denied(bench, outcomes):
    """Written as a refused approval will be."""
    held = await _held(bench, outcomes)
    where = bench.ask("call_1").where([held.effect_id])
    view = await bench.ledger.read(where)
    denied = msgspec.structs.replace(
        held, status=Status.DENIED, outcome=Outcome(Status.DENIED, fault=Fault("approval_denied", "No."))
    )
    writes = Writes(effects={held.effect_id: denied}, identical=view.identical.with_known(denied), keep_ms=86_400_000)
    assert (await bench.ledger.swap(where, view, writes)).applied
    return await bench.record(held)


async def _claim(bench, effect, outcomes):
    return await bench.claim("call_1", mode=effect.mode)


async def _success(bench, effect, outcomes):
    return await bench.settle(effect, token=effect.tokens[-1] if effect.tokens else b"never issued")


async def _another_success(bench, effect, outcomes):
    return await bench.settle(effect, OTHER_SUCCESS, token=effect.tokens[-1] if effect.tokens else b"never issued")


async def _failure(bench, effect, outcomes):
    return await bench.settle(effect, outcomes.failure, token=effect.tokens[-1] if effect.tokens else b"never issued")


async def _alien_success(bench, effect, outcomes):
    return await bench.settle(effect, token=b"never issued")


async def _release(bench, effect, outcomes):
    return await bench.release(effect, token=effect.tokens[-1] if effect.tokens else b"never issued")


async def _alien_release(bench, effect, outcomes):
    return await bench.release(effect, token=b"never issued")


async def _lose(bench, effect, outcomes):
    return await bench.lose(effect, token=effect.tokens[-1] if effect.tokens else b"never issued")


async def _alien_lose(bench, effect, outcomes):
    return await bench.lose(effect, token=b"never issued")


async def _lapse(bench, effect, outcomes):
    return await bench.lapse(effect)


async def _resolve_yes(bench, effect, outcomes):
    return await bench.resolve(effect, OTHER_SUCCESS)


async def _resolve_no(bench, effect, outcomes):
    return await bench.resolve(effect, outcomes.failure)


async def _resolve_absent(bench, effect, outcomes):
    return await bench.resolve(effect, None)


MOVES = [
    *(_claim, _success, _another_success, _failure, _alien_success, _release, _alien_release),
    *(_lose, _alien_lose, _lapse, _resolve_yes, _resolve_no, _resolve_absent),
]
NONE = None
ABSENT, HELD, EXECUTING, UNKNOWN = Status.ABSENT, Status.AWAITING_APPROVAL, Status.EXECUTING, Status.INDETERMINATE
SUCCEEDED, FAILED, DENIED = Status.SUCCEEDED, Status.FAILED, Status.DENIED
LATE, GONE = d.Late, d.Gone


def row(
    stands, claim, success, another, failure, alien, release, alien_release, lose, alien_lose, lapse, yes, no, absent
):
    """Each move: what it is answered, and the status after it where that is not the one before."""
    given = [claim, success, another, failure, alien, release, alien_release, lose, alien_lose, lapse, yes, no, absent]
    return [one if isinstance(one, tuple) else (one, stands) for one in given]


TABLE = {
    #           stands     claim                     success                another success          failure               alien  release               alien r. lose             alien l. lapse resolve: succeeded      failed                absent
    _nothing: row(NONE, (d.Granted, EXECUTING), LATE, LATE, LATE, LATE, GONE, GONE, LATE, LATE, LATE, LATE, LATE, LATE),
    _mark: row(
        ABSENT,
        (d.Granted, EXECUTING),
        (d.Settled, SUCCEEDED),
        (d.Settled, SUCCEEDED),
        LATE,
        LATE,
        GONE,
        GONE,
        LATE,
        LATE,
        LATE,
        LATE,
        LATE,
        GONE,
    ),
    _held: row(HELD, d.Blocked, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE),
    _executing: row(
        EXECUTING,
        d.Wait,
        (d.Settled, SUCCEEDED),
        (d.Settled, SUCCEEDED),
        (d.Settled, FAILED),
        LATE,
        (GONE, NONE),
        LATE,
        (LATE, UNKNOWN),
        LATE,
        LATE,
        LATE,
        LATE,
        LATE,
    ),
    _executing_again: row(
        EXECUTING,
        d.Wait,
        (d.Settled, SUCCEEDED),
        (d.Settled, SUCCEEDED),
        (d.Settled, FAILED),
        LATE,
        (LATE, UNKNOWN),
        LATE,
        (LATE, UNKNOWN),
        LATE,
        LATE,
        LATE,
        LATE,
        LATE,
    ),
    _unknown: row(
        UNKNOWN,
        d.Replay,
        (d.Settled, SUCCEEDED),
        (d.Settled, SUCCEEDED),
        LATE,
        LATE,
        (GONE, NONE),
        LATE,
        LATE,
        LATE,
        LATE,
        (d.Settled, SUCCEEDED),
        (d.Settled, FAILED),
        (GONE, ABSENT),
    ),
    _unknown_retryable: row(
        UNKNOWN,
        (d.Granted, EXECUTING),
        (d.Settled, SUCCEEDED),
        (d.Settled, SUCCEEDED),
        LATE,
        LATE,
        (GONE, NONE),
        LATE,
        LATE,
        LATE,
        LATE,
        (d.Settled, SUCCEEDED),
        (d.Settled, FAILED),
        (GONE, ABSENT),
    ),
    _succeeded: row(
        SUCCEEDED, d.Replay, d.Settled, d.Conflicting, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE
    ),
    _failed: row(
        FAILED,
        d.Replay,
        d.Conflicting,
        d.Conflicting,
        d.Settled,
        LATE,
        LATE,
        LATE,
        LATE,
        LATE,
        LATE,
        LATE,
        d.Settled,
        LATE,
    ),
    _denied: row(DENIED, d.Replay, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE),
}
CELLS = [
    pytest.param(state, move, *expected, id=f"{state.__name__}-{move.__name__}")
    for state, cells in TABLE.items()
    for move, expected in zip(MOVES, cells, strict=True)
]


@pytest.mark.parametrize(("state", "move", "answer", "after"), CELLS)
async def test_p4_1_every_state_and_everything_that_can_happen_to_it(bench, outcomes, state, move, answer, after):
    """4.1"""
    effect = await state(bench, outcomes)
    before = await bench.record(effect)
    decision = await move(bench, effect, outcomes)
    assert isinstance(decision, answer)
    stands = await bench.record(effect)
    assert (None if stands is None else stands.status) == after
    if before is not None and before.status in (SUCCEEDED, FAILED, DENIED):
        assert stands == before


# --- said again (4.3) ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", ["success", "failure"])
async def test_p4_3_a_settle_that_is_sent_again_is_answered_done(bench, outcomes, result):
    """4.3: with the same token and outcome; and it is one line in the log."""
    outcome = getattr(outcomes, result)
    effect = (await bench.claim("call_1")).effect
    first = await bench.settle(effect, outcome)
    assert await bench.settle(effect, outcome) == first
    assert (await bench.types())[3:] == [f"effect.{outcome.status}"]


async def test_p4_3_a_release_that_is_sent_again_is_answered_done(bench):
    """4.3"""
    effect = (await bench.claim("call_1")).effect
    assert await bench.release(effect) == d.Gone()
    assert await bench.release(effect) == d.Gone()
    other = (await bench.claim("call_1")).effect
    assert isinstance(await bench.release(effect), d.Late)
    assert (await bench.record(other)).status is EXECUTING


@pytest.mark.parametrize("outcome", [OTHER_SUCCESS, Outcome(FAILED, fault=Fault("x", "No.")), None])
async def test_p4_3_a_resolve_that_is_sent_again_is_answered_done(bench, outcome):
    """4.3: with the same outcome."""
    lost = await bench.lost("call_1")
    first = await bench.resolve(lost, outcome)
    again = await bench.resolve(lost, outcome)
    assert type(again) is type(first) is (d.Gone if outcome is None else d.Settled)
    assert (await bench.types()).count("effect.resolved") == 1
    assert isinstance(await bench.resolve(lost, Outcome(SUCCEEDED, b'"another"')), d.Late)


async def test_p4_3_a_settle_decided_on_an_old_view_still_holds(bench):
    """4.3, 4.15: aliases came while it ran, which its holder never saw."""
    asked = bench.ask("call_1", turn="t-1", attempt=1)
    granted, view = await bench.decider.claim(asked)
    for number in range(3):
        assert isinstance(await bench.claim(f"again_{number}", turn="t-1", attempt=2 + number), d.Wait)
    decision, _ = await bench.decider.end(bench.ending(granted.effect), granted.effect, view)
    assert isinstance(decision, d.Settled)
    assert len(decision.effect.slots) == 4
    assert isinstance(await bench.claim("again_2", turn="t-1", attempt=4), d.Replay)


# --- late (4.4) ----------------------------------------------------------------------------------------------


def alarms(caplog):
    return [record for record in caplog.records if record.levelno >= logging.CRITICAL]


async def test_k4_14_a_worker_that_wakes_after_its_lease_settles_what_is_still_unknown(bench, caplog):
    """4.4: and is logged as late."""
    asleep = (await bench.claim("call_1", lease_ms=0)).effect
    await bench.lapse(asleep)
    assert isinstance(await bench.settle(asleep), d.Settled)
    assert (await bench.record(asleep)).outcome == Outcome(SUCCEEDED, b'"MO-1"')
    assert (await bench.types())[-2:] == ["effect.indeterminate", "effect.succeeded"]
    assert not alarms(caplog)


async def test_k4_14_a_worker_that_wakes_after_an_operator_overwrites_nothing(bench, outcomes, caplog):
    """4.4: kept as a conflict, with an alarm; a timeout that wakes as late is nothing at all."""
    asleep = (await bench.claim("call_1", lease_ms=0)).effect
    await bench.lapse(asleep)
    await bench.resolve(asleep, outcomes.success)
    stands = await bench.record(asleep)
    assert isinstance(await bench.settle(asleep, OTHER_SUCCESS), d.Conflicting)
    assert len(alarms(caplog)) == 1
    assert isinstance(await bench.settle(asleep, outcomes.failure), d.Late)
    assert isinstance(await bench.lose(asleep), d.Late)
    assert isinstance(await bench.release(asleep), d.Late)
    assert await bench.record(asleep) == stands
    assert (await bench.types())[-3:] == ["effect.indeterminate", "effect.resolved", "effect.conflict"]
    assert len(alarms(caplog)) == 1


async def test_p4_4_a_late_success_against_a_resolved_absence_settles_it_and_raises_the_alarm(bench, caplog):
    """4.4"""
    lost = await bench.lost("call_1")
    await bench.resolve(lost, None)
    assert isinstance(await bench.settle(lost), d.Settled)
    assert len(alarms(caplog)) == 1
    replay = await bench.claim("call_1")
    assert isinstance(replay, d.Replay)
    assert replay.effect.outcome == Outcome(SUCCEEDED, b'"MO-1"')
    assert isinstance(await bench.claim("call_2"), d.Blocked)


async def test_p4_4_a_late_success_against_a_new_claim_changes_nothing_and_raises_the_alarm(bench, caplog):
    """4.4: absent by resolution, then claimed again."""
    lost = await bench.lost("call_1")
    await bench.resolve(lost, None)
    again = (await bench.claim("call_1")).effect
    assert isinstance(await bench.settle(lost), d.Conflicting)
    assert len(alarms(caplog)) == 1
    assert await bench.record(again) == again
    assert isinstance(await bench.settle(again, OTHER_SUCCESS), d.Settled)
    assert (await bench.record(again)).outcome == OTHER_SUCCESS


async def test_p4_4_a_success_under_any_token_settles_what_runs_under_safe_to_retry(bench, outcomes):
    """4.4: the merchant answers both tries alike, since their key is one."""
    lost = await bench.lost("call_1", mode=STR)
    again = (await bench.claim("call_1", mode=STR)).effect
    assert len(again.tokens) == 2
    assert isinstance(await bench.settle(again, outcomes.failure, token=lost.tokens[0]), d.Late)
    assert isinstance(await bench.lose(again, token=lost.tokens[0]), d.Late)
    assert isinstance(await bench.settle(lost), d.Settled)
    assert (await bench.record(lost)).settled_by == lost.tokens[0]
    assert isinstance(await bench.settle(again, outcomes.failure), d.Late)


async def test_p4_4_a_success_under_any_token_settles_an_unknown_outcome(bench):
    """4.4"""
    lost = await bench.lost("call_1", mode=STR)
    again = (await bench.claim("call_1", mode=STR)).effect
    await bench.lose(again)
    assert isinstance(await bench.settle(lost), d.Settled)


async def test_p4_1_an_unknown_outcome_is_not_released_once_a_second_token_was_issued(bench):
    """4.1: one of the two may have been sent."""
    lost = await bench.lost("call_1", mode=STR)
    again = (await bench.claim("call_1", mode=STR)).effect
    await bench.lose(again)
    for token in again.tokens:
        assert isinstance(await bench.release(lost, token=token), d.Late)
    assert (await bench.record(lost)).status is UNKNOWN


async def test_p4_1_tokens_of_before_a_resolved_absence_count_as_issued(bench):
    """4.1: so a call that was lost again after it is not released as if nothing had ever been sent."""
    lost = await bench.lost("call_1")
    await bench.resolve(lost, None)
    again = await bench.lost("call_1")
    assert isinstance(await bench.release(again), d.Late)
    assert (await bench.record(again)).status is UNKNOWN


# --- lapses (4.5) --------------------------------------------------------------------------------------------


async def test_p4_5_a_lapsed_lease_is_unknown_at_the_next_read(bench):
    """4.5"""
    dead = (await bench.claim("call_1", lease_ms=0)).effect
    replay = await bench.claim("call_1")
    assert isinstance(replay, d.Replay)
    assert replay.effect.status is UNKNOWN
    assert (await bench.types())[-1] == "effect.indeterminate"
    assert (await bench.record(dead)).was_unknown


async def test_p4_5_a_lapsed_lease_is_unknown_to_a_repeat_that_waits(bench):
    """4.5, 4.7"""
    await bench.claim("call_1", lease_ms=0)
    denied = await bench.claim("call_2")
    assert isinstance(denied, d.Denied)
    assert denied.fault.code == "prior_outcome_unknown"


async def test_p4_5_the_sweep_ends_what_nobody_asks_about(bench):
    """4.5"""
    dead = (await bench.claim("call_1", lease_ms=0)).effect
    for effect in (await bench.ledger.due(10)).effects:
        await bench.lapse(effect)
    assert (await bench.record(dead)).status is UNKNOWN
    assert [e.effect_id for e in (await bench.ledger.unknown("acme", None, 9)).effects] == [dead.effect_id]


async def test_p4_5_a_lease_lapses_by_the_ledgers_clock_and_not_before(memory_bench, memory_time):
    """4.5"""
    effect = (await memory_bench.claim("call_1", lease_ms=15_000)).effect
    memory_time.advance(14_000)
    assert isinstance(await memory_bench.claim("call_1"), d.Wait)
    assert isinstance(await memory_bench.lapse(effect), d.Late)
    assert (await memory_bench.ledger.due(9)).effects == ()
    memory_time.advance(1_001)
    assert [e.effect_id for e in (await memory_bench.ledger.due(9)).effects] == [effect.effect_id]
    assert isinstance(await memory_bench.claim("call_1"), d.Replay)


async def test_p4_5_a_lease_taken_anew_counts_from_its_own_claim(memory_bench, memory_time):
    """4.5, 4.6"""
    await memory_bench.claim("call_1", mode=STR, lease_ms=5_000)
    memory_time.advance(6_000)
    again = await memory_bench.claim("call_1", mode=STR, lease_ms=5_000)
    assert isinstance(again, d.Granted)
    memory_time.advance(4_000)
    assert isinstance(await memory_bench.claim("call_1", mode=STR), d.Wait)


async def test_p4_5_an_alias_does_not_prolong_a_lease(memory_bench, memory_time):
    """4.5"""
    await memory_bench.claim("call_1", turn="t-1", attempt=1, lease_ms=5_000)
    memory_time.advance(4_000)
    assert isinstance(await memory_bench.claim("call_2", turn="t-1", attempt=2), d.Wait)
    memory_time.advance(2_000)
    assert len((await memory_bench.ledger.due(9)).effects) == 1
    assert isinstance(await memory_bench.claim("call_2", turn="t-1", attempt=2), d.Replay)


# --- modes and results (4.6, 4.12) ---------------------------------------------------------------------------


async def test_p4_6_at_most_once_is_never_sent_again_without_a_resolve(bench, outcomes):
    """4.6"""
    lost = await bench.lost("call_1", turn="t-1", attempt=1)
    for attempt, call in ((1, "call_1"), (2, "call_1"), (3, "again"), (4, None)):
        replay = await bench.claim(call, turn="t-1", attempt=attempt, mode=STR, on_repeat=OnRepeat.RUN)
        assert isinstance(replay, d.Replay)
        assert replay.effect.status is UNKNOWN
    await bench.resolve(lost, None)
    granted = await bench.claim("call_1", turn="t-1", attempt=4)
    assert isinstance(granted, d.Granted)
    assert granted.effect.effect_id == lost.effect_id


async def test_p4_6_safe_to_retry_is_sent_again_under_the_same_key(bench):
    """4.6"""
    lost = await bench.lost("call_1", mode=STR)
    again = await bench.claim("call_1", mode=STR)
    assert isinstance(again, d.Granted)
    assert (again.effect.effect_id, again.effect.arguments) == (lost.effect_id, '{"sku":"A","qty":1}')
    assert again.effect.was_unknown


async def test_p4_12_a_dropped_result_is_a_success_that_never_runs_again(bench):
    """4.12"""
    dropped = Outcome(SUCCEEDED, dropped=True)
    effect = await bench.run("call_1", outcome=dropped)
    replay = await bench.claim("call_1")
    assert isinstance(replay, d.Replay)
    assert replay.effect.outcome == dropped
    assert isinstance(await bench.claim("call_2"), d.Blocked)
    logged = await bench.ledger.events(bench.conversation(), 0, 99)
    assert [e.event.data for e in logged if e.event.type == "effect.succeeded"] == [{"result_dropped": True}]
    assert (await bench.record(effect)).status is SUCCEEDED


async def test_p4_12_a_result_of_a_mebibyte_is_stored_whole(bench):
    """4.12"""
    whole = Outcome(SUCCEEDED, b'"' + b"x" * (1_048_576 - 2) + b'"')
    await bench.run("call_1", outcome=whole)
    assert (await bench.claim("call_1")).effect.outcome == whole


async def test_p4_13_arguments_are_kept_only_while_they_may_be_sent_again(bench):
    """4.13: of a settled call nothing of its arguments is left but digests of its fields."""
    lost = await bench.lost("call_1", {"card": "4929000011112222"}, mode=STR)
    assert "4929000011112222" in lost.arguments
    settled = await bench.settle(lost)
    assert settled.effect.arguments is None
    running = await bench.claim("call_2", {"card": "4929000011112222"}, on_repeat=OnRepeat.RUN)
    assert running.effect.arguments is None
    for key in await bench.keys():
        if key[8:9] in b"eipt":
            assert b"4929000011112222" not in await bench.wire.do("GET", key)
