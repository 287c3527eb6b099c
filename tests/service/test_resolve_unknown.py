"""Resolving an unknown outcome by hand: who may, what follows, and what does not (5.5, 4.3, 2.4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.core.errors import Forbidden, Malformed, NotFound, NotIndeterminate
from gateway.core.model import Company, Principal, Role
from gateway.core.record import Fault, Mode
from gateway.service.declarations import Resolution

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
RUNTIME = Principal("rt", Role.RUNTIME, frozenset({"shop1"}), "k1")
MERCHANT = Principal("shop", Role.MERCHANT, frozenset({"shop1"}), "k2")
STRANGER = Principal("rt2", Role.RUNTIME, frozenset({"shop2"}), "k3")

SUCCEEDED = Resolution("shop1", "c1", "succeeded", "seen in the shop", b'"O-1"')
FAILED = Resolution("shop1", "c1", "failed", "declined", fault=Fault("card_declined", "The card was declined."))
ABSENT = Resolution("shop1", "c1", "absent", "no such order")


@pytest.fixture
async def unknown(world, seen):
    """A call whose answer was lost; its merchant is well again."""
    world.merchant.behave = lambda _: seen["reset"]
    answer = await world.call(tool_call_id="n1")
    assert answer.status == "indeterminate"
    world.merchant.behave = lambda _: seen["reply"](body="O-2")
    return answer.effect_id


async def resolved_events(world: Any) -> list[dict[str, Any]]:
    events = await world.look_up.events(OPERATOR, "shop1", "c1", 0, 100)
    return [event for event in events if event["type"] == "effect.resolved"]


async def test_k3_01_after_a_resolve_that_it_was_done_repeats_return_that_result(world, unknown):
    """K3-01, K1-14, 5.5: and the merchant is not asked again."""
    record = await world.resolve(OPERATOR, unknown, SUCCEEDED)
    assert (record["effect_id"], record["status"], bytes(record["result"])) == (unknown, "succeeded", b'"O-1"')
    for _ in range(3):
        repeat = await world.call(tool_call_id="n1")
        assert (repeat.decision, repeat.status, bytes(repeat.result)) == ("replay", "succeeded", b'"O-1"')
    assert (await world.call(tool_call_id="n2")).decision == "blocked"
    assert world.merchant.hits == 1
    page, _ = await world.look_up.unknown(OPERATOR, "shop1", None, 10)
    assert page == []


async def test_p5_5_a_resolve_that_it_failed_replays_as_that_failure(world, unknown):
    """5.5, 4.9: and an identical call may be made."""
    await world.resolve(OPERATOR, unknown, FAILED)
    repeat = await world.call(tool_call_id="n1")
    assert (repeat.status, repeat.error["code"], repeat.message[:22]) == (
        "failed",
        "card_declined",
        "The card was declined.",
    )
    assert world.merchant.hits == 1
    assert (await world.call(tool_call_id="n2")).status == "succeeded"


async def test_k4_02_once_it_is_resolved_as_absent_the_id_runs_anew(world, unknown):
    """K4-02, 5.5, 2.4: under the same effect id, so that the merchant still knows its key."""
    assert (await world.call(tool_call_id="n2")).error["code"] == "prior_outcome_unknown"
    record = await world.resolve(OPERATOR, unknown, ABSENT)
    assert (record["status"], record["result"], record["error"]) == ("absent", None, None)
    again = await world.call(tool_call_id="n1")
    assert (again.decision, again.status, again.effect_id) == ("proceed", "succeeded", unknown)
    assert world.merchant.hits == 2


@pytest.mark.parametrize("said", [SUCCEEDED, FAILED, ABSENT])
async def test_p5_5_said_again_it_is_done_and_said_otherwise_it_is_refused(world, unknown, said):
    """5.5, 4.3: one event, with who said it and why; what stands is named."""
    first = await world.resolve(OPERATOR, unknown, said)
    later = msgspec.structs.replace(said, note="said again", evidence="a log")
    assert await world.resolve(OPERATOR, unknown, later) == first
    others = [other for other in (SUCCEEDED, FAILED, ABSENT) if other is not said]
    for other in (*others, Resolution("shop1", "c1", "succeeded", "n", b'"O-9"')):
        with pytest.raises(NotIndeterminate) as refused:
            await world.resolve(OPERATOR, unknown, other)
        assert refused.value.details["stands"]["status"] == said.outcome
        assert (refused.value.status, refused.value.retryable) == (409, False)
    (event,) = await resolved_events(world)
    assert {name: event[name] for name in ("outcome", "by", "note")} == {
        "outcome": said.outcome,
        "by": "op",
        "note": said.note,
    }


async def test_p5_5_what_is_known_or_still_runs_cannot_be_resolved(world, seen, silent, kill, ledger_time):
    """5.5: 409 with what stands; nothing is changed."""
    world.merchant.behave = silent
    await kill(world, tool_call_id="n1")
    effect_id = world.merchant.header(0, "idempotency-key")
    with pytest.raises(NotIndeterminate) as refused:
        await world.resolve(OPERATOR, effect_id, ABSENT)
    assert refused.value.details["stands"]["status"] == "executing"
    world.merchant.behave = lambda _: seen["reply"](body="O-1")
    done = await world.call(tool_call_id="n2", arguments={"sku": "B"})
    with pytest.raises(NotIndeterminate) as refused:
        await world.resolve(OPERATOR, done.effect_id, ABSENT)
    assert refused.value.details["stands"]["status"] == "succeeded"
    assert await resolved_events(world) == []


async def test_p4_5_a_dead_workers_call_can_be_resolved_before_anybody_swept_it(world, silent, kill, ledger_time):
    """4.5, 5.5: its lease is over, so its outcome is unknown, whoever looks first."""
    world.merchant.behave = silent
    await kill(world, tool_call_id="n1")
    ledger_time.advance(15)
    record = await world.resolve(OPERATOR, world.merchant.header(0, "idempotency-key"), SUCCEEDED)
    assert record["status"] == "succeeded"
    events = await world.look_up.events(OPERATOR, "shop1", "c1", 0, 100)
    assert [event["type"] for event in events][-2:] == ["effect.indeterminate", "effect.resolved"]


@pytest.mark.parametrize("who", [RUNTIME, MERCHANT])
async def test_p5_5_without_the_right_nobody_resolves(world, unknown, who):
    """5.5, 9.1: a runtime neither, where its company does not say so; with evidence or without."""
    for evidence in (None, "I saw it"):
        with pytest.raises(Forbidden):
            await world.resolve(who, unknown, msgspec.structs.replace(ABSENT, evidence=evidence))
    assert (await world.call(tool_call_id="n1")).status == "indeterminate"


async def test_p5_5_a_runtime_resolves_where_its_company_allows_it_naming_its_evidence(world, unknown):
    """5.5"""
    world.shelf.companies["shop1"] = Company("shop1", runtime_may_resolve=True)
    with pytest.raises(Malformed) as refused:
        await world.resolve(RUNTIME, unknown, SUCCEEDED)
    assert refused.value.details["fields"][0]["field"] == "/evidence"
    for who in (STRANGER, MERCHANT):
        with pytest.raises(Forbidden):
            await world.resolve(who, unknown, msgspec.structs.replace(SUCCEEDED, evidence="x"))
    record = await world.resolve(RUNTIME, unknown, msgspec.structs.replace(SUCCEEDED, evidence="GET /orders: O-1"))
    assert record["status"] == "succeeded"
    (event,) = await resolved_events(world)
    assert (event["by"], event["evidence"]) == ("rt", "GET /orders: O-1")


@pytest.mark.parametrize(
    "effect_id", ["", "ab", "ab" * 31, "ab" * 33, "zz" * 32, " " + "a" * 63, "a b" * 21 + "a", "Ж" * 64]
)
async def test_p5_5_what_is_no_effect_is_not_found(world, unknown, effect_id):
    """5.5: never a fault, and never another's record."""
    with pytest.raises(NotFound):
        await world.resolve(OPERATOR, effect_id, ABSENT)


