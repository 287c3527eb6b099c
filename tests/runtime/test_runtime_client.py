"""The client against a gateway on the loopback: identities, second sends, problems, exactness."""

from __future__ import annotations

import json
import logging
import traceback
from decimal import Decimal

import aiohttp
import pytest

from gateway.runtime import AsyncOncegate, BadCall, Call, NoAnswer, Problem, Resend

ORDER = ("acme", "c-42", "place_order", {"sku": "A"})
HTML = (502, {"Content-Type": "text/html"}, "<html>bad gateway</html>")


def flight(as_problem, retry_after, **more):
    body = as_problem("call_in_flight", 409, outcome="in_flight", retryable=True, message="still running", **more)
    return 409, {"Retry-After": retry_after}, json.dumps(body)


async def test_p8_an_answer_carries_every_field_of_the_wire(client, played):
    """8: the answer mirrors the gateway's 200, nested parts included."""
    played.answers["place_order"] = {
        "decision": "blocked",
        "status": "awaiting_approval",
        "error": {"code": "merchant_refused", "message": "no", "details": {"status": 422}},
        "approval": {"id": "ap-1", "expires_at": "2026-11-29T10:10:00Z", "message": "ask", "approvers": ["operator"]},
        "first": {"effect_id": "cd" * 32, "status": "succeeded", "result": {"total": 1.10}, "first_at": "2026"},
        "a_field_of_tomorrow": 1,
    }
    await client.call(*ORDER, tool_call_id="call_9f")
    answer = await client.call(*ORDER, tool_call_id="call_9f", turn="t-7", step=2, attempt=1, call_id_scope="auto")
    assert (answer.effect_id, answer.company, answer.conversation) == ("ab" * 32, "acme", "c-42")
    assert (answer.tool_call_id, answer.tool, answer.side_effecting, answer.recorded) == (
        "call_9f", "place_order", True, True,
    )  # fmt: skip
    assert answer.blocked
    assert not answer.succeeded
    assert answer.error is not None
    assert answer.error.details == {"status": 422}
    assert answer.replay is not None
    assert (answer.replay.matched, answer.replay.age_s) == ("tool_call_id", Decimal("12.4"))
    assert answer.approval is not None
    assert answer.approval.approvers == ("operator",)
    assert answer.first is not None
    assert answer.first.result == {"total": Decimal("1.1")}
    assert json.loads(answer.raw)["a_field_of_tomorrow"] == 1
    sent = json.loads(played.bodies[-1])
    assert (sent["turn"], sent["step"], sent["attempt"], sent["call_id_scope"]) == ("t-7", 2, 1, "auto")


async def test_optional_fields_that_are_not_stated_are_left_out(client, played):
    """2.3: what is left out does not differ, so an unstated turn must not travel as a value."""
    await client.call(*ORDER, tool_call_id="x")
    assert set(json.loads(played.bodies[0])) == {"company", "conversation", "tool_call_id", "tool", "arguments"}


async def test_p2_1_a_connection_lost_after_the_work_is_asked_again_and_replayed(client, played, slept):
    """2.1: the same bytes under the same id are the same call, so a lost answer costs no second order."""
    played.faults.extend(["drop_after", "cut_short"])
    answer = await client.call(*ORDER, tool_call_id="call_9f")
    assert len(played.ran) == 1
    assert answer.result == "Order MO-1001 placed."
    assert answer.replay is not None
    assert len(set(played.bodies)) == 1
    assert slept == [0.25, 0.5]


async def test_p2_7_turn_and_attempt_are_identity_enough_to_send_again(client, played):
    """2.7: without an id, turn and attempt key the call."""
    played.faults.append("drop_after")
    await client.call(*ORDER, tool_call_id=None, turn="t-1", attempt=1)
    assert (len(played.bodies), len(played.ran)) == (2, 1)


@pytest.mark.parametrize(
    "identity",
    [{"tool_call_id": None}, {"tool_call_id": "  "}, {"tool_call_id": "", "turn": "t-1"}],
    ids=["none", "blank", "turn without attempt"],
)
async def test_a_call_without_identity_is_not_sent_again_once_it_may_have_arrived(client, played, slept, identity):
    """2.7: nothing marks a second send of such a call as the same one."""
    played.faults.append("drop_after")
    with pytest.raises(NoAnswer) as raised:
        await client.call("acme", "c-42", "get_order", {}, **identity)
    assert (raised.value.reason, raised.value.outcome, raised.value.retryable) == ("lost", "unknown", False)
    assert (len(played.bodies), slept) == (1, [])


