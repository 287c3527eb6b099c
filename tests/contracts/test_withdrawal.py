"""Claims of which nobody knows whether they landed, and those that land when nobody waits for them any more (4.11)."""

from __future__ import annotations

import pytest

from gateway.adapters.redis_commands import LedgerUnreachable
from gateway.adapters.redis_ledger import RedisLedger
from gateway.core import decisions as d
from gateway.core.errors import LedgerUnavailable
from gateway.core.record import Mode, Status
from gateway.service.deciding import Decider


class Network:
    """Holds back the next script that writes, or its reply, and tells its sender neither."""

    one_server = True

    def __init__(self, wire):
        self._wire = wire
        self.unpacks = wire.unpacks
        self.fault = ""
        self.looks = 0
        self.under_way = []

    async def do(self, *command):
        fault, self.fault = self.fault, ""
        if self.looks:
            self.looks, self.fault = self.looks - 1, fault
            fault = ""
        if not fault:
            return await self._wire.do(*command)
        if fault == "late":
            self.under_way.append(command)
        else:
            await self._wire.do(*command)
        raise LedgerUnreachable("no answer came", may_have_run=True)

    async def arrive(self):
        """What was held back reaches the server. Whether it was applied."""
        (command,) = self.under_way
        answer = await self._wire.do(*command)
        return answer[0] == 1


class Gateway:
    """A gateway whose claims go through that network."""

    def __init__(self, bench):
        self.network = Network(bench.wire)
        self.decider = Decider(RedisLedger(self.network))

    async def lose_touch(self, claim, fault, *, looks=False):
        """Claim, after a look at the ledger or at once, and hear nothing of it."""
        self.network.fault, self.network.looks = fault, int(looks)
        with pytest.raises(LedgerUnavailable) as lost:
            await self.decider.claim(claim, likely_new=not looks)
        assert lost.value.may_have_run


@pytest.fixture
async def gateway(bench):
    await bench.run("call_0", {"sku": "Z"}, conversation="c-0")  # the server knows the scripts
    return Gateway(bench)


NAMED = pytest.mark.parametrize(
    "named",
    [
        {"call": "call_1"},
        {"call": "call_1", "turn": "t-1", "step": 1, "attempt": 2},
        {"call": None, "turn": "t-1", "attempt": 1},
    ],
    ids=["id", "turn", "no id"],
)


@NAMED
async def test_p4_11_a_claim_that_landed_unheard_is_released_by_its_withdrawal(bench, gateway, named):
    """4.11"""
    claim = bench.ask(**named)
    await gateway.lose_touch(claim, "lost")
    await gateway.decider.withdraw(claim)
    assert (await bench.types())[-1] == "effect.released"
    again = await bench.claim(**named)
    assert isinstance(again, d.Granted)
    assert len(again.effect.tokens) == 1


@NAMED
@pytest.mark.parametrize("times", [1, 3])
async def test_p4_11_a_claim_that_arrives_after_its_withdrawal_is_refused(bench, gateway, named, times):
    """4.11: nobody would run it, and nobody would end it."""
    claim = bench.ask(**named)
    await gateway.lose_touch(claim, "late")
    for _ in range(times):
        await gateway.decider.withdraw(claim)
    assert not await gateway.network.arrive()
    assert await bench.types() == []
    assert isinstance(await bench.claim(**named), d.Granted)
    assert (await bench.types())[-1] == "effect.executing"


async def test_p4_11_what_refuses_a_late_claim_ends_by_itself(bench, gateway):
    """4.11, 4.13: within the hour, and it is all that a withdrawal leaves."""
    claim = bench.ask("call_1", conversation="c-9")
    before = await bench.ttls()
    await gateway.lose_touch(claim, "late")
    await gateway.decider.withdraw(claim)
    after = await bench.ttls()
    assert {kind: len(found) for kind, found in after.items()} == {
        kind: len(found) + (kind == "p") for kind, found in before.items()
    }
    assert 0 < min(after["p"]) <= 3_600_000


