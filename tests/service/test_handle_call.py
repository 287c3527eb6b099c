"""One call from request to answer, over the real service, core and an in-memory ledger."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.core.answer import Answer, answer_bytes, iso
from gateway.core.errors import (
    CallInFlight,
    GatewayError,
    InvalidArguments,
    LedgerUnavailable,
    Malformed,
    MerchantNotReady,
    MerchantUnreachable,
    ToolCallIdReused,
    UnknownTool,
)
from gateway.core.identity import Scope
from gateway.core.model import Company, Principal, Role
from gateway.core.record import Mode
from gateway.core.requests import OnRepeat
from gateway.service.call_request import CallRequest
from gateway.service.decide_approval import Verdict
from gateway.service.sending import Trace
from gateway.web.call_fields import read_call

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")


def body(answer: Answer) -> dict[str, Any]:
    return json.loads(answer_bytes(answer))


async def test_k1_01_the_same_call_twice_reaches_the_merchant_once(world):
    """K1-01, 2.1: both answers carry the order, the second is marked; the log shows one execution, one replay."""
    first = body(await world.call(tool_call_id="tu_1"))
    second = body(await world.call(tool_call_id="tu_1"))
    await world.settle_background()
    assert world.merchant.hits == 1
    assert first["result"] == second["result"] == {"order": "O-1"}
    assert (first["decision"], second["decision"]) == ("proceed", "replay")
    assert second["replay"]["matched"] == "tool_call_id"
    events = await world.look_up.events(OPERATOR, "shop1", "c1", 0, 100)
    assert [e["type"] for e in events] == [
        "effect.proposed",
        "effect.allowed",
        "effect.executing",
        "effect.succeeded",
        "effect.replayed",
    ]
    assert [e["seq"] for e in events] == [1, 2, 3, 4, 5]


async def test_k1_02_an_identical_call_beside_it_is_blocked_and_shows_the_first_outcome(world):
    """K1-02, 4.8, 4.9: two ids, identical, at once: the second waits, then is held with `first` in full."""
    one, two = await asyncio.gather(
        world.call(tool_call_id="call_a", turn="t1", step=1), world.call(tool_call_id="call_b", turn="t1", step=1)
    )
    assert world.merchant.hits == 1
    assert (one.decision, two.decision) == ("proceed", "blocked")
    assert body(two)["first"]["result"] == {"order": "O-1"}
    assert body(two)["status"] == "awaiting_approval"
    assert "O-1" in two.message


async def test_k1_02_with_run_both_are_forwarded_under_keys_of_their_own(world, retag):
    """K1-02, 4.9: `run` says that a second is wanted."""
    retag(world, "create_order", on_repeat=OnRepeat.RUN)
    await asyncio.gather(
        world.call(tool_call_id="call_a", turn="t1", step=1), world.call(tool_call_id="call_b", turn="t1", step=1)
    )
    assert world.merchant.hits == 2
    assert world.merchant.header(0, "idempotency-key") != world.merchant.header(1, "idempotency-key")


async def test_k1_03_a_constant_id_is_refused_for_other_calls_until_steps_tell_them_apart(world):
    """K1-03, 2.2, 2.3: the id-reuse error names what differs and the cure; with three steps, three calls."""
    await world.call(tool_call_id="call_1", tool="add_to_cart", arguments={"sku": "A"})
    with pytest.raises(ToolCallIdReused) as other_arguments:
        await world.call(tool_call_id="call_1", tool="add_to_cart", arguments={"sku": "B"})
    with pytest.raises(ToolCallIdReused) as other_tool:
        await world.call(tool_call_id="call_1", tool="cancel_order", arguments={"order": "O-9"})
    assert world.merchant.hits == 1
    assert {"field": "/arguments/sku", "problem": "differs"} in other_arguments.value.details["fields"]
    assert {"field": "/tool", "problem": "differs"} in other_tool.value.details["fields"]
    assert "turn and step" in other_tool.value.message
    for step, (tool, arguments) in enumerate(
        [("add_to_cart", {"sku": "A"}), ("add_to_cart", {"sku": "B"}), ("cancel_order", {"order": "O-9"})], start=1
    ):
        await world.call(conversation="c2", tool_call_id="call_1", tool=tool, arguments=arguments, turn="t", step=step)
    assert world.merchant.hits == 4


async def test_k1_04_an_id_that_restarts_is_a_repeat_in_another_stated_turn(world, ledger_time):
    """K1-04, 2.3, 4.9: ten minutes later, replay without turns, with the time of the first; with another turn, blocked
    with the first shown, and granted it buys again; new under `turn`."""
    call = {"tool_call_id": "place_order:0", "arguments": {"sku": "A", "qty": 1}}
    began = ledger_time.now_ms
    await world.call(**call)
    await world.call(**call, conversation="c2", turn="t1")
    ledger_time.advance(600)
    world.clock.now += 600
    replay = await world.call(**call)
    assert (replay.decision, body(replay)["result"]) == ("replay", {"order": "O-1"})
    assert replay.replay == {"matched": "tool_call_id", "first_at": iso(began), "age_s": 600.0}
    again = await world.call(**call, conversation="c2", turn="t2")
    assert again.decision == "blocked"
    assert body(again)["first"]["result"] == {"order": "O-2"}
    assert world.merchant.hits == 2
    granted = await world.desk.decide_approval.grant(OPERATOR, again.approval["id"], Verdict(), Trace("req-2"))
    assert (granted["status"], world.merchant.hits) == ("succeeded", 3)
    bought = await world.call(**call, conversation="c2", turn="t2")
    assert (bought.decision, body(bought)["result"]) == ("replay", {"order": "O-3"})
    await world.call(**call, conversation="c3", turn="t1", call_id_scope="turn")
    world.clock.now += 600
    world.shelf.companies["shop1"] = Company("shop1", repeat_window_s=0)
    assert (await world.call(**call, conversation="c3", turn="t2", call_id_scope="turn")).decision == "proceed"


@pytest.mark.parametrize("blank", ["", "   ", "\t\n", None, ...])
async def test_k1_06_a_side_effecting_call_without_an_id_is_refused_unless_turn_and_attempt_name_it(world, blank):
    """K1-06, 2.7: empty, blank, null and missing are one, as the web layer reads them: 400 before anything is
    recorded; with turn and attempt, one call, and two calls never share a record; read-only calls pass."""

    async def call(**fields: Any) -> Answer:
        usual = {"company": "shop1", "conversation": "c1", "tool": "create_order", "arguments": {"sku": "A"}}
        document = {**usual, "tool_call_id": blank, **fields}
        read = read_call({name: value for name, value in document.items() if value is not ...})
        return await world.handle(Principal("rt", Role.RUNTIME, frozenset({"shop1"}), "k1"), read, Trace("req-1"))

    for place in ({}, {"turn": "t1"}, {"turn": "t1", "step": 1}):
        with pytest.raises(Malformed) as refused:
            await call(**place)
        assert [f["field"] for f in refused.value.details["fields"]] == ["/tool_call_id"]
    assert world.merchant.hits == 0
    assert await world.look_up.events(OPERATOR, "shop1", "c1", 0, 100) == []
    first = await call(turn="t1", attempt=1)
    again = await call(turn="t1", attempt=1)
    other = await call(turn="t1", attempt=1, arguments={"sku": "B"})
    assert (first.decision, again.decision, other.decision) == ("proceed", "replay", "proceed")
    assert first.effect_id == again.effect_id != other.effect_id
    assert world.merchant.hits == 2
    assert {world.merchant.header(i, "idempotency-key") for i in range(2)} == {first.effect_id, other.effect_id}
    assert (await call(tool="list_orders", arguments={})).decision == "proceed"


LONG = "call_ab__thought__" + "A+/=" * 251
"""An id of 1,022 bytes, as a proxy makes them that glues a signature to it."""


async def test_k1_09_ids_that_differ_in_their_last_byte_of_1024_are_two_calls(world, retag):
    """K1-09, 2.8: whatever their arguments; each replays its own outcome and is found under its own id alone."""
    retag(world, "create_order", on_repeat=OnRepeat.RUN)
    ids = [LONG + "x1", LONG + "x2"]
    assert {len(each) for each in ids} == {1_024}
    for same in (False, True):
        place = {"conversation": f"c-{same}"}
        calls = [{"tool_call_id": each, **place, "arguments": {"sku": "A" if same else each[-1]}} for each in ids]
        first = [await world.call(**call) for call in calls]
        again = [await world.call(**call) for call in calls]
        assert [a.decision for a in (*first, *again)] == ["proceed", "proceed", "replay", "replay"]
        assert first[0].effect_id != first[1].effect_id
        assert [a.effect_id for a in again] == [a.effect_id for a in first]
        for answer, each in zip(first, ids, strict=True):
            found = await world.look_up.calls(OPERATOR, "shop1", place["conversation"], each)
            assert [(call["effect_id"], call["tool_call_id"]) for call in found] == [(answer.effect_id, each)]
    assert world.merchant.hits == 4


async def test_k1_12_a_second_sending_waits_for_the_first_on_another_gateway(world, seen):
    """K1-12, 4.8: one merchant hit, the same result for both."""
    release = asyncio.Event()

    async def slowly(_: Any) -> Any:
        await release.wait()
        return seen["reply"](body="booked")

    world.merchant.behave = slowly
    first = asyncio.ensure_future(world.call(tool_call_id="x1"))
    second = asyncio.ensure_future(world.another_gateway().call(tool_call_id="x1"))
    await world.merchant.reached()
    for _ in range(20):
        await asyncio.sleep(0)
    release.set()
    one, two = await asyncio.gather(first, second)
    assert world.merchant.hits == 1
    assert body(one)["result"] == body(two)["result"] == "booked"


async def test_k1_12_a_wait_that_outlasts_its_deadline_is_in_flight_never_failed(world):
    """K1-12, 4.8: 409 call_in_flight with Retry-After, and still one send."""
    forever = asyncio.Event()

    async def never(_: Any) -> Any:
        await forever.wait()

    world.merchant.behave = never
    first = asyncio.ensure_future(world.call(tool_call_id="x1"))
    await world.merchant.reached()
    with pytest.raises(CallInFlight) as in_flight:
        await world.another_gateway().call(tool_call_id="x1")
    assert in_flight.value.retry_after_s
    assert world.merchant.hits == 1
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


@pytest.mark.parametrize(("sent", "same"), [("", {}), ("  ", {}), ({}, {}), ('{"a": 1}', {"a": 1})])
async def test_k2_01_and_k2_03_empty_text_and_json_text_are_the_object_they_stand_for(world, sent, same):
    """K2-01, K2-03, 2.9: one identity, and the merchant always receives an object."""
    await world.call(tool_call_id="s1", tool="cancel_order", arguments=sent)
    again = await world.call(tool_call_id="s1", tool="cancel_order", arguments=same)
    assert again.decision == "replay"
    assert world.merchant.hits == 1
    assert json.loads(world.merchant.requests[0].body)["arguments"] == same


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ('{"sku":"A","qty":1,}', "malformed JSON"),
        ('{"items":[{"sku":"A","qty":2},{"sku":"B","qty":1', "looks truncated"),
        ('"hello"', "malformed JSON"),
        ("[1]", "must be an object"),
        (5, "must be an object"),
        (None, "must be an object"),
        ([1], "must be an object"),
        (True, "must be an object"),
    ],
)
async def test_k2_06_and_k2_07_malformed_arguments_are_refused_and_leave_the_id_free(world, bad, said):
    """K2-06, K2-07, 2.9: never repaired, never sent, told what is wrong, and the corrected call runs under the same
    id."""
    with pytest.raises(Malformed) as refused:
        await world.call(tool_call_id="t1", arguments=bad)
    assert said in str(refused.value.details["fields"])
    assert world.merchant.hits == 0
    assert await world.look_up.calls(OPERATOR, "shop1", "c1", "t1") == []
    assert (await world.call(tool_call_id="t1", arguments={"sku": "A", "qty": 1})).decision == "proceed"


async def test_k2_11_big_numbers_pass_digit_for_digit_both_ways_and_differ_from_their_neighbours(world, seen):
    """K2-11, 2.10: what a float would round together are two calls."""
    world.merchant.behave = lambda r: seen["reply"](body=b'{"echo": 2512292042121000001}')
    first = await world.call(tool_call_id="b1", arguments='{"order_id":2512292042121000001}')
    assert b'"order_id":2512292042121000001' in world.merchant.requests[0].body
    again = await world.call(tool_call_id="b1", arguments='{"order_id":2512292042121000001}')
    assert b"2512292042121000001" in answer_bytes(first)
    assert b"2512292042121000001" in answer_bytes(again)
    with pytest.raises(ToolCallIdReused):
        await world.call(tool_call_id="b1", arguments='{"order_id":2512292042121000000}')


async def test_k2_10_the_forwarded_body_keeps_the_first_form_of_a_number(world):
    """K2-10, 2.10: 1, 1.0 and 1e0 are one call."""
    await world.call(tool_call_id="q1", arguments='{"qty":1.0}')
    assert (await world.call(tool_call_id="q1", arguments='{"qty":1e0}')).decision == "replay"
    assert b'"arguments":{"qty":1.0}' in world.merchant.requests[0].body


@pytest.mark.parametrize("what", ["timed_out", "reset"])
async def test_k3_01_and_k3_02_a_lost_answer_is_unknown_and_never_sent_again(world, seen, what):
    """K3-01, K3-02, 4.6, 5: not failed but unknown, with the key to reconcile by; repeats stay at one hit."""
    world.merchant.behave = lambda _: seen[what]
    first = await world.call(tool_call_id="n1")
    repeats = [await world.call(tool_call_id="n1") for _ in range(3)]
    assert world.merchant.hits == 1
    assert first.status == "indeterminate"
    assert body(first)["error"]["code"] == "outcome_unknown"
    assert {r.status for r in repeats} == {"indeterminate"}
    assert {r.effect_id for r in repeats} == {first.effect_id}
    assert world.merchant.header(0, "idempotency-key") == first.effect_id


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("reset", {"reason": "connection_lost"}),
        ("timed_out", {"reason": "timed_out"}),
        ("500", {"reason": "replied", "http_status": 500}),
        ("page", {"reason": "html", "http_status": 200}),
    ],
)
async def test_p5_a_call_that_becomes_unknown_is_one_warning_and_its_event_has_the_status(
    world, seen, caplog, what, said
):
    """5, 7.6: whoever asks the merchant needs the effect, the reason and the merchant's status; nothing it wrote."""
    replies = {"500": seen["reply"](500, {"error": "secret"}), "page": seen["reply"](200, b"<html>secret", "text/html")}
    world.merchant.behave = lambda _: replies.get(what) or seen[what]
    with caplog.at_level("WARNING"):
        answer = await world.call(tool_call_id="n1")
        await world.call(tool_call_id="n1")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("oncegate.calls", "WARNING")
    assert {name: getattr(record, name, None) for name in said} == said
    assert record.effect_id == answer.effect_id
    assert "secret" not in str(vars(record))
    events = await world.look_up.events(OPERATOR, "shop1", "c1", 0, 100)
    (lost,) = [event for event in events if event["type"] == "effect.indeterminate"]
    assert {name: lost[name] for name in ("reason", "http_status") if name in lost} == said