async def test_second_sends_are_bounded_and_end_in_an_unknown_outcome(client, played, slept):
    """4.8: waiting and asking again end; what is not known is then called unknown."""
    played.faults.extend(["drop_after"] * 9)
    with pytest.raises(NoAnswer) as raised:
        await client.call(*ORDER, tool_call_id="x")
    assert raised.value.outcome == "unknown"
    assert raised.value.retryable
    assert (len(played.bodies), len(played.ran), slept) == (4, 1, [0.25, 0.5, 1.0])


async def test_p4_8_call_in_flight_is_asked_again_after_its_retry_after(client, played, slept, as_problem):
    """4.8: 409 `call_in_flight` says when to come back."""
    played.faults.extend([flight(as_problem, "2"), flight(as_problem, "3"), None])
    answer = await client.call(*ORDER, tool_call_id="x")
    assert answer.succeeded
    assert slept == [2.0, 3.0]


async def test_a_retry_after_beyond_the_bound_is_raised_not_waited_for(client, played, slept, as_problem):
    """4.8: a bounded client does not sleep for an hour because a header says so."""
    played.faults.append(flight(as_problem, "3600"))
    with pytest.raises(Problem) as raised:
        await client.call(*ORDER, tool_call_id="x")
    assert (raised.value.outcome, raised.value.retry_after, slept) == ("in_flight", 3600.0, [])


JUNK = ["Wed, 21 Oct 2026 07:28:00 GMT", "-5", "0.493", "120junk", "9999999999", "", "²", "7, 3", "+7", "1e3", "٣"]


@pytest.mark.parametrize("junk", JUNK)
async def test_k3_05_a_retry_after_that_is_no_plain_number_falls_back_to_the_own_wait(
    client, played, slept, as_problem, junk
):
    """K3-05: dates, signs, fractions, junk and huge numbers neither crash nor hold the client up."""
    played.faults.extend([flight(as_problem, junk), flight(as_problem, junk)])
    answer = await client.call(*ORDER, tool_call_id="x")
    assert answer.succeeded
    assert slept == [0.25, 0.5]


@pytest.mark.parametrize("junk", JUNK)
async def test_k3_05_a_busy_party_that_does_not_say_when_is_not_asked_again(client, played, slept, as_problem, junk):
    """K3-05, 8: what is no plain number is as good as no time at all."""
    busy = (502, {"Retry-After": junk}, json.dumps(as_problem("merchant_not_ready", 502, retryable=True)))
    played.faults.append(busy)
    with pytest.raises(Problem) as raised:
        await client.call(*ORDER, tool_call_id="x")
    assert (raised.value.retry_after, slept, len(played.bodies)) == (None, [], 1)


async def test_p4_11_ledger_unavailable_is_asked_again_even_without_identity(client, played, slept, as_problem):
    """4.11: with the ledger out of reach nothing is sent, so a second try is safe for any call."""
    down = as_problem("ledger_unavailable", 503, retryable=True, message="ledger away")
    played.faults.append((503, {}, json.dumps(down)))
    played.refusals["get_order"] = (200, {"decision": "proceed", "status": "succeeded", "message": "MO-1"})
    answer = await client.call("acme", "c-42", "get_order", {}, tool_call_id=None)
    assert (answer.message, answer.effect_id, answer.recorded) == ("MO-1", None, False)
    assert slept == [0.25]


@pytest.mark.parametrize(
    ("code", "status", "headers", "tries"),
    [
        ("rate_limited", 429, {"Retry-After": "1"}, 2),
        ("rate_limited", 429, {}, 1),
        ("merchant_not_ready", 502, {"Retry-After": "1"}, 2),
        ("merchant_unreachable", 502, {"Retry-After": "1"}, 1),
    ],
)
async def test_a_busy_party_is_asked_again_only_when_the_gateway_says_when(
    client, played, as_problem, code, status, headers, tries
):
    """8: a `not_sent` without a time to come back is the runtime's decision, not the client's."""
    played.faults.append((status, headers, json.dumps(as_problem(code, status, retryable=True))))
    if tries == 1:
        with pytest.raises(Problem, match=code):
            await client.call(*ORDER, tool_call_id="x")
    else:
        await client.call(*ORDER, tool_call_id="x")
    assert len(played.bodies) == tries


