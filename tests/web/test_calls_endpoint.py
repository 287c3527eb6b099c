"""`POST /v1/calls` and its batch: what goes in, what comes out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.core.errors import MerchantNotReady
from gateway.core.identity import Scope
from gateway.web.services import Limits


async def test_a_new_call_is_answered_and_its_repeat_replays_marked_in_body_and_header(gateway: Any) -> None:
    """4.10: a replay shows itself in the body and by Idempotent-Replayed."""
    first = await gateway.call(arguments={"sku": "A"})
    gateway.clock.now += 12.4
    again = await gateway.call(arguments={"sku": "A"})
    assert (first.status, again.status) == (200, 200)
    assert first.json()["decision"] == "proceed"
    assert "idempotent-replayed" not in first.headers
    assert again.json()["replay"]["age_s"] == pytest.approx(12.4)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["result"] == first.json()["result"] == "Order MO-1001 placed."
    assert len(gateway.merchant.hits) == 1


async def test_every_answer_carries_a_request_id_and_is_neither_cached_nor_sniffed(gateway: Any) -> None:
    """Minimal headers stand on answers and problems alike, and no cross-origin grant does."""
    for answer in (await gateway.call(), await gateway.call(tool="no_such"), await gateway.get("/livez", key=None)):
        assert answer.headers["request-id"]
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not any(name.startswith("access-control") for name in answer.headers)


async def test_the_service_gets_what_the_body_said(gateway: Any) -> None:
    """Fields arrive typed, arguments untouched to the last digit (2.10)."""
    body = (
        b'{"company":"acme","conversation":"c-1","tool":"place_order","tool_call_id":"a","turn":"t","step":2,'
        b'"attempt":3,"call_id_scope":"step","arguments":{"price":1.10,"big":12345678901234567890,"n":null}}'
    )
    assert (await gateway.ask("POST", "/v1/calls", body=body)).status == 200
    request = gateway.calls.asked[0]
    assert (request.turn, request.step, request.attempt, request.call_id_scope) == ("t", 2, 3, Scope.STEP)
    assert request.arguments["price"].text == "1.10"
    assert request.arguments["big"] == 12345678901234567890
    assert request.arguments["n"] is None


@pytest.mark.parametrize("blank", [..., None, "", "  ", "\n\t"])
async def test_an_absent_null_or_blank_id_is_no_id(gateway: Any, blank: Any) -> None:
    """2.7: with turn and attempt such a call runs; without them the service refuses it."""
    ran = await gateway.call(tool_call_id=blank, turn="t", attempt=1)
    refused = await gateway.call(tool_call_id=blank)
    assert ran.status == 200
    assert gateway.calls.asked[0].tool_call_id is None
    assert (refused.status, refused.fields) == (400, ["/tool_call_id"])


MALFORMED = {
    "company missing": ({"company": ...}, ["/company"]),
    "company null": ({"company": None}, ["/company"]),
    "company a number": ({"company": 7}, ["/company"]),
    "company empty": ({"company": ""}, ["/company"]),
    "conversation an array": ({"conversation": ["c"]}, ["/conversation"]),
    "tool an object": ({"tool": {}}, ["/tool"]),
    "arguments missing": ({"arguments": ...}, ["/arguments"]),
    "arguments null": ({"arguments": None}, ["/arguments"]),
    "arguments an array": ({"arguments": [1]}, ["/arguments"]),
    "arguments a number": ({"arguments": 1}, ["/arguments"]),
    "arguments a boolean": ({"arguments": True}, ["/arguments"]),
    "id a number": ({"tool_call_id": 12}, ["/tool_call_id"]),
    "id a boolean": ({"tool_call_id": False}, ["/tool_call_id"]),
    "id too long": ({"tool_call_id": "x" * 1025}, ["/tool_call_id"]),
    "id too long in bytes": ({"tool_call_id": "ü" * 513}, ["/tool_call_id"]),
    "turn empty": ({"turn": ""}, ["/turn"]),
    "step zero": ({"turn": "t", "step": 0}, ["/step"]),
    "step negative": ({"turn": "t", "step": -1}, ["/step"]),
    "step true": ({"turn": "t", "step": True}, ["/step"]),
    "step with a fraction": ({"turn": "t", "step": 1.0}, ["/step"]),
    "step text": ({"turn": "t", "step": "1"}, ["/step"]),
    "step beyond the bound": ({"turn": "t", "step": 10**9 + 1}, ["/step"]),
    "attempt true": ({"turn": "t", "attempt": True}, ["/attempt"]),
    "attempt with a fraction": ({"turn": "t", "attempt": 2.5}, ["/attempt"]),
    "step without a turn": ({"step": 1}, ["/step"]),
    "attempt without a turn": ({"turn": None, "attempt": 1}, ["/attempt"]),
    "scope unknown": ({"call_id_scope": "company"}, ["/call_id_scope"]),
    "scope turn without a turn": ({"call_id_scope": "turn"}, ["/turn"]),
    "scope step without either": ({"call_id_scope": "step"}, ["/turn", "/step"]),
    "scope step without a step": ({"turn": "t", "call_id_scope": "step"}, ["/step"]),
    "a field nobody knows": ({"tool_call_ids": "a"}, ["/tool_call_ids"]),
    "a name that needs escaping": ({"a/b~c": 1}, ["/a~1b~0c"]),
    "all at once": (
        {"company": 1, "tool": ..., "step": 0, "x": 1, "turn": 4},
        ["/company", "/tool", "/turn", "/step", "/x"],
    ),
}


@pytest.mark.parametrize(("fields", "named"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_fields_are_all_named_and_the_service_is_not_asked(
    gateway: Any, fields: dict[str, Any], named: list[str]
) -> None:
    """2.3, 2.8, 9.4: 400 names every wrong field by its JSON pointer, and nothing begins."""
    answer = await gateway.call(**fields)
    assert answer.status == 400
    assert answer.problem["code"] == "malformed"
    assert answer.fields == named
    assert gateway.calls.asked == []


async def test_no_value_of_a_call_stands_in_a_problem(gateway: Any) -> None:
    """9.3: a problem names fields, it does not repeat what was in them."""
    card = "4111111111111111"
    answer = await gateway.call(turn="t", step=f"card {card}", company={"secret": card}, tool_call_id=[card])
    assert answer.status == 400
    assert card.encode() not in answer.body


async def test_a_problem_about_many_fields_stays_small(gateway: Any) -> None:
    """9.4: neither the number nor the length of unknown names makes the answer large."""
    answer = await gateway.call(**{f"{n}" + "x" * 1_000: 1 for n in range(2_000)})
    assert answer.status == 400
    assert len(answer.body) < 10_000


@pytest.mark.parametrize("document", [[], "text", 7, None, True])
async def test_a_body_that_is_no_object_is_refused(gateway: Any, document: Any) -> None:
    """9.4: any other JSON value is 400."""
    answer = await gateway.ask("POST", "/v1/calls", body=json.dumps(document).encode())
    assert (answer.status, answer.fields) == (400, [""])
    assert gateway.calls.asked == []


async def test_a_batch_answers_each_in_order_with_a_problem_where_one_failed(gateway: Any) -> None:
    """One entry a call: an answer, the service's problem, or what is malformed in that entry alone."""
    call = {"company": "acme", "conversation": "c", "tool": "place_order", "arguments": {}, "tool_call_id": "a"}
    calls = [call, {**call, "tool": "no_such"}, {**call, "step": 0}, 7, {**call, "tool_call_id": "b"}]
    answer = await gateway.post("/v1/calls/batch", {"calls": calls})
    assert answer.status == 200
    entries = answer.json()["answers"]
    assert [entry.get("code", entry.get("decision")) for entry in entries] == [
        "proceed",
        "unknown_tool",
        "malformed",
        "malformed",
        "proceed",
    ]
    assert [each["field"] for each in entries[2]["fields"]] == ["/step"]
    assert entries[1]["status"] == 404
    assert len(gateway.merchant.hits) == 2


