"""A claim that too few servers hold is taken back, and nothing is sent (4.14)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from gateway.core.conversation import Writes
from gateway.core.errors import LedgerUnavailable, MerchantUnreachable
from gateway.core.identity import Kind, read_arguments
from gateway.core.model import Principal, Role
from gateway.core.policy_bundle import read_bundle
from gateway.core.record import Mode
from gateway.service.decide_approval import Verdict
from gateway.service.sending import Trace
from gateway.service.submit_effect import Submission

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
RUNTIME = Principal("rt", Role.RUNTIME, frozenset({"shop1"}), "k1")
HELD = {"id": "r", "priority": 1, "when": {"target": "create_order"}, "then": {"decision": "require_approval"}}


class Unconfirmed:
    """A ledger whose claims land where they are written and nowhere else, while `alone`."""

    confirms = True

    def __init__(self, ledger: Any) -> None:
        self._ledger, self.alone, self.claimed = ledger, True, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def swap(self, where: Any, view: Any, writes: Writes) -> Any:
        swap = await self._ledger.swap(where, view, writes)
        if swap.applied and writes.claims:
            self.claimed += 1
            if self.alone:
                raise LedgerUnavailable("0 of 1 replicas had it", may_have_run=True)
        return swap


@pytest.fixture
def unconfirmed(world: Any) -> Unconfirmed:
    world.decider._ledger = Unconfirmed(world.ledger)
    return world.decider._ledger  # type: ignore[no-any-return]


async def refused(world: Any, **fields: Any) -> None:
    with pytest.raises(LedgerUnavailable) as refusal:
        await world.call(**fields)
    assert (refusal.value.status, refusal.value.code, refusal.value.outcome) == (503, "ledger_unavailable", "not_sent")


async def test_p4_14_an_unconfirmed_claim_is_withdrawn_and_its_id_is_usable_again(world, unconfirmed):
    """4.14: 503, nothing sent, nothing left behind; confirmed again, the same request runs as new."""
    for _ in range(3):
        await refused(world, tool_call_id="n1")
        await world.settle_background()
        assert await world.look_up.calls(OPERATOR, "shop1", "c1", "n1") == []
    assert (world.merchant.hits, unconfirmed.claimed) == (0, 3)
    unconfirmed.alone = False
    first = await world.call(tool_call_id="n1")
    again = await world.call(tool_call_id="n1")
    assert (first.decision, again.decision, world.merchant.hits) == ("proceed", "replay", 1)


async def test_p4_14_who_waits_behind_an_unconfirmed_claim_is_judged_as_new(world, unconfirmed):
    """4.14, 4.8: before it is withdrawn it stands, and a duplicate must not take it for one that sends."""
    await refused(world, tool_call_id="n1")
    unconfirmed.alone = False
    answered = await world.call(tool_call_id="n1")
    assert (answered.decision, answered.status, world.merchant.hits) == ("proceed", "succeeded", 1)


async def test_p4_14_a_second_send_waits_like_the_first_and_leaves_the_outcome_unknown(world, unconfirmed, seen, retag):
    """4.14, 4.6: under `safe_to_retry` a repeat claims again; unconfirmed, it is as unknown as before."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY)
    unconfirmed.alone = False
    world.merchant.behave = lambda _: seen["reset"]
    first = await world.call(tool_call_id="n1")
    tried = world.merchant.hits
    unconfirmed.alone = True
    await refused(world, tool_call_id="n1")
    await world.settle_background()
    (stored,) = await world.look_up.calls(OPERATOR, "shop1", "c1", "n1")
    assert (stored["status"], world.merchant.hits) == ("indeterminate", tried)
    unconfirmed.alone = False
    world.merchant.behave = lambda _: seen["reply"](body="done")
    again = await world.call(tool_call_id="n1")
    assert (again.status, again.effect_id, world.merchant.hits) == ("succeeded", first.effect_id, tried + 1)


