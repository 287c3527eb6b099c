"""Claims that wait for a replica, on a real pair: one that stands still, and a primary that is lost."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flow_client import Api
from flow_merchant import RawMerchant
from flow_processes import GatewayProcess, RedisProcess

from benchmarks.processes import free_port

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]
Pair = tuple[RedisProcess, RedisProcess]
WAITING = {
    "LEDGER_WAIT_REPLICAS": "1",
    "CALLS_LEASE_MARGIN_S": "1",
    "CALLS_WAIT_MARGIN_S": "0",
}
SOON = WAITING | {"LEDGER_WAIT_TIMEOUT_S": "0.5"}
"""A replica on a slow disk may miss it once: who needs its word asks again, as the 503 says."""
LATE = WAITING | {"LEDGER_WAIT_TIMEOUT_S": "20", "LEDGER_COMMAND_TIMEOUT_S": "30"}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """A primary and its replica, both syncing every write."""
    port = str(free_port())
    for name in ("primary", "replica"):
        (tmp_path / name).mkdir()
    listening = ("--port", port, "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0")
    primary = RedisProcess(tmp_path / "primary", *listening, durable=True)
    replica = RedisProcess(tmp_path / "replica", "--replicaof", "127.0.0.1", port, durable=True)
    with ExitStack() as stack:
        for each in (primary, replica):
            stack.callback(each.kill)
            each.start()
        yield primary, replica


@pytest.fixture
async def online(pair: Pair, eventually: Eventually) -> Pair:
    with pair[0].client() as client:
        await eventually(lambda: client.info("replication").get("slave0", {}).get("state") == "online")
    return pair


async def test_p4_14_while_the_replica_stands_still_nothing_is_sent_and_afterwards_the_id_is_usable(
    api: Api,
    merchant: RawMerchant,
    online: Pair,
    start_gateway: Callable[..., GatewayProcess],
    eventually: Eventually,
) -> None:
    """4.14: 503, no request at the merchant, replays and reads go on; then the same request runs, once."""
    primary, replica = online
    process = start_gateway(primary.url, settings=SOON)
    shop = api.by(url=lambda: process.url)
    await shop.register("place_order", merchant.url)
    await shop.register("get_menu", merchant.url)

    async def answered(tool_call_id: str, n: int) -> Any:
        reply = await shop.call(tool_call_id, arguments={"n": n})
        return reply if reply.status == 200 else None

    assert (await eventually(partial(answered, "o1", 1))).decision == "proceed"

    replica.signal(signal.SIGSTOP)
    try:
        for _ in range(3):
            refused = await shop.call("o2", arguments={"n": 2})
            assert (refused.status, refused.code) == (503, "ledger_unavailable")
            assert refused.json["outcome"] == "not_sent"
        unready = await shop.send("GET", "/readyz")
        assert (unready.status, unready.code) == (503, "ledger_unavailable")
        assert (await shop.send("GET", "/livez")).status == 200
        assert (await shop.call("o1", arguments={"n": 1})).decision == "replay"
        assert (await shop.call("m1", "get_menu")).decision == "proceed"
        assert merchant.hits_of("place_order") == 1
    finally:
        replica.signal(signal.SIGCONT)

    assert (await eventually(partial(answered, "o2", 2))).decision == "proceed"
    assert (await shop.call("o2", arguments={"n": 2})).decision == "replay"
    assert merchant.hits_of("place_order") == 2


async def test_p4_14_a_claim_that_was_confirmed_outlives_its_primary(
    api: Api,
    merchant: RawMerchant,
    online: Pair,
    start_gateway: Callable[..., GatewayProcess],
    eventually: Eventually,
) -> None:
    """4.14, 4.6: primary and gateway are lost while the merchant works. On the replica the call is known, becomes
    unknown, and is never sent again."""
    primary, replica = online
    first = start_gateway(primary.url, settings=LATE)
    shop = api.by(url=lambda: first.url)
    await shop.register("place_order", merchant.url, timeout_s=3)
    gate = asyncio.Event()
    merchant.waits_for(gate)
    call = asyncio.create_task(shop.call("o1"))
    await eventually(lambda: merchant.hits == 1)
    first.kill()
    primary.kill()
    await asyncio.gather(call, return_exceptions=True)
    with replica.client() as client:
        client.replicaof("NO", "ONE")

    second = start_gateway(replica.url)
    shop = api.by(url=lambda: second.url)

    async def known() -> Any:
        reply = await shop.call("o1")
        assert reply.status in (200, 409)
        return reply if reply.status == 200 else None

    assert (await eventually(known)).json["status"] == "indeterminate"
    assert merchant.hits == 1
    gate.set()
