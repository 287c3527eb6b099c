"""A gateway that stands still beyond its lease, and wakes (K4-14)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from flow_client import Api
from flow_merchant import RawMerchant, reply
from flow_processes import GatewayProcess, RedisProcess

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]


async def test_k4_14_a_gateway_that_wakes_after_an_operator_overwrites_nothing_and_history_keeps_both(
    api: Api,
    merchant: RawMerchant,
    redis_process: RedisProcess,
    start_gateway: Callable[..., GatewayProcess],
    eventually: Eventually,
) -> None:
    """K4-14, 4.4: stopped during the merchant's work, swept by another, resolved as O-1, woken with O-2 in hand."""
    process = start_gateway(redis_process.url)
    asleep = api.by(url=lambda: process.url)
    await asleep.register("place_order", merchant.url, timeout_s=2)
    gate = asyncio.Event()
    merchant.waits_for(gate, lambda request, connection: _answer("O-2"))
    calling = asyncio.create_task(asleep.call("w1"))
    await eventually(lambda: merchant.hits == 1)
    process.signal(signal.SIGSTOP)
    gate.set()
    await eventually(api.unknown)
    effect = merchant.requests[0].headers["idempotency-key"]
    said = {"company": api.company, "conversation": "c-1", "outcome": "succeeded", "result": {"order": "O-1"}}
    resolved = await api.send("POST", f"/v1/effects/{effect}/resolve", {**said, "note": "seen in the shop"})
    assert resolved.status == 200, resolved.raw
    process.signal(signal.SIGCONT)
    await calling

    repeat = await api.call("w1")
    assert (repeat.decision, repeat.json["result"]) == ("replay", {"order": "O-1"})
    (stored,) = await api.stored("w1")
    assert stored["result"] == {"order": "O-1"}
    by_type = {event["type"]: event for event in stored["events"]}
    assert by_type["effect.resolved"]["outcome"] == "succeeded"
    if "effect.conflict" in by_type:  # it read the answer before it saw that its time was over
        assert by_type["effect.conflict"]["seen"] == '{"order": "O-2"}'
        assert any("CRITICAL" in line and effect in line for line in process.said)
    assert merchant.hits == 1


async def _answer(order: str) -> bytes:
    return reply({"order": order})
