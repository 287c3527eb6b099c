"""The gateway is killed, and started again; or cannot start at all."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis
from flow_client import Api, Reply
from flow_merchant import RawMerchant, reply
from flow_processes import GatewayProcess, RedisProcess, clean_environment

from merchant_sdk import SignatureError, verify

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]
StartGateway = Callable[..., GatewayProcess]
SEALS_SOON = {"CALLS_LEASE_MARGIN_S": "1", "CALLS_WAIT_MARGIN_S": "0", "EVENTS_SEAL_AFTER_S": "0.2"}
NewMerchant = Callable[..., Awaitable[RawMerchant]]
DAY_S = 86_400


@pytest.fixture
def own(api: Api, redis_process: RedisProcess, start_gateway: StartGateway) -> tuple[GatewayProcess, Api]:
    """A gateway that may be killed, on the shared Redis."""
    process = start_gateway(redis_process.url, settings=SEALS_SOON)
    return process, api.by(url=lambda: process.url)


async def test_k1_14_k4_01_a_call_that_was_running_at_a_kill_becomes_unknown_and_is_never_sent_again(
    own: tuple[GatewayProcess, Api], merchant: RawMerchant, eventually: Eventually
) -> None:
    """K1-14, K4-01, 4.5: the merchant has committed, the gateway dies before it hears so. "In flight" for the lease
    and no longer, then unknown with the key to reconcile by, at every repeat; one hit."""
    process, api = own
    await api.register("place_order", merchant.url, timeout_s=2)
    merchant.waits_for(asyncio.Event())
    running = asyncio.create_task(api.call("k1", arguments={"sku": "A"}))
    await eventually(lambda: merchant.hits == 1)
    process.kill()
    with pytest.raises(aiohttp.ClientError):
        await running
    process.start()
    seen: list[Reply] = []

    async def answered() -> bool:
        seen.append(await api.call("k1", arguments={"sku": "A"}))
        return seen[-1].status == 200

    await eventually(answered)
    *before, unknown = seen
    assert {(answer.status, answer.code) for answer in before} <= {(409, "call_in_flight")}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in before)
    assert (unknown.decision, unknown.json["status"]) == ("replay", "indeterminate")
    assert unknown.json["error"]["code"] == "outcome_unknown"
    assert unknown.json["effect_id"] == merchant.requests[0].headers["idempotency-key"]
    assert (await api.call("k1", arguments={"sku": "A"})).shown == unknown.shown
    other = await api.call("k2", arguments={"sku": "A"})
    assert other.json["error"]["code"] == "prior_outcome_unknown", "4.7"
    assert [row["effect_id"] for row in await api.unknown()] == [unknown.json["effect_id"]]
    assert merchant.hits == 1


async def test_k8_12_p7_6_a_kill_during_a_call_leaves_its_start_in_the_log(
    own: tuple[GatewayProcess, Api], merchant: RawMerchant, eventually: Eventually
) -> None:
    """K8-12, 7.6: `effect.executing` is durable before the merchant is contacted; the sweeper adds the end by itself."""
    process, api = own
    await api.register("place_order", merchant.url, timeout_s=2)
    merchant.waits_for(asyncio.Event())
    running = asyncio.create_task(api.call("k3"))
    await eventually(lambda: merchant.hits == 1)
    process.kill()
    await asyncio.gather(running, return_exceptions=True)
    process.start()
    started = [event for event in await api.events() if event["type"] == "effect.executing"]
    assert [event["effect_id"] for event in started] == [merchant.requests[0].headers["idempotency-key"]]

    async def swept() -> bool:
        return any(event["type"] == "effect.indeterminate" for event in await api.events())

    await eventually(swept)
    assert len(await api.unknown()) == 1, "4.5: nobody asked for the call meanwhile"


async def test_k4_05_companies_with_equal_ids_stay_apart_over_a_restart(
    own: tuple[GatewayProcess, Api], new_merchant: NewMerchant, eventually: Eventually
) -> None:
    """K4-05, 9.1: two executions at two merchants, each signed with its own secret; look-ups, listings, events and the
    feed show each its own."""
    process, first = own
    second = first.by(company=f"{first.company}b")
    merchants = await new_merchant(), await new_merchant()
    secrets = []
    for api, merchant, order in zip((first, second), merchants, ("A-ORDER", "B-ORDER"), strict=True):
        secrets.append((await api.send("POST", f"/v1/companies/{api.company}/secrets")).json["secret"])
        merchant.answers(_order(order))
        await api.register("create_order", merchant.url)
        await api.register("cancel_order", merchant.url)
        assert (await api.call("1", "create_order", conversation="1")).json["result"] == {"order": order}
        merchant.answers(_order(order, status=500))
        assert (await api.call("2", "cancel_order", conversation="1")).json["status"] == "indeterminate"

    async def fed(api: Api) -> bytes:
        """The company's feed, once the call that failed is in it."""
        feed = await api.send("GET", "/v1/events/feed", company=api.company, limit=500)
        return feed.raw if b"effect.indeterminate" in feed.raw else b""

    for _ in range(2):
        for api, mine, theirs in ((first, b"A-ORDER", b"B-ORDER"), (second, b"B-ORDER", b"A-ORDER")):
            again = await api.call("1", "create_order", conversation="1")
            assert again.decision == "replay"
            pages = [again.raw, str(await api.stored("1", "1")).encode()]
            assert all(mine in page for page in pages)
            pages += [str(await api.events("1")).encode(), str(await api.unknown()).encode()]
            pages.append((await api.send("GET", f"/v1/companies/{api.company}/tools")).raw)
            pages.append(await eventually(partial(fed, api)))
            assert mine in pages[-1], "what its merchant's 500 said"
            assert not any(theirs in page for page in pages)
            assert [row["company"] for row in await api.unknown()] == [api.company]
        process.kill()
        assert "-ORDER" not in "".join(process.said)
        process.start()
    assert [merchant.hits for merchant in merchants] == [2, 2]
    for merchant, mine, theirs in zip(merchants, secrets, reversed(secrets), strict=True):
        for request in merchant.requests:
            verified = verify([mine], request.headers, request.body, now=time.time(), tolerance_s=DAY_S)
            assert verified.id == request.headers["idempotency-key"]
            with pytest.raises(SignatureError):
                verify([theirs], request.headers, request.body, now=time.time(), tolerance_s=DAY_S)


