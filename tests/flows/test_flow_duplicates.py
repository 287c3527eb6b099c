"""The same call again: at once, meanwhile, at the other replica, and by a client that has hung up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from flow_client import Api, Reply
from flow_merchant import Connection, RawMerchant, Request, reply
from flow_processes import GatewayProcess

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]
IN_FLIGHT = "oncegate_calls_in_flight"


async def test_k1_01_the_same_call_twice_in_a_turn_reaches_the_merchant_once(shop: Api, merchant: RawMerchant) -> None:
    """K1-01, 2.1, 4.10: one hit, the second answer is marked as a replay in its body and by its header."""
    first = await shop.call("tu_1", arguments={"sku": "A", "qty": 1})
    second = await shop.call("tu_1", arguments={"sku": "A", "qty": 1})
    assert merchant.hits == 1
    assert (first.decision, second.decision) == ("proceed", "replay")
    assert first.json["result"] == second.json["result"] == {"order": "O-1"}
    assert second.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert second.json["replay"]["matched"] == "tool_call_id"


async def test_k1_01_p7_6_the_log_shows_one_execution_and_one_replay_in_order(
    shop: Api, eventually: Eventually
) -> None:
    """7.6: events are ordered and numbered, from proposed to replayed."""
    for _ in range(2):
        await shop.call("tu_1")
    await eventually(lambda: _has(shop, "effect.replayed"))
    events = await shop.events()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    wanted = ["effect.proposed", "effect.allowed", "effect.executing", "effect.succeeded", "effect.replayed"]
    assert [event["type"] for event in events] == wanted
    assert len({event["effect_id"] for event in events}) == 1
    stored = (await shop.stored("tu_1"))[0]
    assert [event["type"] for event in stored["events"]] == wanted


async def test_k1_12_a_duplicate_at_the_other_replica_waits_and_gets_the_same_answer(
    shop: Api, merchant: RawMerchant, gateways: list[GatewayProcess], eventually: Eventually
) -> None:
    """K1-12, 4.8: one merchant hit, whichever replica is asked meanwhile."""
    other = shop.by(url=lambda: gateways[1].url)
    gate = asyncio.Event()
    merchant.waits_for(gate)
    first = asyncio.create_task(shop.call("x1"))
    await eventually(lambda: merchant.hits == 1)
    await eventually(lambda: _knows(other, "place_order"))
    second = asyncio.create_task(other.call("x1"))
    await eventually(lambda: _metric_is(other, IN_FLIGHT, 1))
    gate.set()
    answers = await asyncio.gather(first, second)
    assert [answer.json["result"] for answer in answers] == [{"order": "O-1"}] * 2
    assert [answer.decision for answer in answers] == ["proceed", "replay"]
    assert merchant.hits == 1


async def test_k4_16_fifty_identical_calls_at_two_replicas_are_one_order_and_no_5xx(
    shop: Api, merchant: RawMerchant, gateways: list[GatewayProcess], eventually: Eventually
) -> None:
    """K4-16, 4.8, 4.15: one proceeds, 49 replay its result."""
    other = shop.by(url=lambda: gateways[1].url)
    await eventually(lambda: _knows(other, "place_order"))
    gate = asyncio.Event()
    merchant.waits_for(gate)
    calls = [asyncio.create_task((shop, other)[n % 2].call("race", arguments={"sku": "A"})) for n in range(50)]

    async def all_are_in() -> bool:
        return await shop.metric(IN_FLIGHT) + await other.metric(IN_FLIGHT) == 50

    await eventually(all_are_in)
    gate.set()
    answers: list[Reply] = await asyncio.gather(*calls)
    assert merchant.hits == 1
    assert {answer.status for answer in answers} == {200}
    assert sorted(answer.decision for answer in answers) == ["proceed"] + ["replay"] * 49
    assert all(answer.json["result"] == {"order": "O-1"} for answer in answers)


async def test_k8_04_p5_3_a_client_that_hangs_up_changes_nothing(
    shop: Api, merchant: RawMerchant, eventually: Eventually
) -> None:
    """K8-04, 5.3: the call runs on; a repeat meanwhile waits for it, a later one replays it; one hit."""
    gate = asyncio.Event()
    merchant.waits_for(gate)
    impatient = asyncio.create_task(shop.call("h1"))
    await eventually(lambda: merchant.hits == 1)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    meanwhile = asyncio.create_task(shop.call("h1"))
    await eventually(lambda: _metric_is(shop, IN_FLIGHT, 2))
    gate.set()
    assert (await meanwhile).json["result"] == {"order": "O-1"}
    assert (await shop.call("h1")).decision == "replay"
    assert merchant.hits == 1


async def test_p5_3_a_result_nobody_waited_for_is_recorded(
    shop: Api, merchant: RawMerchant, eventually: Eventually
) -> None:
    """5.3: with its only client gone, the call is still settled."""
    gate = asyncio.Event()
    merchant.waits_for(gate)
    impatient = asyncio.create_task(shop.call("h2"))
    await eventually(lambda: merchant.hits == 1)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    gate.set()

    async def settled() -> bool:
        return (await shop.stored("h2"))[0]["status"] == "succeeded"

    await eventually(settled)


async def test_p7_1_a_seventh_step_is_denied_and_a_call_without_a_step_is_not(shop: Api, merchant: RawMerchant) -> None:
    """7.1: at most six steps a turn; the denial is an answer, stores nothing, and leaves the id usable."""
    assert (await shop.call("s6", turn="t", step=6, arguments={"n": 6})).decision == "proceed"
    over = await shop.call("s7", turn="t", step=7, arguments={"n": 7})
    assert over.decision == "denied"
    assert over.json["error"]["code"] == "step_limit"
    assert merchant.hits == 1
    assert await shop.stored("s7") == []
    assert (await shop.call("s7", turn="u", step=1, arguments={"n": 7})).decision == "proceed"
    assert (await shop.call("s8", turn="t", arguments={"n": 8})).decision == "proceed"


async def test_p7_1_a_company_sets_the_limit_and_recorded_calls_replay_above_it(shop: Api) -> None:
    """7.1, 4.10: it is a company setting, and a recorded call replays whatever it is set to since."""
    company = f"/v1/companies/{shop.company}"
    await shop.send("PUT", company, {"max_steps": "off"})
    assert (await shop.call("s9", turn="t", step=900)).decision == "proceed"
    await shop.send("PUT", company, {"max_steps": 2})
    assert (await shop.call("s9", turn="t", step=900)).decision == "replay"
    assert (await shop.call("s10", turn="t", step=3, arguments={"n": 10})).decision == "denied"


async def test_a_batch_answers_each_call_in_its_place(shop: Api, merchant: RawMerchant) -> None:
    """api.md: an entry each, a problem object where a call failed, the others unharmed."""

    def call(tool_call_id: str, tool: str, arguments: object) -> dict[str, object]:
        place = {"company": shop.company, "conversation": "c-1"}
        return {**place, "tool_call_id": tool_call_id, "tool": tool, "arguments": arguments}

    calls = [
        call("b1", "place_order", {"sku": "A"}),
        call("b2", "no_such_tool", {}),
        call("b3", "get_menu", {}),
        call("b4", "place_order", "[1]"),
        call("b1", "place_order", {"sku": "A"}),
        {"company": shop.company, "surprise": 1},
    ]
    answered = await shop.send("POST", "/v1/calls/batch", {"calls": calls})
    assert answered.status == 200
    entries = answered.json["answers"]
    assert [entry.get("decision") or entry["code"] for entry in (entries[1], entries[2], entries[3], entries[5])] == [
        "unknown_tool",
        "proceed",
        "malformed",
        "malformed",
    ]
    assert sorted(entry["decision"] for entry in (entries[0], entries[4])) == ["proceed", "replay"]
    assert entries[0]["result"] == entries[4]["result"]
    assert merchant.hits_of("place_order") == 1


async def test_k1_09_odd_ids_are_looked_up_by_the_bytes_they_are(shop: Api, merchant: RawMerchant) -> None:
    """K1-09, 2.8: ids with `/`, `+`, `=`, spaces and more name their own call in the call and in the look-up."""
    odd = ["a/b", "a+b", "a b", "a=b&c=d", "a%2Fb", "a?b#c", "Ä🍛", ".", "..", "call_ab__thought__" + "A/+=" * 200]
    conversation = "c /+=?&1"
    for number, tool_call_id in enumerate(odd):
        answer = await shop.call(tool_call_id, arguments={"n": number}, conversation=conversation)
        assert answer.decision == "proceed"
    for number, tool_call_id in enumerate(odd):
        (found,) = await shop.stored(tool_call_id, conversation)
        assert (found["tool_call_id"], found["result"]) == (tool_call_id, {"order": f"O-{number + 1}"})
    assert merchant.hits == len(odd)
    assert (await shop.call("x" * 1025)).status == 400


async def test_p3_6_a_read_only_call_is_sent_each_time_and_not_recorded(shop: Api, merchant: RawMerchant) -> None:
    """3.6: no effect, no key header, no record."""

    async def menu(request: Request, connection: Connection) -> bytes | None:
        return reply(["dosa"])

    merchant.behave = menu
    for _ in range(2):
        answer = await shop.call("r1", "get_menu")
        assert (answer.decision, answer.json["effect_id"], answer.json["recorded"]) == ("proceed", None, False)
    assert merchant.hits == 2
    assert "idempotency-key" not in merchant.requests[0].headers
    assert await shop.stored("r1") == []


async def _has(api: Api, kind: str) -> bool:
    return any(event["type"] == kind for event in await api.events())


async def _knows(api: Api, tool: str) -> bool:
    return (await api.send("GET", f"/v1/companies/{api.company}/tools/{tool}")).status == 200


async def _metric_is(api: Api, series: str, value: float) -> bool:
    return await api.metric(series) == value