async def test_k4_05_an_effect_is_found_only_in_its_own_company_and_conversation(world, unknown):
    """K4-05, 9.1: also where half of its id, which names its record, is right."""
    for place in ({"company": "shop2"}, {"conversation": "c2"}):
        with pytest.raises(NotFound):
            await world.resolve(OPERATOR, unknown, msgspec.structs.replace(ABSENT, **place))
    with pytest.raises(NotFound):
        await world.resolve(OPERATOR, unknown[:32] + "0" * 32, ABSENT)
    assert (await world.call(tool_call_id="n1")).status == "indeterminate"


async def test_p4_12_a_result_over_the_cap_is_said_to_be_dropped_here_too(world, unknown):
    """4.12"""
    large = msgspec.structs.replace(SUCCEEDED, result=b'"' + b"x" * 1_048_576 + b'"')
    record = await world.resolve(OPERATOR, unknown, large)
    assert (record["status"], record["error"]["code"]) == ("succeeded", "result_dropped")
    assert (await world.call(tool_call_id="n1")).error["code"] == "result_dropped"


async def test_p5_5_a_retry_that_is_under_way_is_not_resolved_over_its_head(world, seen, retag):
    """5.5: it stands as executing (409), and ends by itself."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY)
    world.merchant.behave = lambda _: seen["reset"]
    first = await world.call(tool_call_id="n1")

    async def resolving(_: Any) -> Any:
        with pytest.raises(NotIndeterminate) as refused:
            await world.resolve(OPERATOR, first.effect_id, ABSENT)
        assert refused.value.details["stands"]["status"] == "executing"
        return seen["reply"](body="O-2")

    world.merchant.behave = resolving
    assert (await world.call(tool_call_id="n1")).status == "succeeded"