async def test_the_embedded_ledger_keeps_a_call_over_a_kill_and_admits_one_gateway(
    api: Api, merchant: RawMerchant, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """`local:DIR`: every write is synced, and a second gateway on the same folder is refused, since two would grant
    one claim twice."""
    ledger = f"local:{tmp_path / 'ledger'}"
    process = start_gateway(ledger)
    mine = api.by(url=lambda: process.url)
    await mine.register("place_order", merchant.url)
    assert (await mine.call("l1")).decision == "proceed"
    second = await _serve_that_fails(tmp_path, "--ledger", ledger)
    assert "in use by another gateway" in second
    process.kill()
    process.start()
    assert (await mine.call("l1")).decision == "replay"
    assert merchant.hits == 1


async def test_a_gateway_whose_embedded_ledger_ends_stops_and_says_why(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    """4.11: without it nothing can be guarded, and only a new start brings it back: exit status 2, for a supervisor."""
    folder = tmp_path / "ledger"
    process = start_gateway(f"local:{folder}")
    (socket,) = folder.glob("*.sock")
    with redis.Redis(unix_socket_path=str(socket)) as client:
        client.shutdown(nosave=True)
    assert await asyncio.to_thread(process.exit_status) == 2
    assert any("ended by itself" in line for line in process.said)


async def test_a_call_that_an_ended_embedded_ledger_cannot_record_is_told_and_holds_up_no_new_start(
    api: Api, merchant: RawMerchant, start_gateway: StartGateway, tmp_path: Path, eventually: Eventually
) -> None:
    """4.11: its caller has the real result. That ledger comes back with a new start only: nothing is tried until the
    end of the grace, which is ten minutes here."""
    folder = tmp_path / "ledger"
    process = start_gateway(f"local:{folder}", settings={"STOP_GRACE_S": "600"})
    mine = api.by(url=lambda: process.url)
    await mine.register("place_order", merchant.url, timeout_s=20)
    done = asyncio.Event()
    merchant.waits_for(done)
    running = asyncio.create_task(mine.call("l1"))
    await eventually(lambda: merchant.hits == 1)
    (socket,) = folder.glob("*.sock")
    with redis.Redis(unix_socket_path=str(socket)) as client:
        client.shutdown(nosave=True)
    done.set()
    answer = await running
    assert (answer.json["status"], answer.json["recorded"]) == ("succeeded", False)
    assert await asyncio.to_thread(process.exit_status) == 2


async def test_serve_without_a_redis_server_says_what_to_install(tmp_path: Path) -> None:
    """With no server on PATH it stops, and names the way out: install one, or `--ledger memory`."""
    (tmp_path / "empty").mkdir()
    said = await _serve_that_fails(tmp_path, PATH=str(tmp_path / "empty"))
    assert "Install one" in said
    assert "--ledger memory" in said
    assert "Traceback" not in said


async def test_the_memory_ledger_serves_and_says_that_nothing_survives(
    api: Api, merchant: RawMerchant, start_gateway: StartGateway
) -> None:
    """`--ledger memory`: explicit, and forgets when it ends."""
    process = start_gateway("memory")
    mine = api.by(url=lambda: process.url)
    assert any("nothing survives" in line for line in process.said)
    await mine.register("place_order", merchant.url)
    assert [(await mine.call("m1")).decision for _ in range(2)] == ["proceed", "replay"]
    assert merchant.hits == 1
    process.kill()
    process.start()
    await mine.register("place_order", merchant.url)
    assert (await mine.call("m1")).decision == "proceed"


async def test_dev_is_refused_beyond_loopback(tmp_path: Path) -> None:
    """api.md: the key that everyone knows is for this machine only."""
    said = await _serve_that_fails(tmp_path, "--ledger", "memory", "--host", "0.0.0.0")
    assert "loopback" in said


def _order(name: str, status: int = 200) -> bytes:
    return reply({"order": name}, status=status)


async def _serve_that_fails(folder: Path, *flags: str, **environment: str) -> str:
    """What `oncegate serve --dev` says as it refuses to start."""
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "gateway.cli", "serve", "--dev", "--port", "0", *flags],
        cwd=folder,
        env=clean_environment() | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    return ended.stderr
