"""A merchant with a status endpoint, asked by real gateways: unknown outcomes settle by themselves (5.4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from flow_client import Api
from flow_merchant import Connection, RawMerchant, Request, reply

from merchant_sdk import verify


def answers(says: dict[str, Any]) -> Callable[[Request, Connection], Any]:
    """Breaks off every call, and says at /status what it was told."""

    async def behave(request: Request, connection: Connection) -> bytes | None:
        if request.target.endswith("/status"):
            return reply(says)
        connection.reset()
        return None

    return behave


@pytest.mark.parametrize(
    ("says", "status", "shown"),
    [
        ({"status": "committed", "result": {"order": "O-1"}}, "succeeded", {"order": "O-1"}),
        ({"status": "void"}, "failed", "not_executed"),
    ],
)
async def test_p5_4_a_call_whose_answer_was_lost_settles_by_itself(
    api: Api, merchant: RawMerchant, eventually: Any, says: dict[str, Any], status: str, shown: Any
) -> None:
    """5.4, 6, 9.2: two gateways on one ledger, one question settles it; the question is signed like a call."""
    secret = (await api.send("POST", f"/v1/companies/{api.company}/secrets")).json["secret"]
    await api.register("place_order", merchant.url, status_endpoint=f"{merchant.url}/status")
    merchant.behave = answers(says)
    first = await api.call("u1")
    assert first.json["status"] == "indeterminate"

    async def settled() -> Any:
        (call,) = await api.stored("u1")
        return call if call["status"] != "indeterminate" else None

    call = await eventually(settled)
    assert call["status"] == status
    assert (call["result"] if status == "succeeded" else call["error"]["code"]) == shown
    again = await api.call("u1")
    assert (again.decision, again.json["status"]) == ("replay", status)
    sent = [request for request in merchant.requests if not request.target.endswith("/status")]
    assert len(sent) == 1
    question = next(request for request in merchant.requests if request.target.endswith("/status"))
    assert question.json["idempotency_key"] == first.json["effect_id"]
    assert 0 <= time.time() - question.json["first_at"] < 3600, "in seconds, and not before it was sent"
    signed = verify([secret], question.headers, question.body, now=time.time())
    assert signed.id != first.json["effect_id"]
    assert [event["type"] for event in call["events"]][-2:] == ["effect.indeterminate", "effect.resolved"]
    assert await api.unknown() == []


async def test_p5_4_a_status_endpoint_that_comes_later_is_asked_about_what_is_still_unknown(
    api: Api, merchant: RawMerchant, eventually: Any
) -> None:
    """5.4: found by the walk over the ledger's index; committed without a result is done."""
    await api.register("place_order", merchant.url)
    merchant.behave = answers({"status": "committed"})
    assert (await api.call("u1")).json["status"] == "indeterminate"
    await api.register("place_order", merchant.url, status_endpoint=f"{merchant.url}/status")

    async def settled() -> bool:
        return (await api.stored("u1"))[0]["status"] == "succeeded"

    await eventually(settled)
    assert (await api.call("u1")).shown == ("succeeded", None, None)