@pytest.mark.parametrize("status", [500, 502, 503, 504, 302, 408, 409])
async def test_k3_04_and_k4_02_a_5xx_is_unknown_and_an_identical_call_is_denied(world, seen, status):
    """K3-04, K4-02, 4.7: one POST; another id gets prior_outcome_unknown, nothing stored for it."""
    world.merchant.behave = lambda _: seen["reply"](status, {"error": "x"})
    assert (await world.call(tool_call_id="n1")).status == "indeterminate"
    world.merchant.behave = lambda _: seen["reply"](200, "fine")
    assert (await world.call(tool_call_id="n1")).status == "indeterminate"
    other = body(await world.call(tool_call_id="n2"))
    assert (other["decision"], other["error"]["code"]) == ("denied", "prior_outcome_unknown")
    assert world.merchant.hits == 1


async def test_p5_1_a_merchant_may_declare_that_its_503_means_not_executed(world, seen, retag):
    """K3-04, 5.1: then it is released, and the same id is used again."""
    retag(world, "create_order", unavailable_means_not_executed=True)
    world.merchant.behave = lambda _: seen["reply"](503, None)
    with pytest.raises(MerchantNotReady):
        await world.call(tool_call_id="n1")
    world.merchant.behave = lambda _: seen["reply"](200, "done")
    assert (await world.call(tool_call_id="n1")).status == "succeeded"


