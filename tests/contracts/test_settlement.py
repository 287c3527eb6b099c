"""How a claim ends, over both ledgers (promises 4.1, 4.3, 4.4, 4.5, 4.6, 4.12)."""

from __future__ import annotations

import logging

import msgspec
import pytest

from gateway.core import decisions as d
from gateway.core.conversation import Writes
from gateway.core.errors import LedgerUnavailable
from gateway.core.record import MAX_TOKENS, Fault, Outcome, Status
from gateway.core.requests import OnRepeat, Resolve, where_of
from gateway.core.status_reply import NOT_EXECUTED
from gateway.core.step import step
from gateway.service.deciding import Decider

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


async def _held_after_absence(bench, outcomes):
    """The call that was resolved as absent comes again, as a repeat of what was done meanwhile."""
    mark = await _mark(bench, outcomes)
    held = await _held(bench, outcomes)
    assert (held.effect_id, held.tokens) == (mark.effect_id, mark.tokens)
    return held


async def _held_after_release(bench, outcomes):
    """Its key was claimed before by a worker that sent nothing."""
    released = await _nothing(bench, outcomes)
    held = await _held(bench, outcomes)
    assert (held.effect_id, held.tokens) == (released.effect_id, ())
    return held


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
    _held_after_absence: row(
        HELD, d.Blocked, d.Conflicting, d.Conflicting, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE, LATE
    ),
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


@pytest.mark.parametrize("how", ["under its token", "from the merchant"])
async def test_p4_4_a_late_success_against_a_hold_changes_nothing_and_raises_the_alarm(bench, caplog, how):
    """4.4, 5.4: absent by resolution, then held as a repeat: a person has to know that it was done, before they grant
    it. The hold is the call's own by then, and what it waits for is not what the success is of."""
    held = await _held_after_absence(bench, None)
    came = bench.settle(held, OTHER_SUCCESS) if how == "under its token" else bench.told(held, OTHER_SUCCESS)
    assert isinstance(await came, d.Conflicting)
    (line,) = alarms(caplog)
    assert (line.effect_id, line.against) == (held.hex, "claim")
    (event,) = [event for event in await bench.events() if event.type == "effect.conflict"]
    assert (event.effect_id, event.data["stands"], event.data["came"]) == (held.effect_id, HELD.value, "succeeded")
    assert await bench.record(held) == held
    assert isinstance(await bench.claim("call_1"), d.Blocked)


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


async def test_p4_4_two_tries_of_a_retryable_call_that_both_succeed_alike_are_no_conflict(bench, outcomes, caplog):
    """4.3, 4.4: the merchant knows the key, so both come back with one outcome; another one is a conflict."""
    lost = await bench.lost("call_1", mode=STR)
    again = (await bench.claim("call_1", mode=STR)).effect
    assert isinstance(await bench.settle(lost), d.Settled)
    stands = await bench.record(lost)
    second = await bench.settle(again, token=again.tokens[-1])
    assert second == d.Settled(stands)
    assert not alarms(caplog)
    assert "effect.conflict" not in await bench.types()
    assert isinstance(await bench.settle(again, OTHER_SUCCESS, token=again.tokens[-1]), d.Conflicting)
    assert len(alarms(caplog)) == 1
    assert isinstance(await bench.settle(again, token=b"not known (any more)"), d.Late)
    assert len(alarms(caplog)) == 2
    assert await bench.record(lost) == stands


async def test_p4_4_a_second_claim_that_was_given_back_forgets_nothing_of_the_first(bench, caplog):
    """4.4: absent by resolution, claimed again, released: a late success of the first still settles, with an alarm."""
    lost = await bench.lost("call_1")
    await bench.resolve(lost, None)
    again = (await bench.claim("call_1")).effect
    assert await bench.release(again) == d.Gone()
    assert await bench.release(again) == d.Gone()
    assert (await bench.record(lost)).tokens == lost.tokens
    assert isinstance(await bench.settle(lost), d.Settled)
    assert len(alarms(caplog)) == 1
    assert isinstance(await bench.settle(again, token=again.tokens[-1]), d.Late)  # it was given back: done after all?
    assert len(alarms(caplog)) == 2
    assert isinstance(await bench.claim("call_1"), d.Replay)