async def test_p4_11_a_late_claim_is_refused_also_after_others_came_and_went(bench, gateway):
    """4.11: the same call ran again meanwhile and was given back, so that nothing stands as when it was decided."""
    claim = bench.ask("call_1")
    await gateway.lose_touch(claim, "late")
    await gateway.decider.withdraw(claim)
    await bench.release((await bench.claim("call_1")).effect)
    assert not await gateway.network.arrive()
    assert isinstance(await bench.claim("call_1"), d.Granted)


async def test_p4_11_a_late_retry_of_an_unknown_outcome_is_refused_and_leaves_it_unknown(bench, gateway):
    """4.6, 4.11: decided on what stood, not on nothing."""
    lost = await bench.lost("call_1", mode=Mode.SAFE_TO_RETRY)
    claim = bench.ask("call_1", mode=Mode.SAFE_TO_RETRY)
    await gateway.lose_touch(claim, "late", looks=True)
    await gateway.decider.withdraw(claim)
    assert not await gateway.network.arrive()
    stands = await bench.record(lost)
    assert (stands.status, stands.tokens) == (Status.INDETERMINATE, lost.tokens)


async def test_p4_11_a_retry_that_landed_unheard_is_withdrawn_and_leaves_it_unknown(bench, gateway):
    """4.6, 4.11: nothing was sent under its token; the one before it may have been."""
    lost = await bench.lost("call_1", mode=Mode.SAFE_TO_RETRY)
    claim = bench.ask("call_1", mode=Mode.SAFE_TO_RETRY)
    await gateway.lose_touch(claim, "lost", looks=True)
    assert (await bench.record(lost)).status is Status.EXECUTING
    await gateway.decider.withdraw(claim)
    stands = await bench.record(lost)
    assert (stands.status, stands.tokens) == (Status.INDETERMINATE, lost.tokens)


async def test_p4_11_a_late_second_after_a_refusal_is_refused(bench, gateway, outcomes):
    """4.9, 4.11: the first failed, so the second would run; its slot holds what the first left there."""
    await bench.run("call_1", outcome=outcomes.failure)
    claim = bench.ask("call_2")
    await gateway.lose_touch(claim, "late", looks=True)
    await gateway.decider.withdraw(claim)
    assert not await gateway.network.arrive()
    assert isinstance(await bench.claim("call_1"), d.Replay)
    assert isinstance(await bench.claim("call_2"), d.Granted)


async def test_p4_11_a_withdrawal_touches_no_claim_but_its_own(bench, gateway):
    """4.11: the same call was granted to another meanwhile."""
    claim = bench.ask("call_1")
    await gateway.lose_touch(claim, "late")
    other = (await bench.claim("call_1")).effect
    await gateway.decider.withdraw(claim)
    assert not await gateway.network.arrive()
    assert await bench.record(other) == other
    assert isinstance(await bench.settle(other), d.Settled)
    await gateway.decider.withdraw(claim)
    assert isinstance(await bench.claim("call_1"), d.Replay)


async def test_p4_11_a_withdrawal_that_comes_first_and_one_that_comes_second_agree(bench, gateway):
    """4.11: the claim lands between the withdrawal's look and its mark, which then finds it."""
    claim = bench.ask("call_1")
    await gateway.lose_touch(claim, "late")
    real_swap = gateway.decider._ledger.swap

    async def landing_first(where, view, writes):
        gateway.decider._ledger.swap = real_swap
        assert await gateway.network.arrive()
        return await real_swap(where, view, writes)

    gateway.decider._ledger.swap = landing_first
    await gateway.decider.withdraw(claim)
    assert (await bench.types())[-1] == "effect.released"
    assert isinstance(await bench.claim("call_1"), d.Granted)


async def test_p4_11_a_claim_that_lapsed_before_it_could_be_withdrawn_is_given_back(bench, gateway):
    """4.1, 4.11: by the only token ever issued, and nothing was sent."""
    claim = bench.ask("call_1", lease_ms=0)
    await gateway.lose_touch(claim, "lost")
    assert isinstance(await bench.claim("call_1"), d.Replay)
    await gateway.decider.withdraw(claim)
    assert isinstance(await bench.claim("call_1"), d.Granted)