async def test_p4_14_what_was_recorded_before_is_still_answered(world, unconfirmed):
    """4.14, 4.10: replays and settles claim nothing, so they wait for nobody."""
    unconfirmed.alone = False
    await world.call(tool_call_id="n1")
    unconfirmed.alone = True
    assert (await world.call(tool_call_id="n1")).decision == "replay"
    assert (await world.call(tool_call_id="n2")).decision == "blocked"
    assert (await world.call(tool="list_orders", tool_call_id="r1")).decision == "proceed"
    assert unconfirmed.claimed == 1


async def test_p4_14_a_grant_is_not_sent_while_too_few_have_its_claim(world, unconfirmed):
    """4.14: the count is checked before sending, also where a grant's second try finds the claim of its first."""
    world.shelf.policies["shop1"] = read_bundle({"default_action": "allow", "rules": [HELD]}, "shop1")
    name = (await world.call(tool_call_id="n1")).approval["id"]
    with pytest.raises(LedgerUnavailable):
        await world.desk.decide_approval.grant(OPERATOR, name, Verdict(), Trace("r"))
    await world.settle_background()
    unconfirmed.alone = False
    held = await world.call(tool_call_id="n1")
    assert (held.decision, world.merchant.hits) == ("blocked", 0)
    granted = await world.desk.decide_approval.grant(OPERATOR, held.approval["id"], Verdict(), Trace("r"))
    assert (granted["status"], world.merchant.hits) == ("succeeded", 1)


async def test_p4_14_a_token_is_not_told_that_it_holds_what_too_few_have(world, unconfirmed, ledger_time):
    """4.14, 4.3: submitted again under its token after a 503, an effect may be run only once its claim is confirmed;
    the lease goes on from when it was claimed."""

    async def submit() -> dict[str, Any]:
        args = read_arguments({"sku": "A"})
        asked = Submission("shop1", "c1", "t-1", 1, Kind.TOOL_CALL, "create_order", args, "mine", tool_call_id="n1")
        answer: dict[str, Any] = await world.desk.submit_effect(RUNTIME, asked)
        return answer

    for _ in range(2):
        with pytest.raises(LedgerUnavailable):
            await submit()
    unconfirmed.alone = False
    ledger_time.advance(10)
    for claimed in (3, 4):
        answer = await submit()
        assert (answer["decision"], answer["lease_s"], unconfirmed.claimed) == ("proceed", 50.0, claimed)


class Watched(Unconfirmed):
    """Notes of each applied swap whether it claims, and what stands then."""

    def __init__(self, ledger: Any) -> None:
        super().__init__(ledger)
        self.alone = False
        self.log: list[tuple[bool, list[str]]] = []

    async def swap(self, where: Any, view: Any, writes: Writes) -> Any:
        swap = await super().swap(where, view, writes)
        if swap.applied:
            self.log.append((writes.claims, [e.status if e else "gone" for e in writes.effects.values()]))
        return swap


@pytest.mark.parametrize(
    ("behaviour", "swaps"),
    [
        (None, [(True, ["executing"]), (False, ["succeeded"])]),
        ("reset", [(True, ["executing"]), (False, ["indeterminate"])]),
        ("no_connection", [(True, ["executing"]), (False, ["gone"])]),
    ],
)
async def test_p4_14_of_a_call_only_the_claim_has_to_be_confirmed(
    world: Any, seen: dict[str, Any], behaviour: str | None, swaps: list[tuple[bool, list[str]]]
) -> None:
    """4.14: an end that is lost leaves the claim, which lapses to unknown; a claim that is lost leaves nothing."""
    world.decider._ledger = watched = Watched(world.ledger)
    if behaviour is not None:
        world.merchant.behave = lambda _: seen[behaviour]
    with pytest.raises(MerchantUnreachable) if behaviour == "no_connection" else nullcontext():
        await world.call(tool_call_id="n1")
    assert watched.log == swaps


async def test_p4_14_an_id_that_joins_what_is_held_claims_nothing(world: Any) -> None:
    """4.14, 4.9"""
    world.decider._ledger = watched = Watched(world.ledger)
    await world.call(tool_call_id="n1")
    watched.log.clear()
    assert (await world.call(tool_call_id="n2")).decision == "blocked"
    assert (await world.call(tool_call_id="n3")).decision == "blocked"
    assert watched.log
    assert not any(claims for claims, _ in watched.log)
