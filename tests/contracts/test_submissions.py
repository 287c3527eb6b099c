"""Effects that whoever asks runs, over both ledgers (promises 2.4, 2.5, 4.3, 4.4, 4.6, 7.2, 9.1)."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core import decisions as d
from gateway.core.identity import Kind
from gateway.core.record import Fault, Mode, Outcome, Status
from gateway.core.requests import OnRepeat

ONCE, RETRIED = Mode.AT_MOST_ONCE, Mode.SAFE_TO_RETRY
DONE = Outcome(Status.SUCCEEDED, b'"an answer"')
OTHER = Outcome(Status.SUCCEEDED, b'"another answer"')
FAILED = Outcome(Status.FAILED, fault=Fault("no_such_file", "It is not there."))
A, B, C = (b"claim-token-of-%1b" % each for each in (b"A", b"B", b"C"))
DAY_MS = 86_400_000


async def submitted(bench, outcome=DONE, **more):
    """One that was run and reported."""
    granted = await bench.submit(**more)
    assert isinstance(granted, d.Granted), granted
    return (await bench.settle(granted.effect, outcome)).effect


async def test_p7_2_the_same_token_is_the_same_submission(bench):
    """7.2, 4.3: "yours" while it runs, its outcome afterwards; one effect, proposed once."""
    first = await bench.submit(token=A)
    again = await bench.submit(token=A)
    assert isinstance(first, d.Granted)
    assert isinstance(again, d.Granted)
    assert again.effect == first.effect
    settled = (await bench.settle(first.effect, DONE)).effect
    replay = await bench.submit(token=A)
    assert (type(replay), replay.effect, replay.matched) == (d.Replay, settled, "claim_token")
    assert (await bench.types()).count("effect.proposed") == 1


async def test_p7_2_a_new_token_takes_the_next_occurrence(bench):
    """7.2, 2.4: a model may be asked the same twice in one turn, side by side."""
    effects = [(await bench.submit(token=token)).effect for token in (A, B, C)]
    assert [effect.occurrence for effect in effects] == [0, 1, 2]
    assert len({effect.effect_id for effect in effects}) == 3


async def test_p2_5_occurrences_start_over_with_each_attempt_and_replay(bench):
    """2.5, 7.2: the turn's first model call gets the first one's answer, whatever its token; a third is new."""
    first = await submitted(bench, DONE, token=A)
    second = await submitted(bench, OTHER, token=B)
    rerun = [await bench.submit(token=token, attempt=2) for token in (b"x" * 16, b"y" * 16, b"z" * 16)]
    assert [type(each) for each in rerun] == [d.Replay, d.Replay, d.Granted]
    assert [each.effect.outcome for each in rerun[:2]] == [first.outcome, second.outcome]
    assert [each.matched for each in rerun[:2]] == ["effect", "effect"]
    assert rerun[2].effect.occurrence == 2


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"arguments": {"sku": "B", "qty": 1}}, {"/args/sku"}),
        ({"tool": "other-model"}, {"/target"}),
        ({"kind": Kind.LOCAL}, {"/kind"}),
        ({"kind": Kind.LOCAL, "tool": "x", "arguments": {"sku": "A"}}, {"/kind", "/target", "/args/qty"}),
    ],
    ids=["args", "target", "kind", "all"],
)
@pytest.mark.parametrize("state", ["running", "done", "lost"])
async def test_p2_2_a_token_reused_for_another_effect_is_refused_by_name(bench, changed, named, state):
    """2.2, 7.2: nothing runs, nothing is shown of the other."""
    first = (await bench.submit(token=A)).effect
    if state != "running":
        await (bench.settle(first, DONE) if state == "done" else bench.lose(first))
    before = await bench.types()
    refused = await bench.submit(token=A, **changed)
    assert (type(refused), refused.code) == (d.Refused, "tool_call_id_reused")
    assert set(refused.fields) == named
    assert "claim_token" in refused.message
    assert await bench.types() == before


async def test_p7_2_a_token_means_its_submission_in_one_conversation_only(bench):
    """7.2, 9.1: another conversation's, or company's, is nothing to it."""
    effects = {
        (await bench.submit(token=A, **where)).effect.effect_id
        for where in ({}, {"conversation": "c-2"}, {"company": "other"})
    }
    assert len(effects) == 3


async def test_p7_2_a_token_is_the_same_submission_wherever_it_comes_again(bench):
    """7.2: another turn or attempt does not make it another."""
    first = (await bench.submit(token=A)).effect
    for place in ({"turn": "t-2"}, {"attempt": 2}, {"step": 3}):
        again = await bench.submit(token=A, **place)
        assert (type(again), again.effect.effect_id) == (d.Granted, first.effect_id)


async def test_p2_1_with_a_tool_call_id_the_id_decides(bench):
    """7.2, 2.1: whatever the token; the second token waits, and is answered from the record."""
    first = await bench.submit("call_1", token=A)
    assert isinstance(await bench.submit("call_1", token=B), d.Wait)
    done = (await bench.settle(first.effect, DONE)).effect
    replay = await bench.submit("call_1", token=B)
    assert (type(replay), replay.effect, replay.matched) == (d.Replay, done, "tool_call_id")
    reused = await bench.submit("call_1", {"sku": "B"}, token=C)
    assert (type(reused), reused.code) == (d.Refused, "tool_call_id_reused")
    assert "/args/sku" in reused.fields


async def test_p4_6_at_most_once_that_lapses_is_unknown_and_replays_that(memory_bench, memory_time):
    """4.5, 4.6: its own token is told so as well; only a resolve or a late success ends it."""
    first = (await memory_bench.submit(token=A, mode=ONCE, lease_ms=1_000)).effect
    memory_time.advance(2_000)
    for token in (A, A):
        replay = await memory_bench.submit(token=token, mode=ONCE)
        assert (type(replay), replay.effect.effect_id) == (d.Replay, first.effect_id)
        assert replay.effect.status is Status.INDETERMINATE
    another = await memory_bench.submit(token=B, mode=ONCE)
    assert (type(another), another.fault.code) == (d.Denied, "prior_outcome_unknown")
    rerun = await memory_bench.submit(token=C, mode=ONCE, attempt=2)
    assert (type(rerun), rerun.effect.status) == (d.Replay, Status.INDETERMINATE)


async def test_p4_6_safe_to_retry_that_lapses_is_taken_up_under_its_own_key(memory_bench, memory_time):
    """4.6, 4.7: by a re-run of its turn, by another occurrence, and by its own token."""
    first = (await memory_bench.submit(token=A, lease_ms=1_000)).effect
    for token, attempt in ((B, 2), (C, 2), (A, 1)):
        memory_time.advance(61_000)
        taken = await memory_bench.submit(token=token, attempt=attempt)
        assert (type(taken), taken.effect.effect_id) == (d.Granted, first.effect_id)
        assert taken.effect.tokens[-1] == token
    assert (await memory_bench.types()).count("effect.proposed") == 1


@pytest.mark.parametrize("first", ["gateway", "runtime"])
async def test_p4_6_what_one_runs_the_other_never_takes_up(bench, first):
    """4.6: a gateway has no endpoint for a runtime's tool, and a runtime cannot stand in for a merchant."""
    call = {"kind": Kind.TOOL_CALL, "tool": "place_order", "mode": RETRIED, "on_repeat": OnRepeat.RUN, "turn": "t-1"}

    async def by(who, call_id):
        if who == "gateway":
            return await bench.claim(call_id, attempt=1, **call)
        return await bench.submit(call_id, **call)

    second = "runtime" if first == "gateway" else "gateway"
    granted = await by(first, "call_1")
    await bench.lose(granted.effect)
    replay = await by(second, "call_1")
    assert (type(replay), replay.effect.status) == (d.Replay, Status.INDETERMINATE)
    denied = await by(second, "call_2")
    assert (type(denied), denied.fault.code) == (d.Denied, "prior_outcome_unknown")
    assert isinstance(await by(first, "call_1"), d.Granted)