@pytest.mark.parametrize(
    ("what", "problem"), [("no_connection", MerchantUnreachable), (429, MerchantNotReady), (401, MerchantNotReady)]
)
async def test_k3_13_what_was_proved_not_sent_leaves_the_id_usable(world, seen, what, problem):
    """K3-13, K3-05, 5: a clear problem, no record left, and the same id runs when the fault is gone."""
    world.merchant.behave = lambda _: seen[what] if isinstance(what, str) else seen["reply"](what, None)
    with pytest.raises(problem) as raised:
        await world.call(tool_call_id="n1")
    assert raised.value.retryable
    assert await world.look_up.calls(OPERATOR, "shop1", "c1", "n1") == []
    world.merchant.behave = lambda _: seen["reply"](200, "done")
    assert (await world.call(tool_call_id="n1")).decision == "proceed"


@pytest.mark.parametrize(("status", "content"), [(204, b""), (200, b""), (200, b"null"), (201, b"")])
async def test_k3_06_an_empty_success_is_a_success_with_nothing_in_it(world, seen, status, content):
    """K3-06, 5: stored and replayed as such."""
    world.merchant.behave = lambda _: seen["reply"](status, content, "application/json")
    first = await world.call(tool_call_id="n1")
    again = await world.call(tool_call_id="n1")
    assert (first.status, again.status, world.merchant.hits) == ("succeeded", "succeeded", 1)
    assert body(first)["result"] is None