async def test_a_later_503_says_nothing_about_a_try_that_was_lost(client, played, as_problem):
    """4.11: the ledger was not read for the later try, so the earlier one may have run: unknown, not
    `not_sent`."""
    down = (503, {"Retry-After": "60"}, json.dumps(as_problem("ledger_unavailable", 503, retryable=True)))
    played.faults.extend(["drop_after", down])
    with pytest.raises(Problem) as raised:
        await client.call(*ORDER, tool_call_id="x")
    assert (raised.value.code, raised.value.outcome) == ("ledger_unavailable", "unknown")


@pytest.mark.parametrize(
    "page",
    [
        HTML,
        (504, {}, ""),
        (200, {}, "{"),
        (200, {}, b"\xff\xfe"),
        (200, {}, '{"decision": "proceed", "status": "succeeded", "message": "x", "result": NaN}'),
        (200, {}, "[" * 100_000),
    ],
    ids=["html", "empty 504", "cut off", "not utf-8", "NaN", "nested"],
)
async def test_words_that_are_not_the_gateways_lead_to_another_try(client, played, page):
    """2.1: a proxy's page says nothing about the call; its id makes asking again safe."""
    played.faults.append(page)
    answer = await client.call(*ORDER, tool_call_id="x")
    assert (answer.succeeded, len(played.bodies), len(played.ran)) == (True, 2, 1)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (404, {"Content-Type": "text/html"}, "<html>"),
        (404, {}, '{"detail": "Not Found"}'),
        (307, {"Location": "http://127.0.0.1:1/elsewhere"}, ""),
        (200, {}, '{"status": "succeeded"}'),
        (200, {}, '{"decision": "proceed", "message": "x", "error": "text"}'),
    ],
)
async def test_a_wrong_address_or_a_foreign_answer_is_no_answer(client, played, status, headers, body):
    """8: what is neither an answer nor a problem is never taken for one, and redirects do not get the key."""
    played.faults.append((status, headers, body))
    with pytest.raises(NoAnswer) as raised:
        await client.call(*ORDER, tool_call_id="x")
    assert (raised.value.reason, raised.value.outcome, len(played.bodies)) == ("unreadable", "unknown", 1)


async def test_a_problem_carries_what_the_gateway_said(client, played, as_problem):
    """8: code, status, retryable, outcome, message, and the whole body."""
    said = as_problem("unknown_tool", 404, message="no such tool", nearest=["place_order"])
    played.faults.append((404, {}, json.dumps(said)))
    with pytest.raises(Problem) as raised:
        await client.call(*ORDER, tool_call_id="x")
    problem = raised.value
    assert (problem.code, problem.status, problem.retryable, problem.outcome) == (
        "unknown_tool",
        404,
        False,
        "not_sent",
    )
    assert (problem.message, problem.body["nearest"]) == ("no such tool", ["place_order"])
    assert str(problem) == "404 unknown_tool: no such tool"


async def test_no_connection_at_all_is_known_to_be_not_sent(slept, unused_tcp_port, key):
    """8: with no connection nothing left this machine, and any call may be tried again."""

    async def sleep(seconds):
        slept.append(seconds)

    async with AsyncOncegate(f"http://127.0.0.1:{unused_tcp_port}", key, sleep=sleep, jitter=lambda: 0.0) as client:
        with pytest.raises(NoAnswer) as raised:
            await client.call("acme", "c-1", "get_order", {}, tool_call_id=None)
    assert (raised.value.reason, raised.value.outcome, raised.value.retryable) == ("not_connected", "not_sent", True)
    assert slept == [0.125, 0.25, 0.5]


async def test_a_timeout_after_the_work_is_a_lost_answer(played, slept, key):
    """2.1: timed out is not failed; the second send gets the first one's outcome."""
    late = iter([True, False])

    async def too_late(request, handler):
        response = await handler(request)
        if next(late):
            response.close()
            raise TimeoutError
        return response

    async def sleep(seconds):
        slept.append(seconds)

    async with (
        aiohttp.ClientSession(middlewares=(too_late,)) as session,
        AsyncOncegate(played.url, key, session=session, sleep=sleep) as client,
    ):
        answer = await client.call(*ORDER, tool_call_id="x")
    assert answer.replay is not None
    assert (len(played.ran), len(slept)) == (1, 1)


async def test_a_session_handed_in_is_left_open(played, key):
    """A caller's session is the caller's to close."""
    async with aiohttp.ClientSession() as session:
        async with AsyncOncegate(played.url, key, session=session) as client:
            await client.call(*ORDER, tool_call_id="x")
        assert not session.closed