@pytest.mark.parametrize("late", ["failure", "lose", "release"])
@pytest.mark.parametrize("state", [_mark, _executing_again, _succeeded, _failed])
async def test_p4_4_nothing_else_that_comes_late_changes_anything(bench, outcomes, caplog, state, late):
    """4.4: under a token that was issued once and is no longer the one."""
    effect = await state(bench, outcomes)
    token = effect.tokens[0]
    before, lines = await bench.record(effect), await bench.types()
    outcome = Outcome(FAILED, fault=Fault("merchant_refused", "Late."))
    did = bench.settle(effect, outcome, token=token) if late == "failure" else getattr(bench, late)(effect, token=token)
    assert isinstance(await did, d.Gone if (state, late) == (_mark, "release") else d.Late)
    assert await bench.record(effect) == before
    assert await bench.types() == lines
    assert not alarms(caplog)


async def test_p4_4_the_alarm_is_raised_though_the_ledgers_answer_was_lost(bench, caplog):
    """4.4, 4.11: said again, the success finds itself recorded; it was an alarm all the same, and is counted."""
    lost = await bench.lost("call_1")
    await bench.resolve(lost, None)
    counted = []
    decider = Decider(bench.ledger, count_conflict=counted.append)
    swap = bench.ledger.swap

    async def unheard(*args):
        bench.ledger.swap = swap
        await swap(*args)
        raise LedgerUnavailable(may_have_run=True)

    bench.ledger.swap = unheard
    with pytest.raises(LedgerUnavailable):
        await decider.end(bench.ending(lost), lost)
    decision, _ = await decider.end(bench.ending(lost), lost)
    assert isinstance(decision, d.Settled)
    assert (len(alarms(caplog)), counted) == (1, ["absence"])


@pytest.mark.parametrize("against", ["absence", "claim", "outcome"])
async def test_p4_4_the_alarm_says_what_the_late_success_contradicts(bench, outcomes, caplog, against):
    """4.4: one critical line and one count, without the result."""
    lost = await bench.lost("call_1")
    await bench.resolve(lost, outcomes.failure if against == "outcome" else None)
    if against == "claim":
        await bench.claim("call_1")
    counted = []
    await Decider(bench.ledger, count_conflict=counted.append).end(bench.ending(lost), lost)
    assert counted == [against]
    (line,) = alarms(caplog)
    assert (line.effect_id, line.against) == (lost.hex, against)
    assert ("effect.conflict" in await bench.types()) is (against != "absence")


# --- how often an unknown outcome is sent again (4.6, 9.4) ----------------------------------------------------


async def test_p4_6_a_call_that_stays_unknown_is_sent_again_a_bounded_number_of_times(bench, monkeypatch):
    """4.6, 9.4: each try leaves a token, since any may yet report a success. Past the bound the call is as one under
    at_most_once, for its own id and for identical ones; what comes late still settles it."""
    monkeypatch.setattr("gateway.core.record.MAX_TOKENS", 5)
    lost = await bench.lost("call_1", mode=STR)
    for tokens in range(2, 6):
        again = await bench.claim("call_1" if tokens % 2 else f"again_{tokens}", mode=STR)
        assert isinstance(again, d.Granted)
        assert len(again.effect.tokens) == tokens
        await bench.lose(again.effect)
    for _ in range(3):
        replay = await bench.claim("call_1", mode=STR)
        assert isinstance(replay, d.Replay)
        assert replay.effect.status is UNKNOWN
        denied = await bench.claim("another", mode=STR)
        assert isinstance(denied, d.Denied)
        assert denied.fault.code == "prior_outcome_unknown"
    assert len((await bench.record(lost)).tokens) == 5
    assert isinstance(await bench.settle(lost), d.Settled)


def test_p4_6_the_bound_is_64_tries():
    """4.6, 9.4"""
    assert MAX_TOKENS == 64


async def test_p4_6_a_try_that_sent_nothing_is_not_counted(bench):
    """4.6: a merchant that cannot be reached for long does not use up the tries of the day when it can."""
    lost = await bench.lost("call_1", mode=STR)
    for _ in range(MAX_TOKENS + 5):
        again = await bench.claim("call_1", mode=STR)
        assert isinstance(again, d.Granted)
        await bench.release(again.effect)
    stands = await bench.record(lost)
    assert (stands.status, stands.tokens) == (UNKNOWN, lost.tokens)
    assert isinstance(await bench.claim("call_1", mode=STR), d.Granted)


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


# --- what the merchant's status endpoint said (5.4) ------------------------------------------------------------