async def test_k3_07_a_refusal_reaches_the_assistant_as_the_reason_and_is_stored(world, seen):
    """K3-07, 5: 422 is the merchant's refusal, with its body; it replays."""
    world.merchant.behave = lambda _: seen["reply"](422, {"error": "out_of_stock"})
    first = body(await world.call(tool_call_id="n1"))
    again = body(await world.call(tool_call_id="n1"))
    assert first["error"]["code"] == "merchant_refused"
    assert first["error"]["details"]["body"] == {"error": "out_of_stock"}
    assert again["error"] == first["error"]
    assert "out_of_stock" in first["message"]


async def test_k4_04_a_cached_refusal_is_not_served_to_a_corrected_call(world, seen):
    """K4-04, 2.2: the id-reuse error, not the stale refusal as if it judged the new code."""
    world.merchant.behave = lambda _: seen["reply"](400, {"error": "wrong code"})
    refused = await world.call(tool_call_id="p1", tool="redeem_code", arguments={"code": "111"})
    assert (refused.status, world.merchant.hits) == ("failed", 1)
    world.merchant.behave = lambda _: seen["reply"](body="redeemed")
    for tool, arguments in (("redeem_code", {"code": "222"}), ("cancel_order", {})):
        with pytest.raises(ToolCallIdReused) as reused:
            await world.call(tool_call_id="p1", tool=tool, arguments=arguments)
        assert "send a fresh id" in reused.value.message
        said = f"{reused.value.message} {reused.value.details}"
        assert not [stale for stale in ("wrong code", "111", "refused") if stale in said]
    assert world.merchant.hits == 1
    cured = await world.call(tool_call_id="p2", tool="redeem_code", arguments={"code": "222"})
    assert (cured.decision, cured.status, world.merchant.hits) == ("proceed", "succeeded", 2)


