"""What a merchant says after a call was given up as unknown, or was judged by others (4.4, 4.5, K4-14, K4-12)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from gateway.core.errors import AttemptSuperseded, CallInFlight, LedgerUnavailable
from gateway.core.model import Principal, Role
from gateway.core.record import Fault, Mode
from gateway.service.declarations import Resolution

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
LEASE_S = 15
ABSENT = Resolution("shop1", "c1", "absent", "no such order")
DONE = Resolution("shop1", "c1", "succeeded", "seen", b'"O-1"')
FAILED = Resolution("shop1", "c1", "failed", "seen", fault=Fault("not_executed", "It was not done."))


class Stalled:
    """A worker whose merchant has not answered yet, while its lease is over."""

    def __init__(self, world: Any, ledger_time: Any) -> None:
        self.world, self.time = world, ledger_time
        self.gate: asyncio.Event = asyncio.Event()
        self.reply: Any = None

    async def start(self, **call: Any) -> None:
        hits = self.world.merchant.hits

        async def slowly(_: Any) -> Any:
            await self.gate.wait()
            return self.reply

        self.world.merchant.behave = slowly
        self.calling = asyncio.ensure_future(self.world.call(tool_call_id="n1", **call))
        await self.world.merchant.reached(hits + 1)
        self.effect_id = self.world.merchant.header(hits, "idempotency-key")
        self.time.advance(LEASE_S)

    async def wake(self, reply: Any) -> Any:
        self.reply = reply
        self.gate.set()
        return await self.calling


@pytest.fixture
async def stalled(world, ledger_time):
    made = Stalled(world, ledger_time)
    await made.start()
    yield made
    made.gate.set()
    await asyncio.gather(made.calling, return_exceptions=True)


async def events(world: Any) -> list[dict[str, Any]]:
    return await world.look_up.events(OPERATOR, "shop1", "c1", 0, 100)


def alarms(caplog):
    return [record for record in caplog.records if record.levelno >= logging.CRITICAL]


async def test_k4_14_a_worker_that_was_swept_settles_with_the_answer_that_comes_after_all(world, stalled, seen, caplog):
    """4.4, K4-14: its caller gets the result as recorded, and so does every repeat; the log says that it was late."""
    assert await world.another_gateway().sweep.once() == 1
    assert (await world.another_gateway().call(tool_call_id="n1")).status == "indeterminate"
    answer = await stalled.wake(seen["reply"](body="O-1"))
    assert (answer.decision, answer.status, bytes(answer.result), answer.recorded) == (
        "proceed",
        "succeeded",
        b'"O-1"',
        True,
    )
    repeat = await world.call(tool_call_id="n1")
    assert (repeat.decision, bytes(repeat.result), world.merchant.hits) == ("replay", b'"O-1"', 1)
    (settled,) = [event for event in await events(world) if event["type"] == "effect.succeeded"]
    assert settled["late"] is True
    assert (alarms(caplog), world.conflicts) == ([], [])


@pytest.mark.parametrize("what", ["refusal", "timed_out"])
async def test_k4_14_nothing_but_a_success_changes_what_was_swept(world, stalled, seen, what):
    """4.4: the caller is told what every repeat is told, that it is not known."""
    await world.another_gateway().sweep.once()
    answer = await stalled.wake(seen["reply"](400, {"error": "no"}) if what == "refusal" else seen["timed_out"])
    assert (answer.status, answer.error["code"]) == ("indeterminate", "outcome_unknown")
    assert (await world.call(tool_call_id="n1")).status == "indeterminate"
    assert world.merchant.hits == 1


@pytest.mark.parametrize(
    ("said", "against"), [(DONE, "outcome"), (FAILED, "outcome"), (ABSENT, "absence")], ids=["done", "failed", "absent"]
)
async def test_k4_14_a_late_success_after_an_operator_is_an_alarm(world, stalled, seen, caplog, said, against):
    """4.4: what was resolved stands, but for an absence, which the success disproves. The caller is told what the
    merchant said, and whether that is what is recorded."""
    await world.sweep.once()
    await world.resolve(OPERATOR, stalled.effect_id, said)
    answer = await stalled.wake(seen["reply"](body="O-2"))
    assert (answer.status, bytes(answer.result)) == ("succeeded", b'"O-2"')
    assert answer.recorded is (said is ABSENT)
    assert (len(alarms(caplog)), world.conflicts) == (1, [against])
    repeat = await world.call(tool_call_id="n1")
    if said is FAILED:
        assert (repeat.status, repeat.error["code"]) == ("failed", "not_executed")
    else:
        assert bytes(repeat.result) == (b'"O-2"' if said is ABSENT else b'"O-1"')
    kept = [event["seen"] for event in await events(world) if event["type"] == "effect.conflict"]
    assert kept == ([] if said is ABSENT else ['"O-2"']), "K4-14: history keeps both"
    merchants = await world.look_up.events(Principal("m", Role.MERCHANT, frozenset({"*"}), "k1"), "shop1", "c1", 0, 100)
    assert "O-2" not in str(merchants), "9.1"
    assert world.merchant.hits == 1


@pytest.mark.parametrize("what", ["refusal", "timed_out"])
@pytest.mark.parametrize("said", [DONE, FAILED, ABSENT], ids=["done", "failed", "absent"])
async def test_k4_14_nothing_but_a_success_is_an_alarm(world, stalled, seen, caplog, said, what):
    """4.4: a late refusal or timeout changes nothing and is no conflict. The caller is told what stands; where that
    is nothing, what its own worker saw, and that it is not recorded. Never that it was done."""
    await world.sweep.once()
    await world.resolve(OPERATOR, stalled.effect_id, said)
    before = await events(world)
    answer = await stalled.wake(seen["reply"](400, {"error": "no"}) if what == "refusal" else seen["timed_out"])
    if said is ABSENT:
        told = ("failed", "merchant_refused") if what == "refusal" else ("indeterminate", "outcome_unknown")
        assert ((answer.status, answer.error["code"]), answer.recorded) == (told, False)
    else:
        assert (answer.status, answer.result is not None) == (said.outcome, said is DONE)
    assert (answer.message == "Done.") is False
    assert await events(world) == before
    assert (alarms(caplog), world.conflicts) == ([], [])


@pytest.mark.parametrize("what", ["success", "refusal", "timed_out"])
async def test_p4_4_a_worker_that_comes_late_to_a_hold_says_what_it_saw(world, stalled, seen, what):
    """4.4, 4.9: absent, and asked for again as a repeat of what was done elsewhere. The hold stands."""
    await world.sweep.once()
    await world.resolve(OPERATOR, stalled.effect_id, ABSENT)
    world.merchant.behave = lambda _: seen["reply"](body="O-9")
    await world.call(tool_call_id="n9")
    held = await world.call(tool_call_id="n1")
    assert (held.decision, held.effect_id) == ("blocked", stalled.effect_id)
    replies = {"success": seen["reply"](body="O-1"), "refusal": seen["reply"](400), "timed_out": seen["timed_out"]}
    answer = await stalled.wake(replies[what])
    assert answer.status == {"success": "succeeded", "refusal": "failed", "timed_out": "indeterminate"}[what]
    assert (answer.recorded, answer.message == "Done.") == (False, False)
    assert world.conflicts == (["claim"] if what == "success" else [])
    assert (await world.call(tool_call_id="n1")).decision == "blocked"


async def test_p4_4_a_late_success_against_a_new_claim_leaves_that_claim_alone(world, stalled, seen, caplog):
    """4.4: absent, and made again: the second worker's call stands, and a person has to look at two orders."""
    await world.sweep.once()
    await world.resolve(OPERATOR, stalled.effect_id, ABSENT)
    second_gate = asyncio.Event()

    async def second(_: Any) -> Any:
        await second_gate.wait()
        return seen["reply"](body="O-2")

    world.merchant.behave = second
    again = asyncio.ensure_future(world.another_gateway().call(tool_call_id="n1"))
    await world.merchant.reached(2)
    late = await stalled.wake(seen["reply"](body="O-1"))
    assert (bytes(late.result), late.recorded, world.conflicts) == (b'"O-1"', False, ["claim"])
    assert len(alarms(caplog)) == 1
    second_gate.set()
    answer = await again
    assert (bytes(answer.result), answer.recorded) == (b'"O-2"', True)
    assert bytes((await world.call(tool_call_id="n1")).result) == b'"O-2"'


