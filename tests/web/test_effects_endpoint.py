"""`POST /v1/effects/{effect_id}/resolve`: what it takes and answers (5.5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

RESULT = '{"order":"MO-1","total":12345678901234567890.10,"n":1e2}'


@pytest.fixture
async def unknown(gateway: Any) -> str:
    """The effect of a call whose outcome never came."""
    gateway.merchant.gates["place_order"] = asyncio.Event()
    calling = asyncio.ensure_future(gateway.call(tool_call_id="u"))
    await gateway.merchant.reached.wait()
    for task in gateway.app.calls._running:
        task.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    listed = await gateway.get("/v1/calls?company=acme&status=indeterminate")
    effect_id: str = listed.json()["calls"][0]["effect_id"]
    return effect_id


def said(**fields: Any) -> dict[str, Any]:
    usual = {"company": "acme", "conversation": "c-1", "outcome": "absent", "note": "seen"}
    return {name: value for name, value in {**usual, **fields}.items() if value is not ...}


async def resolve(gateway: Any, effect_id: str, key: str = "k-operator", **fields: Any) -> Any:
    return await gateway.post(f"/v1/effects/{effect_id}/resolve", said(**fields), key=key)


async def test_p5_5_an_operator_says_how_it_ended_and_says_it_again(gateway: Any, unknown: str) -> None:
    """5.5, 4.3, 2.10: the record comes back, digit for digit; the same outcome again is done, another is a 409."""
    text = f'{{"company":"acme","conversation":"c-1","outcome":"succeeded","note":"n","result":{RESULT}}}'
    for _ in range(2):
        answer = await gateway.post(f"/v1/effects/{unknown}/resolve", body=text.encode(), key="k-operator")
        assert (answer.status, answer.json()["status"]) == (200, "succeeded")
        assert RESULT.encode() in answer.body
    other = await resolve(gateway, unknown)
    assert (other.status, other.problem["code"]) == (409, "not_indeterminate")
    assert other.problem["stands"]["status"] == "succeeded"
    assert not other.problem["retryable"]


@pytest.mark.parametrize("key", ["k-runtime", "k-merchant", "k-other"])
async def test_p5_5_no_other_key_resolves(gateway: Any, unknown: str, key: str) -> None:
    """5.5, 9.1"""
    assert (await resolve(gateway, unknown, key)).status == 403


@pytest.mark.parametrize(
    "effect_id", ["ab" * 32, "AB" * 32, "ab", "z" * 64, "ab" * 33, "%20" + "a" * 63, "%00", "caf%C3%A9"]
)
async def test_p5_5_an_effect_that_is_not_there_is_a_404(gateway: Any, effect_id: str) -> None:
    """5.5"""
    assert (await resolve(gateway, effect_id)).status == 404


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"outcome": ...}, ["/outcome"]),
        ({"outcome": "maybe"}, ["/outcome"]),
        ({"note": ...}, ["/note"]),
        ({"note": ""}, ["/note"]),
        ({"note": "x" * 2_001}, ["/note"]),
        ({"note": 1, "company": 2, "conversation": "c" * 1_025}, ["/company", "/conversation", "/note"]),
        ({"outcome": "succeeded"}, ["/result"]),
        ({"outcome": "absent", "result": 1}, ["/result"]),
        ({"outcome": "failed", "result": 1}, ["/result"]),
        ({"outcome": "succeeded", "result": 1, "error": {"code": "x", "message": "m"}}, ["/error"]),
        ({"outcome": "failed", "error": {"code": "X y", "message": "m"}}, ["/error/code"]),
        ({"outcome": "failed", "error": {"code": "x", "massage": "m"}}, ["/error/massage", "/error/message"]),
        ({"evidence": ""}, ["/evidence"]),
        ({"notes": "x"}, ["/notes"]),
    ],
)
async def test_p5_5_a_body_that_does_not_say_how_it_ended_is_refused_field_by_field(
    gateway: Any, unknown: str, fields: dict[str, Any], named: list[str]
) -> None:
    """5.5: and nothing is changed."""
    answer = await resolve(gateway, unknown, **fields)
    assert answer.status == 400
    assert sorted(answer.fields) == named
    listed = await gateway.get("/v1/calls?company=acme&status=indeterminate")
    assert [call["effect_id"] for call in listed.json()["calls"]] == [unknown]


@pytest.mark.parametrize("result", ["null", "0", '""', "[]", RESULT, "[" * 60 + "]" * 60])
async def test_p5_5_any_json_is_a_result(gateway: Any, unknown: str, result: str) -> None:
    """5.5: also null, which is not a result left out."""
    text = f'{{"company":"acme","conversation":"c-1","outcome":"succeeded","note":"n","result":{result}}}'
    answer = await gateway.post(f"/v1/effects/{unknown}/resolve", body=text.encode(), key="k-operator")
    assert answer.status == 200
    assert f'"result":{result}'.encode() in answer.body