async def test_a_batch_runs_side_by_side_but_only_so_many_at_once(make_gateway: Any) -> None:
    """Calls of one batch overlap up to the bound, and not beyond it."""
    gateway = make_gateway(Limits(batch_at_once=3))
    await gateway.register("place_order")
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    calls = [
        {"company": "acme", "conversation": "c", "tool": "place_order", "arguments": {}, "tool_call_id": f"{n}"}
        for n in range(10)
    ]
    batch = asyncio.create_task(gateway.post("/v1/calls/batch", {"calls": calls}))
    await gateway.merchant.crowded.wait()
    assert gateway.app.calls.in_flight == 3
    gate.set()
    assert len((await batch).json()["answers"]) == 10
    assert gateway.merchant.most_at_once == 3


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({}, ["/calls"]),
        ({"calls": {}}, ["/calls"]),
        ({"calls": [], "more": 1}, ["/more"]),
        ({"calls": [{}] * 129}, ["/calls"]),
        ([], [""]),
    ],
)
async def test_a_malformed_batch_runs_nothing(gateway: Any, document: Any, named: list[str]) -> None:
    """The batch's own form is judged first, its size among it."""
    answer = await gateway.post("/v1/calls/batch", document)
    assert (answer.status, answer.fields) == (400, named)
    assert gateway.calls.asked == []