async def test_k4_05_two_companies_with_the_same_ids_share_nothing(world):
    """K4-05, 9.1: two executions at two merchants; nothing of one in the other's answers or events."""
    one = await world.call(company="shop1", conversation="1", tool_call_id="1")
    two = await world.call(company="shop2", conversation="1", tool_call_id="1")
    assert [r.url for r in world.merchant.requests] == ["https://shop1.example/tools", "https://shop2.example/tools"]
    assert one.effect_id != two.effect_id
    events = await world.look_up.events(OPERATOR, "shop2", "1", 0, 100)
    assert one.effect_id not in json.dumps(events)


async def test_k4_16_fifty_identical_calls_on_two_gateways_reach_the_merchant_once(world, seen):
    """K4-16, 4.8: fifty answers with the one result."""
    other = world.another_gateway()

    async def slowly(_: Any) -> Any:
        for _ in range(50):
            await asyncio.sleep(0)
        return seen["reply"](body="one")

    world.merchant.behave = slowly
    answers = await asyncio.gather(*((world, other)[i % 2].call(tool_call_id="r1") for i in range(50)))
    assert world.merchant.hits == 1
    assert {body(a)["result"] for a in answers} == {"one"}


async def test_k7_01_every_side_effecting_request_carries_its_own_stable_key(world, seen):
    """K7-01, 6: a retry of the same call has the same key and body, another call another; reads carry none."""
    world.merchant.behave = lambda _: seen["no_connection"]
    for _ in range(2):
        with pytest.raises(MerchantUnreachable):
            await world.call(tool_call_id="n1")
    with pytest.raises(MerchantUnreachable):
        await world.another_gateway().call(tool_call_id="n2", arguments={"sku": "B"})
    keys = [world.merchant.header(i, "idempotency-key") for i in range(3)]
    assert keys[0] == keys[1] != keys[2]
    assert world.merchant.requests[0].body == world.merchant.requests[1].body
    world.merchant.behave = lambda _: seen["reply"](body=[])
    await world.call(tool_call_id=None, tool="list_orders", arguments={})
    assert world.merchant.header(3, "idempotency-key") is None


async def test_p6_the_merchant_receives_tool_arguments_and_context(world):
    """6: the wire's fields, no more."""
    await world.call(tool_call_id="n1", turn="t1", step=2, attempt=3)
    assert json.loads(world.merchant.requests[0].body) == {
        "tool": "create_order",
        "arguments": {"sku": "A"},
        "context": {"company": "shop1", "conversation": "c1", "turn": "t1", "tool_call_id": "n1", "attempt": 3},
    }
    assert world.merchant.header(0, "webhook-id") == world.merchant.header(0, "idempotency-key")


async def test_p4_10_a_recorded_call_replays_whatever_happened_since(world):
    """4.10: before a 404, 422 or a step refusal the ledger is read."""
    await world.call(tool_call_id="n1", turn="t1", step=2)
    world.shelf.put("shop1", "create_order", parameters={"type": "object", "required": ["colour"]}, version=2)
    assert (await world.call(tool_call_id="n1", turn="t1", step=2)).decision == "replay"
    world.shelf.companies["shop1"] = Company("shop1", max_steps=1)
    assert (await world.call(tool_call_id="n1", turn="t1", step=2)).decision == "replay"
    del world.shelf.shelf["shop1", "create_order"]
    assert (await world.call(tool_call_id="n1", turn="t1", step=2)).decision == "replay"
    assert world.merchant.hits == 1


async def test_p8_an_unknown_tool_is_a_404_that_offers_near_names(world):
    """8: nothing is recorded, nothing sent."""
    with pytest.raises(UnknownTool) as unknown:
        await world.call(tool_call_id="n1", tool="create_ordr")
    assert "create_order" in unknown.value.message
    assert "create_order" in unknown.value.details["nearest"]
    assert "fields" not in unknown.value.details
    assert await world.look_up.calls(OPERATOR, "shop1", "c1", "n1") == []


async def test_p8_arguments_that_do_not_fit_are_a_422_and_consume_nothing(world):
    """8, K2-01: required fields that are missing are named, and the id stays free."""
    world.shelf.put("shop1", "create_order", parameters={"type": "object", "required": ["sku"]})
    with pytest.raises(InvalidArguments) as invalid:
        await world.call(tool_call_id="n1", arguments="")
    assert invalid.value.details == {"fields": [{"field": "/arguments/sku", "problem": "is required"}]}
    assert invalid.value.message == "The arguments do not fit the tool's parameters: /arguments/sku is required."
    assert (await world.call(tool_call_id="n1", arguments={"sku": "A"})).decision == "proceed"