async def test_a_closed_client_says_so(client):
    """Use after close is a mistake in the program, not a fault of the gateway."""
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await client.tools("acme")


async def test_p2_10_numbers_reach_the_gateway_digit_for_digit(client, played):
    """2.10: integers beyond 2^53, decimals and the model's own text travel unchanged."""
    await client.call(
        "acme", "c", "place_order", {"id": 2512292042121000001, "price": Decimal("10.10"), "f": 0.1}, tool_call_id="a"
    )
    assert b'"id":2512292042121000001,"price":10.10,"f":0.1' in played.bodies[0]
    text = '{"qty": 1.0,  "id": 99999999999999999999, }'
    await client.call("acme", "c", "place_order", text, tool_call_id="b")
    assert json.loads(played.bodies[1])["arguments"] == text


async def test_k2_11_numbers_in_a_result_come_back_digit_for_digit(client, played):
    """K2-11: results keep integers exact and prices as written, and can be sent on as arguments."""
    raw = (
        '{"decision":"proceed","status":"succeeded","message":"ok",'
        '"result":{"order_id":2512292042121000001,"price":12.90}}'
    )
    played.faults.append((200, {}, raw))
    answer = await client.call(*ORDER, tool_call_id="a")
    assert answer.result["order_id"] == 2512292042121000001
    assert str(answer.result["price"]) == "12.90"
    assert answer.raw == raw
    await client.call("acme", "c", "place_order", answer.result, tool_call_id="b")
    assert b'"price":12.90' in played.bodies[1]


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return {"deep": value}


@pytest.mark.parametrize(
    "arguments",
    [{"p": float("nan")}, {"p": float("-inf")}, {"p": Decimal("NaN")}, {1: "a"}, {"when": object()}, nested(5000)],
    ids=["nan", "inf", "decimal nan", "int key", "object", "nested"],
)
async def test_k2_09_arguments_that_are_not_json_never_leave(client, played, arguments):
    """K2-09, 2.9: nothing non-JSON is sent; the error does not show the value."""
    with pytest.raises(BadCall) as raised:
        await client.call("acme", "c", "place_order", arguments, tool_call_id="a")
    assert (raised.value.outcome, raised.value.retryable, played.bodies) == ("not_sent", False, [])


async def test_batch_gives_one_entry_each_in_order(client, played):
    """8: side by side, an answer or a problem for each call, and one bad call spoils no other."""
    calls = [
        Call("acme", "c", "place_order", {"sku": "A"}, "a"),
        Call("acme", "c", "fly_away", {}, "b"),
        Call("acme", "c", "place_order", {"sku": "C"}, "c"),
    ]
    first, second, third = await client.batch(calls)
    assert (first.tool_call_id, third.tool_call_id) == ("a", "c")
    assert json.loads(first.raw)["result"] == "Order MO-1001 placed."
    assert isinstance(second, Problem)
    assert (second.code, second.status) == ("unknown_tool", 404)
    assert await client.batch([]) == []
    assert len(played.bodies) == 1


async def test_a_batch_is_sent_again_only_if_every_call_has_an_identity(client, played):
    """2.1: one nameless call in a batch is enough to make a second send a second call."""
    named = Call("acme", "c", "place_order", {"sku": "A"}, "a")
    played.faults.append("drop_after")
    await client.batch([named])
    assert (len(played.bodies), len(played.ran)) == (2, 1)
    played.faults.append("drop_before")
    with pytest.raises(NoAnswer):
        await client.batch([named, Call("acme", "c", "get_order", {})])
    assert len(played.bodies) == 3


@pytest.mark.parametrize("body", ['{"answers": []}', '{"answers": [1]}', '{"answers": [{"code": "x"}]}', "7", "{}"])
async def test_a_batch_answer_that_does_not_match_is_no_answer(client, played, body):
    """8: an answer is never given to a call it does not belong to."""
    played.faults.append((200, {}, body))
    with pytest.raises(NoAnswer, match="not the gateway's JSON"):
        await client.batch([Call("acme", "c", "place_order", {}, "a")])


async def test_k1_09_any_id_survives_the_way_through_an_address(client, played):
    """K1-09: long ids with slashes, plus and equals signs can be looked up."""
    long_id = "call_ab__thought__" + "A+/=&#% é" * 40
    await client.call("acme", "c", "place_order", {}, tool_call_id=long_id)
    records = await client.lookup("acme", "c", long_id, turn="t/1", step=2)
    assert [record["tool_call_id"] for record in records] == [long_id]
    assert (played.requests[-1].query["turn"], played.requests[-1].query["step"]) == ("t/1", "2")
    assert await client.lookup("acme", "c", "other") == []


