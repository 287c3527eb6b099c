"""The ledger under the gateway: expiries, lost scripts, and a Redis that goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from flow_client import Api
from flow_merchant import RawMerchant, reply
from flow_processes import GatewayProcess, RedisProcess

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]
DAY = 86_400
NEVER = -1


@pytest.fixture
def raw_redis(redis_process: RedisProcess) -> Iterator[redis.Redis]:
    with redis_process.client() as client:
        yield client


def lives(client: redis.Redis, since: set[bytes] = frozenset()) -> dict[bytes, int]:  # type: ignore[assignment]
    """Seconds that each key has left, but for those named; -1: for ever."""
    keys = [key for key in client.scan_iter(count=10_000) if key not in since]
    asking = client.pipeline(transaction=False)
    for key in keys:
        asking.ttl(key)
    return dict(zip(keys, asking.execute(), strict=True))


async def test_k4_08_every_key_of_settled_calls_expires_after_the_retention(
    api: Api,
    merchant: RawMerchant,
    start_gateway: Callable[..., GatewayProcess],
    tmp_path: Path,
    eventually: Eventually,
) -> None:
    """K4-08, 4.13: ten thousand settled calls with aliases, repeats and failures leave no key without an end,
    and none that ends early. In a Redis of their own: what other tests' calls leave behind has other ends."""
    with ExitStack() as stack:
        own = RedisProcess(tmp_path)
        stack.callback(own.kill)
        own.start()
        process = start_gateway(own.url)
        client = stack.enter_context(own.client())
        await _all_end(api.by(url=lambda: process.url), merchant, client, eventually)


async def _all_end(shop: Api, merchant: RawMerchant, raw_redis: redis.Redis, eventually: Eventually) -> None:
    for tool, on_repeat in (("add_item", "replay"), ("place_order", "hold")):
        await shop.register(tool, merchant.url, on_repeat=on_repeat)
    before = set(raw_redis.scan_iter(count=10_000))
    merchant.answers(*[reply({"no": "stock"}, status=422), reply({"order": 1})] * 20, reply({"order": 2}))
    place: dict[str, Any] = {"company": shop.company, "turn": "t", "step": 1, "attempt": 1}
    for tool, repeats in (("add_item", 2), ("place_order", 1)):
        for batch in range(105):
            calls = [
                {**place, "conversation": f"c-{n % 5}", "tool_call_id": f"{tool}-{batch}-{n}-{r}", "tool": tool}
                | {"arguments": {"n": n, "batch": batch}}
                for n in range(32)
                for r in range(repeats)
            ]
            answered = await shop.send("POST", "/v1/calls/batch", {"calls": calls})
            decisions = {entry.get("decision") or str(entry) for entry in answered.json["answers"]}
            assert decisions <= {"proceed", "replay"}
    await eventually(lambda: not [key for key, left in lives(raw_redis, before).items() if left == NEVER])
    made = lives(raw_redis, before)
    assert len(made) > 10_000
    assert {left for left in made.values() if not 29.9 * DAY < left <= 30.1 * DAY} == set()


async def test_k4_08_a_record_expires_only_once_it_is_settled(
    shop: Api, merchant: RawMerchant, raw_redis: redis.Redis, eventually: Eventually
) -> None:
    """K4-08, 4.13: executing and indeterminate records never expire; a settled one gets the full time."""
    gate = asyncio.Event()
    merchant.waits_for(gate)
    call = asyncio.create_task(shop.call("t1"))
    await eventually(lambda: merchant.hits == 1)
    (record,) = raw_redis.keys(b"*e" + _escaped(bytes.fromhex(merchant.requests[0].headers["idempotency-key"])[:16]))
    assert raw_redis.ttl(record) == NEVER
    gate.set()
    await call
    assert 29.9 * DAY < raw_redis.ttl(record) <= 30.1 * DAY
    merchant.answers(reply(status=500))
    lost = bytes.fromhex((await shop.call("t2", arguments={"n": 2})).json["effect_id"])
    (record,) = raw_redis.keys(b"*e" + _escaped(lost[:16]))
    assert raw_redis.ttl(record) == NEVER