async def test_p7_1_a_new_call_above_six_steps_is_denied_and_a_request_without_a_step_is_not(world):
    """7.1: denied `step_limit`, logged, not stored, not sent."""
    seventh = body(await world.call(tool_call_id="n7", turn="t1", step=7))
    assert (seventh["decision"], seventh["error"]["code"]) == ("denied", "step_limit")
    assert world.merchant.hits == 0
    assert (await world.call(tool_call_id="n6", turn="t1", step=6)).decision == "proceed"
    assert (await world.call(tool_call_id="n8", arguments={"sku": "B"})).decision == "proceed"
    events = await world.look_up.events(OPERATOR, "shop1", "c1", 0, 100)
    assert "effect.denied" in [e["type"] for e in events]


async def test_p3_6_a_read_only_call_is_answered_and_not_recorded(world, seen):
    """3.6: effect_id null, recorded false, sent each time; an unknown outcome is tried again in the deadline."""
    answers = iter([seen["timed_out"], seen["reply"](body=["tea"]), seen["reply"](body=["tea"])])
    world.merchant.behave = lambda _: next(answers)
    first = body(await world.call(tool_call_id="r1", tool="get_menu", arguments={}))
    await world.call(tool_call_id="r1", tool="get_menu", arguments={})
    assert (first["effect_id"], first["recorded"], first["result"]) == (None, False, ["tea"])
    assert world.merchant.hits == 3


async def test_p3_6_a_tool_that_was_side_effecting_is_still_looked_up(world, retag):
    """3.6: what was recorded replays although the tool is read-only by now."""
    await world.call(tool_call_id="n1")
    verdict = world.shelf.shelf["shop1", "get_menu"].verdict
    retag(world, "create_order", verdict=verdict, protected_until_ms=world.clock.wall_ms() + 60_000)
    assert (await world.call(tool_call_id="n1")).decision == "replay"
    assert world.merchant.hits == 1
    assert (await world.call(tool_call_id="n2")).recorded is False


async def test_p4_6_safe_to_retry_is_sent_again_with_the_same_key_inside_the_deadline(world, seen, retag):
    """4.6, 6: unknown then known: one key, one body, one result."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY)
    answers = iter([seen["reset"], seen["reply"](503, None), seen["reply"](body="done")])
    world.merchant.behave = lambda _: next(answers)
    assert (await world.call(tool_call_id="n1")).status == "succeeded"
    assert len({world.merchant.header(i, "idempotency-key") for i in range(3)}) == 1
    assert len({r.body for r in world.merchant.requests}) == 1


async def test_p4_6_safe_to_retry_is_sent_again_at_the_next_repeat_as_first_written(world, seen, retag):
    """4.6, 2.10: the repeat words a number otherwise; the merchant gets the first form, under the first key."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY)
    world.merchant.behave = lambda _: seen["reset"]
    assert (await world.call(tool_call_id="n1", arguments='{"qty":1.0}')).status == "indeterminate"
    tried = world.merchant.hits
    world.merchant.behave = lambda _: seen["reply"](body="done")
    again = await world.call(tool_call_id="n1", arguments='{"qty":1}')
    assert (again.status, world.merchant.hits) == ("succeeded", tried + 1)
    assert len({r.body for r in world.merchant.requests}) == 1
    assert len({world.merchant.header(i, "idempotency-key") for i in range(world.merchant.hits)}) == 1