# --- renew ---------------------------------------------------------------------------------------------------


async def test_p7_2_a_renewed_lease_counts_anew(memory_bench, memory_time):
    """7.2: from the renewal; the sweeper looks when it ends, and not before."""
    effect = (await memory_bench.submit(token=A, lease_ms=10_000)).effect
    for _ in range(5):
        memory_time.advance(9_000)
        renewed = await memory_bench.renew(effect, lease_ms=10_000)
        assert isinstance(renewed, d.Renewed)
        assert (await memory_bench.ledger.due(10)).effects == ()
    assert (await memory_bench.types()).count("effect.renewed") == 5
    memory_time.advance(9_000)
    assert (await memory_bench.ledger.due(10)).effects == ()
    memory_time.advance(1_001)
    (due,) = (await memory_bench.ledger.due(10)).effects
    assert due.effect_id == effect.effect_id
    assert (await memory_bench.lapse(effect)).effect.status is Status.INDETERMINATE


async def test_p7_2_a_shorter_lease_takes_none_back(memory_bench, memory_time):
    """7.2: what was promised to its holder stands."""
    effect = (await memory_bench.submit(token=A, lease_ms=60_000)).effect
    await memory_bench.renew(effect, lease_ms=1_000)
    memory_time.advance(59_000)
    assert isinstance(await memory_bench.renew(effect, lease_ms=1_000), d.Renewed)