async def test_p4_4_under_safe_to_retry_the_first_success_settles_while_another_try_runs(
    world, ledger_time, seen, retag, caplog
):
    """4.4, 4.6: both were sent under one key, so both say the same; neither is an alarm, both are recorded."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY)
    stalled = Stalled(world, ledger_time)
    await stalled.start()
    await world.sweep.once()
    gate = asyncio.Event()

    async def second(_: Any) -> Any:
        await gate.wait()
        return seen["reply"](body="O-1")

    world.merchant.behave = second
    again = asyncio.ensure_future(world.another_gateway().call(tool_call_id="n1"))
    await world.merchant.reached(2)
    first = await stalled.wake(seen["reply"](body="O-1"))
    assert (first.status, first.recorded) == ("succeeded", True)
    assert (await world.call(tool_call_id="n1")).decision == "replay"
    gate.set()
    answer = await again
    assert (bytes(answer.result), answer.recorded) == (b'"O-1"', True)
    assert world.merchant.header(0, "idempotency-key") == world.merchant.header(1, "idempotency-key")
    assert (alarms(caplog), world.conflicts) == ([], [])


async def test_k4_12_an_outcome_that_found_no_ledger_settles_though_it_was_swept_meanwhile(
    world, seen, ledger_time, monkeypatch
):
    """4.4, 4.11, K4-12: the caller had the real result unrecorded; once the ledger is back it is what repeats get."""
    swap = world.ledger.swap
    away = True

    async def flaky(where, view, writes):
        if away and any(event.type == "effect.succeeded" for event in writes.events):
            raise LedgerUnavailable(may_have_run=False)
        return await swap(where, view, writes)

    monkeypatch.setattr(world.ledger, "swap", flaky)
    world.merchant.behave = lambda _: seen["reply"](body="O-1")
    answer = await world.call(tool_call_id="n1")
    assert (bytes(answer.result), answer.recorded) == (b'"O-1"', False)
    ledger_time.advance(LEASE_S)
    await world.sweep.once()
    assert (await world.call(tool_call_id="n1")).status == "indeterminate"
    away = False
    await world.settle_background()
    repeat = await world.call(tool_call_id="n1")
    assert (repeat.decision, bytes(repeat.result), world.merchant.hits) == ("replay", b'"O-1"', 1)


async def test_p4_11_a_claim_held_back_by_the_network_is_refused_when_it_arrives(world, seen, monkeypatch):
    """4.11: the caller was told that nothing was sent, the withdrawal found nothing; then the claim lands."""
    swap = world.ledger.swap
    held_back: list[Any] = []

    async def slow_network(where, view, writes):
        if not held_back:
            held_back.append((where, view, writes))
            raise LedgerUnavailable(may_have_run=True)
        return await swap(where, view, writes)

    monkeypatch.setattr(world.ledger, "swap", slow_network)
    with pytest.raises(LedgerUnavailable):
        await world.call(tool_call_id="n1")
    await world.settle_background()
    assert not (await swap(*held_back[0])).applied
    answer = await world.call(tool_call_id="n1")
    assert (answer.decision, answer.status, world.merchant.hits) == ("proceed", "succeeded", 1)


async def test_p4_5_a_worker_sends_only_while_its_lease_covers_what_is_left_of_the_deadline(world, monkeypatch):
    """4.5: a claim that took longer to land than the margin is given back unsent, by the worker's own clock."""
    swap = world.ledger.swap

    async def slow(where, view, writes):
        done = await swap(where, view, writes)
        if any(event.type == "effect.executing" for event in writes.events):
            world.clock.now += 5.001
        return done

    monkeypatch.setattr(world.ledger, "swap", slow)
    with pytest.raises(CallInFlight):
        await world.call(tool_call_id="n1")
    assert world.merchant.hits == 0
    assert await world.look_up.calls(OPERATOR, "shop1", "c1", "n1") == []
    monkeypatch.setattr(world.ledger, "swap", swap)
    assert (await world.call(tool_call_id="n1")).status == "succeeded"