VOID = Outcome(FAILED, fault=NOT_EXECUTED)


@pytest.mark.parametrize("mode", ["at_most_once", STR])
@pytest.mark.parametrize("outcome", [OTHER_SUCCESS, VOID, Outcome(SUCCEEDED, dropped=True)])
async def test_p5_4_what_the_status_endpoint_says_settles_an_unknown_outcome(bench, outcome, mode):
    """5.4: with one event that says who said so; its ids replay it, and it is no longer listed."""
    lost = await bench.lost("call_1", mode=mode)
    assert isinstance(await bench.told(lost, outcome), d.Settled)
    replay = await bench.claim("call_1", mode=mode)
    assert isinstance(replay, d.Replay)
    assert replay.effect.outcome == outcome
    assert (await bench.ledger.unknown("acme", None, 9)).effects == ()
    (event,) = [event for event in await bench.events() if event.type == "effect.resolved"]
    assert {name: event.data.get(name) for name in ("outcome", "by", "evidence", "said_by_merchant")} == {
        "outcome": outcome.status.value,
        "by": "merchant",
        "evidence": None,
        "said_by_merchant": True,
    }
    assert event.data.get("code") == (outcome.fault.code if outcome.fault else None)
    assert event.data.get("result_dropped", False) == outcome.dropped
    lives = (await bench.ttls()).values()
    assert not [life for life in lives if -1 in life], "4.13: its retention has started"


async def test_p5_4_a_void_call_may_be_made_again_as_a_new_one(bench):
    """5.4, 4.7, 4.9: while it was unknown it was denied; failed ones do not count as repeats."""
    lost = await bench.lost("call_1")
    assert isinstance(await bench.claim("call_2"), d.Denied)
    await bench.told(lost, VOID)
    again = await bench.claim("call_2")
    assert isinstance(again, d.Granted)
    assert again.effect.effect_id != lost.effect_id


@pytest.mark.parametrize("late", ["success", "release", "lose", "failure"])
async def test_p5_4_a_late_success_after_void_is_a_conflict_with_an_alarm(bench, outcomes, caplog, late):
    """5.4, 4.4: the merchant broke its word, and a person has to look; nothing else that comes late is heard."""
    lost = await bench.lost("call_1")
    await bench.told(lost, VOID)
    stands = await bench.record(lost)
    moves = {
        "success": lambda: bench.settle(lost),
        "release": lambda: bench.release(lost),
        "lose": lambda: bench.lose(lost),
        "failure": lambda: bench.settle(lost, outcomes.failure),
    }
    decision = await moves[late]()
    assert isinstance(decision, d.Conflicting if late == "success" else d.Late)
    assert len(alarms(caplog)) == (late == "success")
    assert ("effect.conflict" in await bench.types()) == (late == "success")
    assert await bench.record(lost) == stands


@pytest.mark.parametrize(
    ("told", "came", "agrees"),
    [
        (b'{"id": 1}', b'{"id":1}', True),
        (b"null", b'{"id":1}', True),
        (None, b'{"id":1}', True),
        (b'{"id":2}', b'{"id":1}', False),
        (b'{"id":1.0}', b'{"id":1}', False),
    ],
)
async def test_p5_4_a_late_success_that_says_what_the_merchant_said_is_no_conflict(bench, caplog, told, came, agrees):
    """5.4, 4.3, 4.4: a worker that could not reach the ledger settles after the merchant was asked."""
    lost = await bench.lost("call_1")
    await bench.told(lost, Outcome(SUCCEEDED, told, dropped=told is None))
    stands = await bench.record(lost)
    decision = await bench.settle(lost, Outcome(SUCCEEDED, came))
    assert isinstance(decision, d.Settled if agrees else d.Conflicting)
    assert bool(alarms(caplog)) != agrees
    assert await bench.record(lost) == stands


@pytest.mark.parametrize("first", ["operator", "merchant"])
async def test_p5_4_an_operator_and_the_merchant_cannot_both_settle(bench, outcomes, first):
    """5.4, 5.5, 4.15: both decided on the same view; one swap is applied, the other is judged anew."""
    lost = await bench.lost("call_1")
    by_hand = Resolve(lost.effect_id, outcomes.failure, "ops", "", 86_400_000)
    by_merchant = Resolve(lost.effect_id, VOID, "merchant", "", 86_400_000, said_by_merchant=True)
    requests = [by_hand, by_merchant] if first == "operator" else [by_merchant, by_hand]
    where = where_of(lost)
    view = await bench.ledger.read(where)
    steps = [step(view, request) for request in requests]
    assert (await bench.ledger.swap(where, view, steps[0].writes)).applied
    assert not (await bench.ledger.swap(where, view, steps[1].writes)).applied
    decision, _ = await bench.decider.end(requests[1], lost, view)
    assert isinstance(decision, d.Late)
    assert (await bench.record(lost)).outcome == requests[0].outcome
    assert (await bench.types()).count("effect.resolved") == 1