@pytest.mark.parametrize("mode", [ONCE, RETRIED])
async def test_p7_2_a_lease_that_has_lapsed_is_not_renewed(memory_bench, memory_time, mode):
    """7.2, 4.5: the outcome is unknown by then, and the renewal writes that down."""
    effect = (await memory_bench.submit(token=A, mode=mode, lease_ms=10_000)).effect
    memory_time.advance(10_000)
    late = await memory_bench.renew(effect)
    assert (type(late), late.effect.status) == (d.Late, Status.INDETERMINATE)
    assert (await memory_bench.types())[-1] == "effect.indeterminate"


async def test_p7_2_a_stale_token_renews_nothing(memory_bench, memory_time):
    """7.2: another has taken it up since."""
    effect = (await memory_bench.submit(token=A, lease_ms=1_000)).effect
    memory_time.advance(2_000)
    await memory_bench.submit(token=B, attempt=2)
    for token in (A, C):
        late = await memory_bench.renew(effect, token=token)
        assert (type(late), late.effect.tokens[-1]) == (d.Late, B)
    assert "effect.renewed" not in await memory_bench.types()


async def test_p9_4_a_claim_is_renewed_for_a_day_at_most(memory_bench, memory_time):
    """9.4: each renewal is a line in the log. A day from when it was claimed, however old the effect is."""
    effect = (await memory_bench.submit(token=A, lease_ms=DAY_MS - 1_000)).effect
    memory_time.advance(DAY_MS - 2_000)
    assert isinstance(await memory_bench.renew(effect), d.Renewed)
    memory_time.advance(3_000)
    assert isinstance(await memory_bench.renew(effect), d.Late)
    memory_time.advance(60_000)
    taken = await memory_bench.submit(token=B, attempt=2)
    assert taken.effect.effect_id == effect.effect_id
    assert isinstance(await memory_bench.renew(taken.effect), d.Renewed)


@pytest.mark.parametrize("state", ["settled", "released", "never"])
async def test_p7_2_what_does_not_run_is_not_renewed(bench, state):
    """7.2"""
    effect = (await bench.submit(token=A)).effect
    if state == "settled":
        await bench.settle(effect, DONE)
    elif state == "released":
        await bench.release(effect)
    late = await bench.renew(effect, token=C if state == "never" else A)
    assert isinstance(late, d.Late)


# --- release, complete, fail ---------------------------------------------------------------------------------


async def test_p7_2_a_release_gives_the_number_back(bench):
    """7.2, 2.4: and the token with it, which may be used for something else then."""
    first = (await bench.submit(token=A)).effect
    assert isinstance(await bench.release(first), d.Gone)
    assert isinstance(await bench.release(first), d.Gone)
    anew = await bench.submit(token=B)
    assert anew.effect.effect_id == first.effect_id
    assert isinstance(await bench.submit(arguments={"sku": "B"}, token=A), d.Granted)


async def test_p4_1_a_release_of_what_was_unknown_leaves_it_unknown(bench):
    """4.1: its first holder may have done it."""
    first = (await bench.submit(token=A)).effect
    await bench.lose(first)
    taken = (await bench.submit(token=B, attempt=2)).effect
    late = await bench.release(taken)
    assert (type(late), late.effect.status) == (d.Late, Status.INDETERMINATE)
    assert B not in late.effect.tokens