async def test_an_empty_batch_has_no_answers(gateway: Any) -> None:
    """Nothing asked, nothing answered."""
    assert (await gateway.post("/v1/calls/batch", {"calls": []})).json() == {"answers": []}


async def test_a_refusal_that_may_be_tried_again_says_when(gateway: Any) -> None:
    """4.8: Retry-After holds whole seconds, rounded up; the body says it too, for entries of a batch."""
    gateway.merchant.gates["place_order"] = gate = asyncio.Event()
    first = asyncio.create_task(gateway.call())
    await gateway.merchant.reached.wait()
    answer = await gateway.call()
    gate.set()
    await first
    assert answer.status == 409
    assert answer.headers["retry-after"] == "1"
    problem = answer.problem
    assert (problem["code"], problem["outcome"], problem["retryable"]) == ("call_in_flight", "in_flight", True)
    assert problem["retry_after"] == 1


async def test_an_unexpected_exception_is_a_500_that_tells_nothing(gateway: Any, caplog: Any) -> None:
    """9.3: type and place go to the log in one line; the message, which may quote a secret, goes nowhere."""
    gateway.merchant.faults["place_order"] = KeyError("whsec_topsecret")
    with caplog.at_level("DEBUG", logger="gateway"):
        answer = await gateway.call()
    assert answer.status == 500
    assert (answer.problem["code"], answer.problem["outcome"]) == ("internal", "unknown")
    assert "topsecret" not in caplog.text
    assert b"topsecret" not in answer.body
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "KeyError" in errors[0].getMessage()
    assert answer.headers["request-id"] in errors[0].getMessage()


async def test_the_frames_of_a_fault_show_at_debug_level_only(gateway: Any, caplog: Any) -> None:
    """9.4: no trace at the levels that production logs."""
    gateway.merchant.faults["place_order"] = ValueError("x")
    with caplog.at_level("INFO", logger="gateway"):
        await gateway.call()
    assert len(caplog.records) == 1
    assert all(record.exc_info is None for record in caplog.records)


async def test_a_released_call_keeps_its_code(gateway: Any) -> None:
    """Section 8: a service's problem goes out with its own status, code and outcome."""
    gateway.merchant.faults["place_order"] = MerchantNotReady(retry_after_s=2.2)
    answer = await gateway.call()
    assert (answer.status, answer.problem["code"]) == (502, "merchant_not_ready")
    assert answer.headers["retry-after"] == "3"