async def _by_hand_failed(bench, outcomes):
    lost = await bench.lost("call_1")
    await bench.resolve(lost, outcomes.failure)
    return lost


async def _succeeded_late(bench, outcomes):
    lost = await bench.lost("call_1")
    await bench.settle(lost)
    return lost


@pytest.mark.parametrize(
    ("state", "committed", "void"),
    [
        # what stands when the answer arrives; what committed and void come to, and whether the first is an alarm
        (_held, (d.Conflicting, HELD, True), (d.Late, HELD)),
        (_held_after_absence, (d.Conflicting, HELD, True), (d.Late, HELD)),
        (_held_after_release, (d.Conflicting, HELD, True), (d.Late, HELD)),
        (_executing, (d.Conflicting, EXECUTING, True), (d.Late, EXECUTING)),
        (_executing_again, (d.Settled, SUCCEEDED, False), (d.Late, EXECUTING)),
        (_mark, (d.Settled, SUCCEEDED, True), (d.Late, ABSENT)),
        (_by_hand_failed, (d.Conflicting, FAILED, True), (d.Late, FAILED)),
        (_succeeded_late, (d.Late, SUCCEEDED, False), (d.Late, SUCCEEDED)),
        (_nothing, (d.Late, NONE, False), (d.Late, NONE)),
    ],
)
async def test_p5_4_an_answer_that_comes_when_something_else_stands(bench, outcomes, caplog, state, committed, void):
    """5.4, 4.4: the merchant's committed is as good as a late success; its void then changes nothing."""
    effect = await state(bench, outcomes)
    kind, after = void
    assert isinstance(await bench.told(effect, VOID), kind)
    stands = await bench.record(effect)
    assert (None if stands is None else stands.status) == after
    kind, after, alarm = committed
    assert isinstance(await bench.told(effect, OTHER_SUCCESS), kind)
    stands = await bench.record(effect)
    assert (None if stands is None else stands.status) == after
    assert bool(alarms(caplog)) == alarm


@pytest.mark.parametrize("evidence", [None, "status_endpoint", "the merchant said so"])
@pytest.mark.parametrize("state", [_held_after_absence, _executing, _executing_again, _mark, _by_hand_failed])
async def test_p5_5_words_never_pass_for_the_merchants_own(bench, outcomes, caplog, state, evidence):
    """5.5, 5.4, 4.4: a person who says "done" too late changes nothing and alarms nobody, whatever the evidence says."""
    effect = await state(bench, outcomes)
    stands, logged = await bench.record(effect), await bench.types()
    said = Resolve(effect.effect_id, OTHER_SUCCESS, "merchant", "", 86_400_000, evidence)
    decision, _ = await bench.decider.end(said, effect)
    assert isinstance(decision, d.Late)
    assert await bench.record(effect) == stands
    assert await bench.types() == logged
    assert alarms(caplog) == []


@pytest.mark.parametrize("how", ["by its own token", "by an earlier token"])
@pytest.mark.parametrize("came", [b'{"id":1}', b'{"id": 1}', b'{"id":2}'])
async def test_p4_4_after_the_merchant_was_asked_its_tries_may_come_back(bench, caplog, how, came):
    """4.4, 5.4: a retry was under way when `committed` came. What both tries then say is that, or a conflict."""
    first = await bench.lost("call_1", mode=STR)
    again = (await bench.claim("call_1", mode=STR)).effect
    assert isinstance(await bench.told(again, Outcome(SUCCEEDED, b'{"id":1}')), d.Settled)
    stands = await bench.record(again)
    decision = await bench.settle(again if how == "by its own token" else first, Outcome(SUCCEEDED, came))
    agrees = b"2" not in came
    assert isinstance(decision, d.Settled if agrees else d.Conflicting)
    assert bool(alarms(caplog)) != agrees
    assert await bench.record(again) == stands