async def test_p2_6_a_new_call_of_an_earlier_attempt_is_a_409_and_a_recorded_one_replays(world):
    """2.6"""
    await world.call(tool_call_id="n1", turn="t1", attempt=1)
    await world.call(tool_call_id="n2", turn="t1", attempt=2, arguments={"sku": "B"})
    with pytest.raises(AttemptSuperseded) as refused:
        await world.call(tool_call_id="n3", turn="t1", attempt=1, arguments={"sku": "C"})
    assert (refused.value.status, refused.value.retryable, refused.value.outcome) == (409, False, "not_sent")
    assert (await world.call(tool_call_id="n1", turn="t1", attempt=1)).decision == "replay"
    assert world.merchant.hits == 2
    assert (await world.call(tool_call_id="n3", turn="t1", arguments={"sku": "C"})).decision == "proceed"


@pytest.mark.parametrize("again", [False, True], ids=["no record", "claimed again"])
@pytest.mark.parametrize("what", ["success", "refusal"])
async def test_p4_14_a_success_whose_claim_the_ledger_lost_is_an_alarm(world, stalled, seen, caplog, again, what):
    """4.4, 4.14: a failover forgot the claim, and no event can be kept: somebody has to hear of it all the same, since
    asked again the call is sent once more."""
    await world.commands.do("FLUSHALL")
    if again:
        world.merchant.behave = lambda _: seen["reply"](body="O-2")
        assert (await world.another_gateway().call(tool_call_id="n1")).status == "succeeded"
    answer = await stalled.wake(seen["reply"](body="O-1") if what == "success" else seen["reply"](400))
    lost = what == "success"
    if lost:
        # Claimed again, its id names what the second send did; that both were done is what the alarm is for.
        told = (b'"O-2"', True) if again else (b'"O-1"', False)
        assert (answer.status, (bytes(answer.result), answer.recorded)) == ("succeeded", told)
    assert (len(alarms(caplog)), world.conflicts) == ((1, ["forgotten"]) if lost else (0, []))
    if lost:
        assert alarms(caplog)[0].effect_id == stalled.effect_id