async def test_p4_7_safe_to_retry_lets_the_first_answer_an_identical_call(world, seen, retag):
    """4.7: the first is retried under its own key, and answers."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY)
    world.merchant.behave = lambda _: seen["reset"]
    first = await world.call(tool_call_id="n1")
    world.merchant.behave = lambda _: seen["reply"](body="done")
    other = await world.call(tool_call_id="n2")
    assert (other.status, other.effect_id) == ("succeeded", first.effect_id)
    assert len({world.merchant.header(i, "idempotency-key") for i in range(world.merchant.hits)}) == 1


async def test_p4_12_a_result_over_the_cap_is_recorded_without_it_and_never_run_again(world, seen):
    """4.12: succeeded, `result_dropped`, replayed so."""
    world.merchant.behave = lambda _: seen["reply"](body="x" * 1_048_577)
    first = body(await world.call(tool_call_id="n1"))
    again = body(await world.call(tool_call_id="n1"))
    assert first["status"] == again["status"] == "succeeded"
    assert first["error"]["code"] == again["error"]["code"] == "result_dropped"
    assert world.merchant.hits == 1


async def test_p4_9_a_repeat_after_a_refusal_runs(world, seen):
    """4.9: failed ones do not count; a model may try a refused booking again."""
    world.merchant.behave = lambda _: seen["reply"](422, {"error": "full"})
    await world.call(tool_call_id="n1", turn="t1", step=1)
    world.merchant.behave = lambda _: seen["reply"](body="booked")
    assert (await world.call(tool_call_id="n2", turn="t1", step=2)).decision == "proceed"
    assert world.merchant.hits == 2


async def test_p2_5_a_re_run_turn_replays_under_new_ids_and_the_second_of_two_is_the_second(world, retag):
    """2.4, 2.5: the same effects in the same order, whatever the ids are called."""
    retag(world, "create_order", on_repeat=OnRepeat.RUN)
    first = [body(await world.call(tool_call_id=f"a{i}", turn="t1", step=i, attempt=1)) for i in (1, 2)]
    again = [body(await world.call(tool_call_id=f"b{i}", turn="t1", step=i, attempt=2)) for i in (1, 2)]
    assert [a["result"] for a in again] == [f["result"] for f in first]
    assert {a["replay"]["matched"] for a in again} == {"effect"}
    assert world.merchant.hits == 2
    third = await world.call(tool_call_id="b3", turn="t1", step=3, attempt=2)
    assert (third.decision, world.merchant.hits) == ("proceed", 3)


async def test_p4_2_the_effect_is_recorded_as_executing_before_the_merchant_hears_of_it(world):
    """4.2, 7.6, K8-12: the log never lacks an executed call."""
    recorded = []

    async def look(_: Any) -> Any:
        recorded.extend(await world.look_up.calls(OPERATOR, "shop1", "c1", "n1"))
        from gateway.core.outcome import Reason, Seen, SeenKind

        return Seen(SeenKind.REPLY, Reason.REPLIED, True, 200, "application/json", None, "", b'"ok"')

    world.merchant.behave = look
    await world.call(tool_call_id="n1")
    assert recorded[0]["status"] == "executing"
    assert "effect.executing" in [e["type"] for e in recorded[0]["events"]]


class Broken:
    """A ledger that fails where told."""

    def __init__(self, ledger: Any, fail: set[int], may_have_run: bool) -> None:
        self._ledger, self._fail, self._ran, self.swaps = ledger, fail, may_have_run, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def swap(self, *args: Any) -> Any:
        self.swaps += 1
        if self.swaps in self._fail:
            if self._ran:
                await self._ledger.swap(*args)
            raise LedgerUnavailable(may_have_run=self._ran)
        return await self._ledger.swap(*args)


@pytest.mark.parametrize("may_have_run", [False, True])
async def test_p4_11_without_a_ledger_nothing_is_sent_and_a_claim_that_landed_is_withdrawn(world, may_have_run):
    """4.11: 503, and the same id runs once the ledger is back."""
    world.decider._ledger = Broken(world.ledger, {1}, may_have_run)
    with pytest.raises(LedgerUnavailable):
        await world.call(tool_call_id="n1")
    await world.settle_background()
    assert world.merchant.hits == 0
    assert (await world.call(tool_call_id="n1")).decision == "proceed"


@pytest.mark.parametrize("may_have_run", [False, True])
async def test_p4_11_a_ledger_lost_at_settle_gives_the_real_result_and_settles_later(world, may_have_run):
    """4.11: `recorded` false, the worker keeps trying, the repeat gets the result and no second send."""
    world.decider._ledger = Broken(world.ledger, {2} if may_have_run else {2, 3}, may_have_run)
    first = body(await world.call(tool_call_id="n1"))
    await world.settle_background()
    again = body(await world.call(tool_call_id="n1"))
    assert first["result"] == again["result"] == {"order": "O-1"}
    assert world.merchant.hits == 1
    if not may_have_run:
        assert first["recorded"] is False


async def test_p9_1_a_key_of_another_company_is_forbidden_whatever_the_body_says(world):
    """9.1, K6-12: the key decides."""
    stranger = Principal("rt", Role.RUNTIME, frozenset({"shop2"}), "k2")
    with pytest.raises(GatewayError) as forbidden:
        await world.handle(stranger, CallRequest("shop1", "c1", "create_order", {}, "n1"), Trace("r"))
    assert forbidden.value.status == 403
    merchant = Principal("m", Role.MERCHANT, frozenset({"shop1"}), "k3")
    with pytest.raises(GatewayError) as no_right:
        await world.handle(merchant, CallRequest("shop1", "c1", "create_order", {}, "n1"), Trace("r"))
    assert no_right.value.status == 403


async def test_k6_12_ids_that_a_stranger_sends_first_are_not_taken(world):
    """K6-12, 9.1: whoever guesses a conversation's ids occupies none of them, and none reaches the merchant."""
    stranger = Principal("rt", Role.RUNTIME, frozenset({"shop2"}), "k2")
    for number in range(10):
        with pytest.raises(GatewayError) as forbidden:
            await world.handle(
                stranger, CallRequest("shop1", "c1", "create_order", {"sku": "A"}, f"call_{number}"), Trace("r")
            )
        assert forbidden.value.status == 403
    assert world.merchant.hits == 0
    assert [(await world.call(tool_call_id=f"call_{n}", arguments={"n": n})).decision for n in range(10)] == [
        "proceed"
    ] * 10
    assert world.merchant.hits == 10


