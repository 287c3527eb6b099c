"""A Redis that loads its data, or has no room left, seen through a whole gateway (K4-11, K4-12)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from flow_client import Api
from flow_merchant import RawMerchant
from flow_processes import GatewayProcess, RedisProcess

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisProcess]:
    (tmp_path / "r").mkdir()
    process = RedisProcess(tmp_path / "r", "--enable-debug-command", "yes", durable=True)
    process.start()
    yield process
    process.kill()


@pytest.fixture
async def shop_on_it(
    api: Api, merchant: RawMerchant, own_redis: RedisProcess, start_gateway: Callable[..., GatewayProcess]
) -> Api:
    process = start_gateway(own_redis.url)
    shop = api.by(url=lambda: process.url)
    await shop.register("place_order", merchant.url, timeout_s=30)
    await shop.register("get_menu", merchant.url)
    return shop


async def test_k4_11_a_redis_that_loads_its_data_refuses_side_effects_and_is_never_taken_for_empty(
    shop_on_it: Api, merchant: RawMerchant, own_redis: RedisProcess, eventually: Eventually
) -> None:
    """K4-11, 4.11: restarted with its data and made to load slowly, it answers -LOADING: 503 for a call that was made
    and for a new one, reads go through, and all that it knew is there when it has loaded."""
    shop = shop_on_it
    assert (await shop.call("o1")).decision == "proceed"
    with own_redis.client() as client:
        client.execute_command("DEBUG", "POPULATE", 20_000, "filler", 64)
        client.execute_command("BGREWRITEAOF")
        await eventually(lambda: _rewritten(client.info("persistence")))
    own_redis.kill()
    slowly = ("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
    own_redis.start(*slowly, wait=False)
    await eventually(lambda: _loading(own_redis))
    for _ in range(3):
        for tool_call_id in ("o1", "o2"):
            refused = await shop.call(tool_call_id)
            assert (refused.status, refused.code) == (503, "ledger_unavailable")
        assert (await shop.call(None, "get_menu")).decision == "proceed"
        assert (await shop.send("GET", "/readyz")).status == 503
        assert (await shop.send("GET", "/livez")).status == 200
    assert await asyncio.to_thread(_loading, own_redis), "it loaded all the while"
    assert merchant.hits_of("place_order") == 1
    own_redis.kill()
    own_redis.start()

    async def ready() -> bool:
        return (await shop.send("GET", "/readyz")).status == 200

    await eventually(ready)
    assert (await shop.call("o1")).decision == "replay"
    assert (await shop.call("o2", arguments={"n": 2})).decision == "proceed"
    assert merchant.hits_of("place_order") == 2


def _rewritten(persistence: dict[str, Any]) -> bool:
    return not (persistence["aof_rewrite_in_progress"] or persistence["aof_rewrite_scheduled"])


def _loading(process: RedisProcess) -> bool:
    try:
        with process.client() as client:
            client.get("x")
    except redis.BusyLoadingError:
        return True
    except (redis.RedisError, OSError):
        return False
    return False


async def test_k4_12_a_redis_without_room_refuses_new_calls_and_records_those_that_run(
    shop_on_it: Api, merchant: RawMerchant, own_redis: RedisProcess, eventually: Eventually
) -> None:
    """K4-12 (a), (b): full before the claim, nothing is sent; full between claim and result, the caller has the
    merchant's real result, and a repeat never sends again, whether there is room by then or not."""
    shop = shop_on_it
    gate = asyncio.Event()
    merchant.waits_for(gate)
    running = asyncio.create_task(shop.call("f1", arguments={"n": 1}))
    await eventually(lambda: merchant.hits == 1)
    with own_redis.client() as client:
        client.config_set("maxmemory", 1)
        refused = await shop.call("f2", arguments={"n": 2})
        assert (refused.status, refused.code) == (503, "ledger_unavailable")
        assert (await shop.send("GET", "/readyz")).status == 503
        gate.set()
        told = await running
        assert (told.json["status"], told.json["result"]) == ("succeeded", {"order": "O-1"})
        assert merchant.hits == 1
        again = await shop.call("f1", arguments={"n": 1})
        assert (again.decision, again.json["result"]) == ("replay", {"order": "O-1"})
        client.config_set("maxmemory", 0)
    assert (await shop.call("f1", arguments={"n": 1})).decision == "replay"
    assert (await shop.call("f2", arguments={"n": 2})).decision == "proceed"
    assert merchant.hits == 2


async def test_k4_12_a_redis_that_evicts_is_refused_at_the_start(own_redis: RedisProcess, tmp_path: Path) -> None:
    """K4-12 (c), 4.14: what is evicted may be done twice, so the gateway does not start, and says why."""
    with own_redis.client() as client:
        client.config_set("maxmemory", 100_000_000)
        client.config_set("maxmemory-policy", "allkeys-lru")
    process = GatewayProcess(tmp_path, own_redis.url, unsafe=False)
    try:
        with pytest.raises(AssertionError):
            await asyncio.to_thread(process.start)
        assert await asyncio.to_thread(process.exit_status) == 2
    finally:
        process.signal(signal.SIGKILL)
    assert any("noeviction" in line for line in process.said), process.said
