"""Whole gateways on a cluster and behind sentinels; and what `oncegate doctor` says of both (4.14, 4.15)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from cluster_processes import Cluster, Watched, until
from flow_client import Api, Reply
from flow_merchant import RawMerchant
from flow_processes import GatewayProcess

from gateway.adapters.ledger_keys import Bucket
from gateway.adapters.redis_slots import key_slot
from gateway.cli import main

CONVERSATIONS = [f"c-{number}" for number in range(12)]
Start = Callable[..., GatewayProcess]


@pytest.fixture
def start_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(ledger: str, **settings: str) -> GatewayProcess:
            process = GatewayProcess(tmp_path_factory.mktemp("gateway"), ledger, settings=settings)
            stack.callback(process.kill)
            process.start()
            return process

        yield start


@pytest.fixture
async def merchant() -> AsyncIterator[RawMerchant]:
    made = RawMerchant()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as made:
        yield made


async def called(api: Api, conversation: str, call: str, *passing: str) -> Any:
    """The same call until it is answered with its outcome; `passing`: further codes that are waited out."""
    async with asyncio.timeout(60):
        while True:
            answer = await api.call(call, arguments={"call": call}, conversation=conversation)
            if answer.status == 200:
                assert answer.json["status"] == "succeeded", answer.raw
                return answer.json["result"]
            assert answer.code in ("ledger_unavailable", "call_in_flight", *passing), answer.raw
            await asyncio.sleep(0.05)


async def all_once(apis: list[Api], merchant: RawMerchant, breaks: Callable[[], object]) -> None:
    """Calls, each at two gateways at once, while something breaks; and all of them again when it is over."""
    first: dict[tuple[str, str], Any] = {}

    async def wave(name: str) -> None:
        async def both(conversation: str) -> None:
            one, other = await asyncio.gather(*(called(api, conversation, name) for api in apis))
            assert one == other
            first[conversation, name] = one

        await asyncio.gather(*(both(each) for each in CONVERSATIONS))

    await wave("before")
    broken = asyncio.ensure_future(asyncio.to_thread(breaks))
    number = 0
    while not broken.done():
        await wave(f"meanwhile-{number}")
        number += 1
    await broken
    await wave("after")
    for (conversation, name), result in first.items():
        assert await called(apis[0], conversation, name) == result
    keys = [request.headers["idempotency-key"] for request in merchant.requests]
    assert len(keys) == len(set(keys)) == len(first), "nothing reached the merchant twice"


@pytest.mark.slow
async def test_p4_15_gateways_on_a_cluster_send_nothing_twice_though_a_primary_dies(
    six: Cluster, start_gateway: Start, merchant: RawMerchant, session: aiohttp.ClientSession
) -> None:
    """4.14, 4.15: two gateways, claims confirmed by a replica; a server is killed and comes back."""
    gateways = [start_gateway(six.url, LEDGER_WAIT_REPLICAS="1") for _ in "ab"]
    apis = [Api(session, lambda gateway=gateway: gateway.url, "acme") for gateway in gateways]
    await apis[0].register("place_order", merchant.url)
    await called(apis[1], "c-first", "known", "unknown_tool")  # until the second gateway has heard of the tool
    merchant.requests.clear()

    def breaks() -> None:
        dead, other = six.servers[0], six.servers[1]
        heir = six.replicas_of(dead)[0]
        dead.kill()
        until(lambda: six.owner(0, other) is heir, "the replica has taken over")
        dead.start()
        until(lambda: dead.info("replication")["master_link_status"] == "up", "the old one is a replica")

    await all_once(apis, merchant, breaks)


@pytest.mark.slow
async def test_p4_15_gateways_behind_sentinels_send_nothing_twice_though_the_primary_dies(
    watched: Watched, start_gateway: Start, merchant: RawMerchant, session: aiohttp.ClientSession
) -> None:
    """4.14, 4.15: the same with sentinels; the old primary comes back as a replica."""
    gateways = [start_gateway(watched.url, LEDGER_WAIT_REPLICAS="2") for _ in "ab"]
    apis = [Api(session, lambda gateway=gateway: gateway.url, "acme") for gateway in gateways]
    await apis[0].register("place_order", merchant.url)
    await called(apis[1], "c-first", "known", "unknown_tool")
    merchant.requests.clear()

    def breaks() -> None:
        dead = watched.servers[0]
        dead.kill()
        until(lambda: watched.primary() is not dead, "another primary is named")
        dead.start()
        until(lambda: dead.info("replication")["role"] == "slave", "the old one is a replica")

    await all_once(apis, merchant, breaks)


BRACED = ["a{x}b", "{}", "}{", "{og.000}", "{x"]


async def test_k4_18_ledger_limits_and_approvals_work_on_a_cluster_whatever_braces_are_in_the_ids(
    three: Cluster, start_gateway: Start, merchant: RawMerchant, session: aiohttp.ClientSession
) -> None:
    """K4-18, 4.15, 7.4, 7.5: no command has keys in two slots. A call, its replay and look-up; its repeat held, listed,
    granted and done once; and a limit that counts to what it says."""
    gateway = start_gateway(three.url)
    for named in BRACED:
        merchant.requests.clear()
        await everything_in_braces(Api(session, lambda: gateway.url, f"shop {named}"), merchant, named)


async def everything_in_braces(api: Api, merchant: RawMerchant, named: str) -> None:
    tool, parameters = f"place_order {named}", {"type": "object", "properties": {named: {"type": "string"}}}
    await api.register(tool, merchant.url, parameters=parameters)
    limit = {"max": 3, "window_s": 600, "per": f"/{named}"}
    rule = {"id": named, "priority": 1, "when": {"target": "*"}, "then": {"decision": "allow", "rate_limit": limit}}
    policy = {"policy": {"default_action": "allow", "rules": [rule]}}
    stored = await api.send("PUT", f"/v1/companies/{quote(api.company, safe='')}", policy)
    assert stored.status == 200, stored.raw

    async def call(tool_call_id: str, number: int = 0, conversation: str = named) -> Reply:
        said = {named: f"{named} {number}"}
        place = {"conversation": conversation, "turn": named, "step": 1, "attempt": 1}
        return await api.call(tool_call_id, tool, said, **place)

    assert [(await call(named)).decision for _ in range(2)] == ["proceed", "replay"]
    (found,) = await api.stored(named, named)
    assert found["result"] == {"order": "O-1"}
    held = await call(f"{named} again")
    assert (held.decision, held.json["first"]["result"]) == ("blocked", {"order": "O-1"})
    approval = held.json["approval"]["id"]
    waiting = (await api.send("GET", "/v1/approvals", company=api.company)).json["approvals"]
    assert [row["id"] for row in waiting] == [approval]
    granted = await api.send("POST", f"/v1/approvals/{approval}/grant", {})
    assert (granted.status, granted.json["status"]) == (200, "succeeded"), granted.raw
    assert (await call(f"{named} again")).decision == "replay"
    counted = [await call(f"{named} {n}", 7, f"{named} {n}") for n in range(5)]
    assert [each.status for each in counted] == [200] * 3 + [429] * 2, counted
    assert {each.code for each in counted[3:]} == {"rate_limited"}
    kinds = [event["type"] for event in await api.events(named)]
    assert kinds.count("effect.executing") == kinds.count("effect.succeeded") == 2
    assert merchant.hits == 5


def test_p4_14_doctor_looks_at_every_server_of_a_cluster(three: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """4.14: what they have in common is said once, what holds for one of them with its name."""
    odd = three.servers[1]
    odd.tell("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
    try:
        assert main(["doctor", "--json", "--ledger", three.url]) == 1
    finally:
        odd.tell("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
    said = json.loads(capsys.readouterr().out)
    found = {finding["code"]: finding["found"] for finding in said["findings"]}
    assert said["ledger"] == three.url
    assert "cluster-mode" not in found
    assert found["evicts-keys"].startswith(f"{odd.name}: ")
    assert not found["persists-nothing"].startswith("127.0.0.1")
    assert found["no-replica"] == "no replica is connected"


@pytest.mark.slow
def test_p4_14_doctor_looks_at_the_primary_that_sentinels_name(
    watched: Watched, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEGATE_LEDGER_WAIT_REPLICAS", "1")
    assert main(["doctor", "--json", "--ledger", watched.url]) == 1
    found = {finding["code"]: finding["found"] for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert found["some-replicas-wait"] == "replicas connected: 2; a claim waits for 1 of them"
    assert "confirmed" in found
    assert main(["doctor", "--ledger", watched.url.replace(Watched.SERVICE, "another")]) == 2
    assert "no sentinel names a primary for another" in capsys.readouterr().err


def test_p4_14_doctor_says_that_a_server_is_one_of_a_cluster(
    three: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """4.14: named alone, most conversations' keys are elsewhere."""
    one = three.owner(key_slot(Bucket(0).probe))
    assert main(["doctor", "--json", "--ledger", f"redis://{one.name}"]) == 1
    assert "cluster-mode" in {finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]}