async def test_tools_and_events_read_and_are_asked_again_when_lost(client, played, slept):
    """Reading is safe to repeat; the tool list is plain JSON for a model."""
    played.faults.extend(["drop_before", "drop_before", HTML])
    tools = await client.tools("acme")
    assert [tool["function"]["name"] for tool in tools] == ["place_order", "get_order", "cancel_order"]
    assert json.dumps(tools)
    assert slept == [0.25, 0.5]
    assert (await client.tools("a/c?me", format="anthropic"))[0]["name"] == "place_order"
    assert played.requests[-1].match_info["company"] == "a/c?me"
    await client.call(*ORDER, tool_call_id="a")
    await client.call(*ORDER, tool_call_id="b")
    assert [event["seq"] for event in await client.events("acme", "c-42", after=1, limit=5)] == [2]


@pytest.mark.parametrize("company", ["", ".", ".."])
async def test_a_company_name_cannot_lead_to_another_address(client, played, company):
    """9.1: a dotted path segment would be folded away on the way to the gateway."""
    with pytest.raises(BadCall):
        await client.tools(company)
    assert played.requests == []


@pytest.mark.parametrize("bad", ["", " ", "a b", "k\r\nX-Evil: 1", "schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(bad):
    """9.3: the error names the rule, not the key."""
    with pytest.raises(ValueError, match="visible ASCII") as raised:
        AsyncOncegate("http://127.0.0.1:1", bad)
    assert not bad.strip() or bad not in str(raised.value)


@pytest.mark.parametrize(
    "bad",
    [
        *("", "gateway.example", "ftp://h", "http://", "https://u:pw@h", "http://h?key=pw", "http://h#pw"),
        *("http://a..pw", f"http://{'pw' * 32}.example", "http://h:99999/pw", "http://[::1"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_showing_it(bad):
    """9.3: credentials in an address are refused and not repeated."""
    with pytest.raises(ValueError, match="the gateway's address") as raised:
        AsyncOncegate(bad, "k")
    assert "pw" not in str(raised.value)


async def test_p9_3_the_key_is_in_no_repr_log_or_error(played, key, caplog, slept, unused_tcp_port):
    """9.3: provoke every kind of failure at debug level and look for the key."""

    async def sleep(seconds):
        slept.append(seconds)

    caplog.set_level(logging.DEBUG)
    seen = []
    async with AsyncOncegate(played.url, key, sleep=sleep, headers=lambda: {"Request-Id": "r-1"}) as client:
        seen.append(repr(client))
        for fault in ("drop_after", "cut_short", HTML, (200, {}, "junk")):
            played.faults.extend([fault] * 4)
            with pytest.raises(NoAnswer) as raised:
                await client.call(*ORDER, tool_call_id="x")
            seen += [repr(raised.value), repr(raised.value.__context__), *traceback.format_exception(raised.value)]
            played.faults.clear()
        assert played.requests[-1].headers["Request-Id"] == "r-1"
    async with AsyncOncegate(f"http://127.0.0.1:{unused_tcp_port}", key, resend=Resend(times=0)) as client:
        with pytest.raises(NoAnswer) as raised:
            await client.tools("acme")
        seen += [repr(raised.value), *traceback.format_exception(raised.value)]
    assert key not in "".join(seen) + caplog.text


async def test_a_refused_key_is_a_problem(played):
    """8: 401 is said plainly and not tried again."""
    async with AsyncOncegate(played.url, "other") as client:
        with pytest.raises(Problem, match="401 unauthorized"):
            await client.call(*ORDER, tool_call_id="x")
    assert len(played.bodies) == 1


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        (
            [{"field": "/step", "problem": "needs a turn"}, {"field": "", "problem": "x"}],
            ("/step: needs a turn", ": x"),
        ),
        (["place_order", {"field": 1, "problem": "x"}, None], ()),
        ("place_order", ()),
        (None, ()),
    ],
)
async def test_p8_a_problem_names_the_fields_that_are_wrong(client, played, as_problem, sent, lines):
    """8: as lines, in order; a shape that is not known is left out and loses nothing else."""
    played.faults.append((400, {}, json.dumps(as_problem("malformed", 400, message="no", fields=sent))))
    with pytest.raises(Problem) as raised:
        await client.call(*ORDER, tool_call_id="x")
    assert (raised.value.code, raised.value.fields) == ("malformed", lines)
