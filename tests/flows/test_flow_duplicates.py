"""The same call again: at once, meanwhile, at the other replica, and by a client that has hung up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
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


@pytest.mark.parametrize("shared", [64, 255, 918, 1_023])
async def test_k1_09_long_ids_that_differ_in_their_last_letter_are_two_calls_and_are_in_no_log(
    shop: Api, merchant: RawMerchant, shared: int, heard: Callable[[], Awaitable[list[str]]]
) -> None:
    """K1-09, 2.8: two executions with arguments of their own, each replayed and looked up as itself; one byte over the
    limit does nothing; at debug level, the log has none of them in full."""
    stem = ("call_ab__thought__" + "A/+=" * 300)[:shared]
    ids = [f"{stem}1", f"{stem}2"]
    for expected in ("proceed", "replay"):
        for number, id_ in enumerate(ids):
            answer = await shop.call(id_, arguments={"n": number})
            assert (answer.decision, answer.json["result"]) == (expected, {"order": f"O-{number + 1}"})
    for number, id_ in enumerate(ids):
        (found,) = await shop.stored(id_)
        assert (found["tool_call_id"], found["result"]) == (id_, {"order": f"O-{number + 1}"})
    assert (await shop.call(ids[0], arguments={"n": 7})).code == "tool_call_id_reused"
    assert (await shop.call("A" * 1_025)).code == "malformed"
    assert await shop.stored(ids[0][:-1]) == []
    assert merchant.hits == 2
    assert not [line for line in await heard() if len(line) > 300 or "A/+=" * 50 in line]


@pytest.mark.parametrize("tool", ["list_orders", "cancel_all_holds"])
async def test_k2_01_empty_blank_and_an_object_are_one_call_of_a_reader_and_of_a_writer(
    shop: Api, merchant: RawMerchant, tool: str
) -> None:
    """K2-01, 2.9: a reader gets `{}` each time; a writer is one call. With required fields, none reaches the merchant."""
    await shop.register(tool, merchant.url, parameters={"type": "object", "properties": {}})
    reads = tool == "list_orders"
    answers = [await shop.call("e1", tool, sent) for sent in ("", "  ", {})]
    assert [answer.decision for answer in answers] == ["proceed", *(["proceed"] * 2 if reads else ["replay"] * 2)]
    assert [request.json["arguments"] for request in merchant.requests] == [{}] * (3 if reads else 1)
    needs = {"type": "object", "properties": {"shop": {"type": "string"}}, "required": ["shop"]}
    await shop.register(tool, merchant.url, parameters=needs)
    before = merchant.hits
    for sent in ("", "  ", {}):
        refused = await shop.call("e2", tool, sent)
        assert (refused.status, refused.code) == (422, "invalid_arguments")
    assert merchant.hits == before
    assert (await shop.call("e2", tool, {"shop": "A"})).decision == "proceed"


def _encoded(value: object, times: int) -> object:
    for _ in range(times):
        value = json.dumps(value)
    return value


async def test_k2_04_arguments_encoded_twice_are_the_call_they_hold_and_more_is_refused(
    shop: Api, merchant: RawMerchant
) -> None:
    """K2-04, 2.9: both forms of d1 are one hit; five layers, or a second one that holds no object, are 400 and leave
    their id free."""
    date = {"date": "2026-12-01"}
    forms = [_encoded(date, 2), date, _encoded(date, 1)]
    assert [(await shop.call("d1", arguments=form)).decision for form in forms] == ["proceed", "replay", "replay"]
    assert merchant.requests[0].json["arguments"] == date
    bad: list[object] = [_encoded(date, times) for times in (3, 4, 5)]
    bad += [_encoded(inner, 1) for inner in ("hello", 5, None, [1], True)] + [_encoded(5, 2), _encoded([date], 2)]
    for number, sent in enumerate(bad):
        refused = await shop.call(f"d2-{number}", arguments=sent)
        assert (refused.status, refused.code) == (400, "malformed"), sent
        assert merchant.hits == number + 1
        assert (await shop.call(f"d2-{number}", arguments={"n": number})).decision == "proceed"


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
