"""Records outlive the registration that made them: what the first claim fixed stays (4.6, 4.7, 4.10, 5.1)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.errors import MerchantNotReady, UnknownTool
from gateway.core.model import Company, Principal, Role
from gateway.core.record import Mode
from gateway.core.requests import OnRepeat

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
STR, AMO = Mode.SAFE_TO_RETRY, Mode.AT_MOST_ONCE


def unregistered(world, retag, turn_read_only):
    del world.shelf.shelf["shop1", "create_order"]


def at_most_once(world, retag, turn_read_only):
    retag(world, "create_order", idempotency=AMO, version=2)


def safe_to_retry(world, retag, turn_read_only):
    retag(world, "create_order", idempotency=STR, version=2)


def elsewhere(world, retag, turn_read_only):
    retag(world, "create_order", endpoint="https://new.example/tools", version=2)


def read_only(world, retag, turn_read_only):
    turn_read_only(world, "create_order", version=2)


def stricter(world, retag, turn_read_only):
    retag(world, "create_order", parameters={"type": "object", "required": ["address"]}, version=2)


def running_repeats(world, retag, turn_read_only):
    retag(world, "create_order", on_repeat=OnRepeat.RUN, version=2)


def fewer_steps(world, retag, turn_read_only):
    world.shelf.companies["shop1"] = Company("shop1", max_steps=1)


def declaring(world, retag, turn_read_only):
    retag(world, "create_order", unavailable_means_not_executed=True, version=2)


CHANGES = [
    unregistered,
    at_most_once,
    safe_to_retry,
    elsewhere,
    read_only,
    stricter,
    running_repeats,
    fewer_steps,
    declaring,
]
every_change = pytest.mark.parametrize("change", CHANGES)
PLACE: dict[str, Any] = {"turn": "t1", "step": 3, "attempt": 1}


@every_change
@pytest.mark.parametrize("status", [200, 400])
async def test_p4_10_a_settled_call_replays_as_it_was(world, seen, retag, turn_read_only, change, status):
    """4.10: a success and a refusal, with result and error flag intact; the merchant is not asked."""
    world.merchant.behave = lambda _: seen["reply"](status, {"order": "O-1"})
    first = await world.call(tool_call_id="n1", **PLACE)
    change(world, retag, turn_read_only)
    for gateway in (world, world.another_gateway()):
        again = await gateway.call(tool_call_id="n1", **PLACE)
        assert (again.decision, again.status, again.effect_id) == ("replay", first.status, first.effect_id)
        assert (again.result, again.error, again.side_effecting) == (first.result, first.error, True)
    assert world.merchant.hits == 1


@every_change
async def test_p4_6_an_unknown_at_most_once_call_is_never_sent_again(world, seen, retag, turn_read_only, change):
    """4.6: whatever its tool has become since."""
    world.merchant.behave = lambda _: seen["reset"]
    await world.call(tool_call_id="n1", **PLACE)
    world.merchant.behave = lambda _: seen["reply"](body="made twice")
    change(world, retag, turn_read_only)
    again = await world.another_gateway().call(tool_call_id="n1", **PLACE)
    assert (again.decision, again.status, again.error["code"]) == ("replay", "indeterminate", "outcome_unknown")
    assert world.merchant.hits == 1


@every_change
async def test_p4_6_an_unknown_safe_to_retry_call_is_sent_again_as_it_was(world, seen, retag, turn_read_only, change):
    """4.6: to the endpoint, under the key and with the bytes of its first claim."""
    retag(world, "create_order", idempotency=STR)
    world.merchant.behave = lambda _: seen["reset"]
    await world.call(tool_call_id="n1", **PLACE)
    tries = world.merchant.hits
    world.merchant.behave = lambda _: seen["reply"](body="O-1")
    change(world, retag, turn_read_only)
    again = await world.another_gateway().call(tool_call_id="n1", **PLACE)
    assert (again.status, bytes(again.result)) == ("succeeded", b'"O-1"')
    first, last = world.merchant.requests[0], world.merchant.requests[-1]
    assert (last.url, last.body) == ("https://shop1.example/tools", first.body)
    assert world.merchant.header(-1, "idempotency-key") == world.merchant.header(0, "idempotency-key")
    assert world.merchant.hits == tries + 1


@pytest.mark.parametrize("change", [c for c in CHANGES if c not in (unregistered, stricter, fewer_steps)])
@pytest.mark.parametrize("mode", [AMO, STR])
async def test_p4_7_an_identical_call_is_judged_by_the_mode_of_the_unknown_one(
    world, seen, retag, turn_read_only, change, mode
):
    """4.7: denied under at_most_once; under safe_to_retry the first is retried and answers. A tool that is read-only by
    now makes reads, which are nobody's repeats (3.6)."""
    retag(world, "create_order", idempotency=mode)
    world.merchant.behave = lambda _: seen["reset"]
    first = await world.call(tool_call_id="n1", **PLACE)
    world.merchant.behave = lambda _: seen["reply"](body="O-1")
    change(world, retag, turn_read_only)
    other = await world.call(tool_call_id="n2", **PLACE)
    if change is read_only:
        assert (other.decision, other.recorded) == ("proceed", False)
    elif mode is AMO:
        assert (other.decision, other.error["code"]) == ("denied", "prior_outcome_unknown")
        assert other.first["effect_id"] == first.effect_id
    else:
        assert (other.status, other.effect_id) == ("succeeded", first.effect_id)