async def test_k4_09_flushed_scripts_are_loaded_again(shop: Api, merchant: RawMerchant, raw_redis: redis.Redis) -> None:
    """K4-09: the next call succeeds, the next look too, and none is run twice for want of a script."""
    assert (await shop.call("s1")).decision == "proceed"
    raw_redis.script_flush()
    assert (await shop.call("s1")).decision == "replay"
    raw_redis.script_flush()
    assert (await shop.call("s2", arguments={"n": 2})).decision == "proceed"
    raw_redis.script_flush()
    assert [event["type"] for event in await shop.events()].count("effect.executing") == 2
    raw_redis.script_flush()
    assert await shop.unknown() == []
    assert merchant.hits == 2


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisProcess]:
    (tmp_path / "r").mkdir()
    process = RedisProcess(tmp_path / "r", durable=True)
    process.start()
    yield process
    process.kill()


async def test_k8_08_k4_09_a_redis_outage_is_survived_without_a_restart_of_the_gateway(
    api: Api,
    merchant: RawMerchant,
    own_redis: RedisProcess,
    start_gateway: Callable[..., GatewayProcess],
    eventually: Eventually,
) -> None:
    """K8-08, K4-09, 4.11: alive but not ready, reads go through, nothing that changes something is sent; and when
    Redis is back, so is everything it knew."""
    process = start_gateway(own_redis.url)
    shop = api.by(url=lambda: process.url)
    await shop.register("place_order", merchant.url)
    await shop.register("get_menu", merchant.url)
    assert (await shop.call("o1")).decision == "proceed"
    assert (await shop.send("GET", "/readyz")).status == 200

    own_redis.kill()
    for number in range(120):  # a probe a second, for two minutes
        assert (await shop.send("GET", "/livez")).status == 200
        if number % 10:
            continue
        unready = await shop.send("GET", "/readyz")
        assert (unready.status, unready.code) == (503, "ledger_unavailable")
        assert (await shop.call("o2", "get_menu")).decision == "proceed"
        for tool_call_id in ("o1", "o3"):
            refused = await shop.call(tool_call_id)
            assert (refused.status, refused.code) == (503, "ledger_unavailable")
            assert int(refused.headers["retry-after"]) >= 1
    assert merchant.hits_of("place_order") == 1

    own_redis.start()

    async def ready() -> bool:
        return (await shop.send("GET", "/readyz")).status == 200

    await eventually(ready)
    assert (await shop.call("o1")).decision == "replay"
    assert (await shop.call("o3", arguments={"n": 3})).decision == "proceed"
    assert merchant.hits_of("place_order") == 2


async def test_k8_08_p4_11_a_result_that_cannot_be_recorded_is_still_told_and_recorded_later(
    api: Api,
    merchant: RawMerchant,
    own_redis: RedisProcess,
    start_gateway: Callable[..., GatewayProcess],
    eventually: Eventually,
) -> None:
    """K8-08, 4.11: Redis goes while the merchant works: the caller hears the truth, and the worker settles it when
    Redis is back."""
    process = start_gateway(own_redis.url)
    shop = api.by(url=lambda: process.url)
    await shop.register("place_order", merchant.url, timeout_s=30)
    gate = asyncio.Event()
    merchant.waits_for(gate)
    call = asyncio.create_task(shop.call("o4"))
    await eventually(lambda: merchant.hits == 1)
    own_redis.kill()
    gate.set()
    told = await call
    assert told.json["result"] == {"order": "O-1"}
    assert told.json["recorded"] is False
    own_redis.start()

    async def settled() -> bool:
        found = await shop.send("GET", "/v1/calls", company=shop.company, conversation="c-1", tool_call_id="o4")
        return found.status == 200 and found.json["calls"][0]["status"] == "succeeded"

    await eventually(settled)
    assert (await shop.call("o4")).decision == "replay"
    assert merchant.hits == 1


def _escaped(part: bytes) -> bytes:
    """For a glob: no byte of a digest is a pattern."""
    return b"".join(b"\\" + bytes([byte]) for byte in part)
