"""A gateway that stands still past its lease, and a Redis that is restarted between a claim and its outcome."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from flow_client import Api
from flow_merchant import RawMerchant
from flow_processes import GatewayProcess

from benchmarks.chaos.proxy import Link, Odds
from benchmarks.processes import LOOPBACK, RedisServer

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]
StartGateway = Callable[..., GatewayProcess]
DEADLINE_S = 3.0


@pytest.fixture
async def mortal_redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    """Every write synced; may be killed and started again on the same folder and port."""
    async with RedisServer(tmp_path / "mortal") as server:
        yield server


@pytest.fixture
async def slow_link(mortal_redis: RedisServer) -> AsyncIterator[Link]:
    """Between one gateway and that Redis: what passes it can be held, each way by itself."""
    assert mortal_redis.port is not None
    link = Link("to Redis", mortal_redis.port, Odds(), 0)
    await link.listen()
    yield link
    await link.close()


def _types(events: list[dict[str, Any]]) -> list[str]:
    """What happened, without what only says that it may, and without replays."""
    quiet = ("effect.proposed", "effect.allowed", "effect.replayed")
    return [e["type"].removeprefix("effect.") for e in events if e["effect_id"] and e["type"] not in quiet]


async def test_p4_4_p4_11_an_outcome_that_redis_missed_is_recorded_though_it_was_unknown_by_then(
    api: Api, merchant: RawMerchant, mortal_redis: RedisServer, start_gateway: StartGateway, eventually: Eventually
) -> None:
    """4.4, 4.11: Redis dies between claim and outcome and comes back after the lease; the other gateway calls the
    outcome unknown; then the worker, which was held up, records what it knew all along. One hit."""
    first = start_gateway(mortal_redis.url)
    worker = api.by(url=lambda: first.url)
    await worker.register("place_order", merchant.url, timeout_s=DEADLINE_S)
    gate = asyncio.Event()
    merchant.waits_for(gate)
    call = asyncio.create_task(worker.call("s1"))
    await eventually(lambda: merchant.hits == 1)
    await mortal_redis.kill()
    gate.set()
    told = await call
    assert (told.json["result"], told.json["recorded"]) == ({"order": "O-1"}, False)
    first.signal(signal.SIGSTOP)
    try:
        await mortal_redis.start()
        second = start_gateway(mortal_redis.url)
        other = api.by(url=lambda: second.url)
        await eventually(other.unknown)
        unknown = await other.call("s1")
        assert (unknown.decision, unknown.json["status"]) == ("replay", "indeterminate")
    finally:
        first.signal(signal.SIGCONT)

    async def settled() -> bool:
        return [row["status"] for row in await other.stored("s1")] == ["succeeded"]

    await eventually(settled)
    again = await other.call("s1")
    assert (again.decision, again.json["result"]) == ("replay", told.json["result"])
    events = await other.events()
    assert _types(events) == ["executing", "indeterminate", "succeeded"]
    assert [event["late"] for event in events if event["type"] == "effect.succeeded"] == [True]
    assert await other.unknown() == []
    assert merchant.hits == 1


@pytest.mark.parametrize("patience", ["30", "5"], ids=["it still listens to Redis", "it has given Redis up"])
async def test_p4_5_a_gateway_that_stood_still_past_its_lease_sends_nothing(
    patience: str,
    api: Api,
    merchant: RawMerchant,
    mortal_redis: RedisServer,
    slow_link: Link,
    start_gateway: StartGateway,
    eventually: Eventually,
) -> None:
    """4.5, 4.1: stopped between its claim and the claim's reply, for longer than the lease: the other gateway calls
    the outcome unknown, and the first, going on, sends nothing and gives its claim back; then the call runs."""
    settings = {"CALLS_LEASE_MARGIN_S": "1", "LEDGER_COMMAND_TIMEOUT_S": patience}
    # The link lives in this loop, which must not wait for the gateway by standing still.
    stopped = await asyncio.to_thread(start_gateway, f"redis://{LOOPBACK}:{slow_link.port}/0", settings=settings)
    second = start_gateway(mortal_redis.url)
    worker, other = api.by(url=lambda: stopped.url), api.by(url=lambda: second.url)
    # The lease outlasts that patience, and both outlast a slow machine on the way from the claim to the stop.
    await worker.register("place_order", merchant.url, timeout_s=5)
    slow_link.hold(replies_only=True)
    call = asyncio.create_task(worker.call("s2"))

    async def claimed() -> bool:
        return _types(await other.events()) == ["executing"]

    await eventually(claimed)
    stopped.signal(signal.SIGSTOP)
    try:
        slow_link.let_go()
        await eventually(other.unknown)
    finally:
        stopped.signal(signal.SIGCONT)
    refused = await call
    assert (refused.status, refused.code) in {(409, "call_in_flight"), (503, "ledger_unavailable")}
    assert merchant.hits == 0

    async def released() -> bool:
        return await other.stored("s2") == []

    await eventually(released)
    assert _types(await other.events()) == ["executing", "indeterminate", "released"]
    assert (await other.call("s2")).decision == "proceed"
    assert (await worker.call("s2")).decision == "replay"
    assert merchant.hits == 1


async def test_p4_5_p4_6_a_gateway_that_stood_still_while_the_merchant_worked_does_not_send_again(
    api: Api, merchant: RawMerchant, mortal_redis: RedisServer, start_gateway: StartGateway, eventually: Eventually
) -> None:
    """4.5, 4.6: stopped with its request under way, past the lease: unknown at the other gateway, one hit, and what
    the caller of the first is told in the end is what stands in the record."""
    stopped, second = (start_gateway(mortal_redis.url) for _ in "ab")
    worker, other = api.by(url=lambda: stopped.url), api.by(url=lambda: second.url)
    await worker.register("place_order", merchant.url, timeout_s=DEADLINE_S)
    gate = asyncio.Event()
    merchant.waits_for(gate)
    call = asyncio.create_task(worker.call("s3"))
    await eventually(lambda: merchant.hits == 1)
    stopped.signal(signal.SIGSTOP)
    try:
        gate.set()
        await eventually(other.unknown)
        unknown = await other.call("s3")
        assert (unknown.decision, unknown.json["status"]) == ("replay", "indeterminate")
    finally:
        stopped.signal(signal.SIGCONT)
    told = await call
    (record,) = await other.stored("s3")
    assert told.json["status"] == record["status"]
    assert record["status"] in ("indeterminate", "succeeded")
    assert (await other.call("s3")).shown == told.shown
    assert (await other.call("s4")).decision in ("denied", "blocked"), "4.7, 4.9: no second effect beside it"
    assert merchant.hits == 1


async def test_p4_11_a_claim_that_lands_after_it_was_given_up_neither_runs_nor_stays(
    api: Api,
    merchant: RawMerchant,
    mortal_redis: RedisServer,
    slow_link: Link,
    start_gateway: StartGateway,
    eventually: Eventually,
) -> None:
    """4.11: the network holds a claim back until its gateway has given it up, and then delivers it: 503, nothing sent,
    and the same call afterwards is new, not unknown."""
    settings = {"CALLS_LEASE_MARGIN_S": "1", "LEDGER_COMMAND_TIMEOUT_S": "2"}
    cut_off = await asyncio.to_thread(start_gateway, f"redis://{LOOPBACK}:{slow_link.port}/0", settings=settings)
    worker = api.by(url=lambda: cut_off.url)
    await worker.register("place_order", merchant.url, timeout_s=DEADLINE_S)
    slow_link.hold()
    refused = await worker.call("s5")
    assert (refused.status, refused.code) == (503, "ledger_unavailable")
    assert merchant.hits == 0
    slow_link.let_go()

    async def answered() -> Any:
        answer = await worker.call("s5")
        return answer if answer.status == 200 else None

    answer = await eventually(answered)
    assert (answer.decision, answer.json["status"]) == ("proceed", "succeeded")
    assert "indeterminate" not in _types(await worker.events())
    assert merchant.hits == 1
