"""A stop whose grace is over before its calls are (K8-01)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from flow_client import Api
from flow_merchant import RawMerchant
from flow_processes import GatewayProcess, RedisProcess

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]
GRACE_S = 15
"""The shortest there is. The test lasts as long: nothing else ends a grace."""


async def test_k8_01_a_call_that_outlasts_the_grace_is_recorded_as_started_and_becomes_unknown(
    api: Api,
    merchant: RawMerchant,
    redis_process: RedisProcess,
    start_gateway: Callable[..., GatewayProcess],
    eventually: Eventually,
) -> None:
    """K8-01, 4.5: cut off at the end of the grace, it is neither lost nor sent again; one that ends within it is
    answered and recorded as ever."""
    settings = {"CALLS_LEASE_MARGIN_S": "1", "CALLS_WAIT_MARGIN_S": "0", "STOP_GRACE_S": str(GRACE_S)}
    process = start_gateway(redis_process.url, settings=settings)
    shop = api.by(url=lambda: process.url)
    await shop.register("place_order", merchant.url, timeout_s=GRACE_S + 3)
    merchant.waits_for(asyncio.Event())
    hanging = asyncio.create_task(shop.call("s1", arguments={"n": 1}))
    await eventually(lambda: merchant.hits == 1)
    gate = asyncio.Event()
    merchant.waits_for(gate)
    ending = asyncio.create_task(shop.call("s2", arguments={"n": 2}))
    await eventually(lambda: merchant.hits == 2)
    process.signal(signal.SIGTERM)
    gate.set()
    assert (await ending).json["status"] == "succeeded"

    (cut_off,) = await asyncio.gather(hanging, return_exceptions=True)
    if not isinstance(cut_off, aiohttp.ClientError):
        assert not isinstance(cut_off, BaseException)
        assert cut_off.json["outcome"] == "in_flight", cut_off.raw
    assert await asyncio.to_thread(process.exit_status) == 0
    kinds = [event["type"] for event in await api.events() if event["effect_id"] == merchant_key(merchant, 0)]
    assert "effect.executing" in kinds

    async def unknown() -> bool:
        return [row["tool_call_id"] for row in await api.unknown()] == ["s1"]

    await eventually(unknown)
    assert (await api.call("s1", arguments={"n": 1})).json["error"]["code"] == "outcome_unknown"
    assert (await api.call("s2", arguments={"n": 2})).decision == "replay"
    assert merchant.hits == 2


async def test_k8_01_a_grace_that_is_too_short_for_a_tool_is_said_at_the_start(
    api: Api, merchant: RawMerchant, redis_process: RedisProcess, start_gateway: Callable[..., GatewayProcess]
) -> None:
    """K8-01: with the slowest tool, the setting, and what would become of its calls."""
    await api.register("place_order", merchant.url, timeout_s=60)
    process = start_gateway(redis_process.url)
    (said,) = [line for line in process.said if "stop.grace_s" in line]
    assert " WARNING oncegate.serve " in said
    assert "grace_s=30.0" in said
    assert "timeout_s=60.0" in said


def merchant_key(merchant: RawMerchant, hit: int) -> str:
    return merchant.requests[hit].headers["idempotency-key"]