async def test_p4_3_completing_twice_is_done_and_another_outcome_a_conflict(bench):
    """4.3, 4.4"""
    effect = (await bench.submit(token=A)).effect
    for _ in range(2):
        assert isinstance(await bench.settle(effect, DONE), d.Settled)
    assert isinstance(await bench.settle(effect, OTHER), d.Conflicting)
    assert isinstance(await bench.settle(effect, FAILED), d.Late)
    assert (await bench.record(effect)).outcome == DONE
    assert (await bench.types()).count("effect.conflict") == 1


@pytest.mark.parametrize("mode", [ONCE, RETRIED])
@pytest.mark.parametrize("outcome", [DONE, FAILED], ids=["success", "failure"])
async def test_p4_4_only_a_success_that_comes_late_settles(memory_bench, memory_time, mode, outcome):
    """4.4: a failure after the lease has lapsed changes nothing."""
    effect = (await memory_bench.submit(token=A, mode=mode, lease_ms=1_000)).effect
    memory_time.advance(2_000)
    await memory_bench.lapse(effect)
    late = await memory_bench.settle(effect, outcome)
    assert isinstance(late, d.Settled if outcome is DONE else d.Late)
    stands = Status.SUCCEEDED if outcome is DONE else Status.INDETERMINATE
    assert (await memory_bench.record(effect)).status is stands


async def test_p4_4_a_first_holder_that_completes_settles_for_the_one_who_took_it_up(memory_bench, memory_time):
    """4.4: under safe_to_retry both do the same thing; the later report is kept as a conflict if it differs."""
    effect = (await memory_bench.submit(token=A, lease_ms=1_000)).effect
    memory_time.advance(2_000)
    await memory_bench.submit(token=B, attempt=2)
    assert isinstance(await memory_bench.settle(effect, DONE, token=A), d.Settled)
    assert isinstance(await memory_bench.settle(effect, DONE, token=B), d.Settled)
    assert isinstance(await memory_bench.settle(effect, OTHER, token=B), d.Conflicting)


async def test_p7_2_a_failure_is_stored_and_replayed(bench):
    """7.2, 2.5: to its own token and to a re-run; another occurrence is another try."""
    effect = await submitted(bench, FAILED, token=A)
    for token, attempt in ((A, 1), (B, 2)):
        replay = await bench.submit(token=token, attempt=attempt)
        assert (type(replay), replay.effect.outcome) == (d.Replay, effect.outcome)
    assert isinstance(await bench.submit(token=C, attempt=2), d.Granted)


async def test_p2_6_a_superseded_attempt_submits_nothing_new(bench):
    """2.6"""
    await submitted(bench, token=A, attempt=2)
    refused = await bench.submit(arguments={"sku": "B"}, token=B, attempt=1)
    assert (type(refused), refused.code) == (d.Refused, "attempt_superseded")


async def test_p4_15_many_who_submit_one_token_at_once_hold_one_effect(bench):
    """4.15, 7.2: a runtime that sends again before its answer came."""
    decisions = await asyncio.gather(*(bench.submit(token=A) for _ in range(12)))
    assert {type(each) for each in decisions} == {d.Granted}
    assert len({each.effect.effect_id for each in decisions}) == 1
    assert (await bench.types()).count("effect.executing") == 1


async def test_p4_15_many_tokens_of_one_id_grant_it_once(bench):
    """4.15, 2.1"""
    tokens = [b"token-of-%07d" % number for number in range(12)]
    decisions = await asyncio.gather(*(bench.submit("call_1", token=token) for token in tokens))
    assert sorted(type(each).__name__ for each in decisions) == ["Granted", *["Wait"] * 11]


async def test_p7_2_a_new_token_opens_an_approval_of_its_own(bench, asks):
    """7.2, 4.9: what changes nothing at a merchant is no repeat, also where policy holds it: two model calls that are
    meant are two, each with its approval. A tool call joins the one that waits."""
    first, second = [await bench.submit(token=token, **asks()) for token in (A, B)]
    assert isinstance(first, d.Blocked)
    assert isinstance(second, d.Blocked)
    assert [each.effect.occurrence for each in (first, second)] == [0, 1]
    assert first.effect.approval.id != second.effect.approval.id
    tool = {"kind": Kind.TOOL_CALL, "tool": "place_order", "mode": ONCE, "on_repeat": OnRepeat.HOLD, **asks()}
    held, joined = [await bench.submit(token=token, **tool) for token in (b"t" * 16, b"u" * 16)]
    assert isinstance(joined, d.Blocked)
    assert joined.effect.effect_id == held.effect.effect_id