@pytest.mark.parametrize("status", [503, 409])
@pytest.mark.parametrize("at_first", [True, False])
async def test_p5_1_what_a_503_means_is_what_was_declared_when_the_call_was_first_claimed(
    world, seen, retag, status, at_first
):
    """5.1, 4.6: the declaration is of the endpoint, and the record keeps both. A merchant that declares it today said
    nothing of what its old endpoint, which a retry still goes to, means by it."""
    retag(world, "create_order", idempotency=STR, unavailable_means_not_executed=at_first, timeout_s=0.05)
    world.merchant.behave = lambda _: seen["reset"]
    await world.call(tool_call_id="n1")
    retag(world, "create_order", unavailable_means_not_executed=not at_first, version=2)
    world.merchant.behave = lambda _: seen["reply"](status)
    # Unknown again either way, for the first try may have been carried out; but only one of the two answers says that
    # this one was not, and a try that was not is given back.
    assert (await world.call(tool_call_id="n1")).status == "indeterminate"
    (record,) = await world.look_up.calls(OPERATOR, "shop1", "c1", "n1")
    assert ("http_status" in record["events"][-1]) is not at_first
    world.merchant.behave = lambda _: seen["reply"](body="O-1")
    assert (await world.call(tool_call_id="n1")).status == "succeeded"


@pytest.mark.parametrize("status", [503, 409])
async def test_k3_04_a_declared_503_or_409_releases_and_the_id_runs_again(world, seen, retag, status):
    """K3-04, 5.1: 502, nothing recorded; 502 and 504 stay unknown whatever is declared."""
    retag(world, "create_order", unavailable_means_not_executed=True)
    world.merchant.behave = lambda _: seen["reply"](status)
    for _ in range(2):
        with pytest.raises(MerchantNotReady) as refused:
            await world.call(tool_call_id="n1")
        assert (refused.value.status, refused.value.outcome, refused.value.retryable) == (502, "not_sent", True)
    world.merchant.behave = lambda _: seen["reply"](body="O-1")
    first = await world.call(tool_call_id="n1")
    assert (first.decision, first.status) == ("proceed", "succeeded")
    for other in (502, 504, 500):
        world.merchant.behave = lambda _, other=other: seen["reply"](other)
        assert (await world.call(tool_call_id=f"n{other}", arguments={"sku": other})).status == "indeterminate"


async def test_p5_1_a_hold_that_ends_runs_under_what_is_declared_when_it_is_claimed(world, seen, retag):
    """4.6, 4.9, 5.1: a hold is no claim yet, so its endpoint and what its 503 means are those of its first claim."""
    await world.call(tool_call_id="n1")
    held = await world.call(tool_call_id="n2")
    assert held.decision == "blocked"
    retag(world, "create_order", unavailable_means_not_executed=True, on_repeat=OnRepeat.RUN, version=2)
    world.merchant.behave = lambda _: seen["reply"](503)
    with pytest.raises(MerchantNotReady):
        await world.call(tool_call_id="n2")
    assert world.merchant.hits == 2


async def test_p4_10_a_new_call_of_a_tool_that_is_gone_is_a_404(world):
    """4.10: only what is recorded outlives it."""
    await world.call(tool_call_id="n1")
    del world.shelf.shelf["shop1", "create_order"]
    with pytest.raises(UnknownTool):
        await world.call(tool_call_id="n2", arguments={"sku": "B"})
    assert (await world.call(tool_call_id="n1")).decision == "replay"