@pytest.mark.parametrize(("scope", "place", "named"), [("turn", {}, ["/turn"]), ("step", {"turn": "t1"}, ["/step"])])
async def test_p2_3_a_scope_set_for_the_company_asks_for_what_it_names(world, scope, place, named):
    """2.3: leaving turn or step out is then a 400 that names it, and nothing is sent."""
    world.shelf.companies["shop1"] = Company("shop1", call_id_scope=Scope(scope))
    with pytest.raises(Malformed) as missing:
        await world.call(tool_call_id="n1", **place)
    assert [f["field"] for f in missing.value.details["fields"]] == named
    assert world.merchant.hits == 0


async def test_p4_10_an_exact_repeat_is_answered_also_while_the_ledger_is_away(world):
    """4.10, 2.1: a settled outcome is final, so what this gateway has just settled needs no look."""
    call = {"tool_call_id": "n1", "turn": "t1", "step": 1, "attempt": 1}
    await world.call(**call)
    world.decider._ledger = None
    again = body(await world.call(**call))
    assert (again["decision"], again["result"], again["replay"]["matched"]) == (
        "replay",
        {"order": "O-1"},
        "tool_call_id",
    )
    for change in (
        {"arguments": {"sku": "B"}},
        {"tool": "cancel_order"},
        {"attempt": 2},
        {"attempt": None},
        {"step": 2},
    ):
        with pytest.raises(AttributeError):
            await world.call(**{**call, **change})


async def test_p4_6_an_unknown_outcome_is_never_answered_from_the_process(world, seen):
    """4.6, 5.5: what may still be settled or resolved is asked of the ledger each time."""
    call = {"tool_call_id": "n1", "turn": "t1", "step": 1, "attempt": 1}
    world.merchant.behave = lambda _: seen["timed_out"]
    await world.call(**call)
    world.decider._ledger = None
    with pytest.raises(AttributeError):
        await world.call(**call)


async def test_p2_5_an_id_that_cannot_be_bound_any_more_is_refused_not_answered(world, retag, monkeypatch):
    """2.5, 9.4: answered but unbound, the same id could run the work again once the window is over."""
    monkeypatch.setattr("gateway.core.granting.MAX_ALIASES", 5)
    retag(world, "create_order", on_repeat=OnRepeat.REPLAY)
    for number in range(5):
        await world.call(tool_call_id=f"i{number}")
    with pytest.raises(GatewayError) as full:
        await world.call(tool_call_id="i5")
    assert full.value.code == "conversation_full"
    assert (await world.call(tool_call_id="i4")).decision == "replay"
    assert world.merchant.hits == 1


async def test_p2_5_a_re_run_with_recurring_ids_replays_in_order_and_runs_what_is_new(world, retag):
    """2.3, 2.4, 2.5: one id for every call, attempt by attempt and step by step; a wanted fourth is a fourth."""
    retag(world, "create_order", on_repeat=OnRepeat.RUN)
    call = {"tool_call_id": "call_1", "turn": "t1"}
    first = [body(await world.call(**call, step=s, attempt=1))["result"] for s in (1, 2, 3)]
    again = [body(await world.call(**call, step=s, attempt=2)) for s in (1, 2, 3)]
    assert [a["result"] for a in again] == first
    assert {a["decision"] for a in again} == {"replay"}
    fourth = body(await world.call(**call, step=4, attempt=2))
    assert (fourth["decision"], world.merchant.hits) == ("proceed", 4)
    assert body(await world.call(**call, step=4, attempt=2))["result"] == fourth["result"]


async def test_p2_3_a_second_order_in_a_re_run_is_not_swallowed_by_the_first(world, retag):
    """2.3: step 2 of attempt 2, after step 1 of it was answered with the first, is a repeat: with `run`, it runs."""
    retag(world, "create_order", on_repeat=OnRepeat.RUN)
    call = {"tool_call_id": "call_1", "turn": "t1"}
    await world.call(**call, step=1, attempt=1)
    assert (await world.call(**call, step=1, attempt=2)).decision == "replay"
    assert (await world.call(**call, step=2, attempt=2)).decision == "proceed"
    assert world.merchant.hits == 2


async def test_p2_5_a_re_run_that_reaches_a_call_at_another_step_still_finds_it(world):
    """2.5: the steps of a re-run may shift."""
    call = {"tool_call_id": "call_1", "turn": "t1"}
    await world.call(**call, step=1, attempt=1)
    shifted = await world.call(**call, step=2, attempt=2)
    assert (shifted.decision, world.merchant.hits) == ("replay", 1)
