"""Flows: real gateways on a real Redis, and merchants that are scripted sockets. One Redis and two gateways
serve all tests of a worker; each test has a company of its own. A test that breaks something starts its own."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from inspect import isawaitable
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from flow_client import Api
from flow_merchant import RawMerchant
from flow_processes import GatewayProcess, RedisProcess

BOUND_S = 120.0
"""Of what comes true in a moment; nothing is measured against it."""
SHORT = {"CALLS_LEASE_MARGIN_S": "1", "CALLS_WAIT_MARGIN_S": "0"}
"""A lease of a second more than a tool's deadline; duplicates wait no longer than that deadline."""


@pytest.fixture(scope="session", autouse=True)
def redis_installed() -> None:
    if not any(map(shutil.which, ("redis-server", "valkey-server"))):
        pytest.skip("there is no redis-server or valkey-server on PATH")


@pytest.fixture(scope="session")
def redis_process(redis_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    process = RedisProcess(tmp_path_factory.mktemp("redis"))
    process.start()
    yield process
    process.kill()


@pytest.fixture(scope="session")
def gateways(redis_process: RedisProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[GatewayProcess]]:
    """Two replicas on one ledger, logging all they ever log."""
    both = [GatewayProcess(tmp_path_factory.mktemp("gw"), redis_process.url, "--log-level", "debug") for _ in "ab"]
    with ExitStack() as stack:
        for each in both:
            stack.callback(each.kill)
            each.start()
        yield both


@pytest.fixture
def gateway(gateways: list[GatewayProcess]) -> GatewayProcess:
    return gateways[0]


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[Callable[..., GatewayProcess]]:
    """Starts gateways of the test's own; they are killed at its end."""
    with ExitStack() as stack:

        def start(ledger: str, *flags: str, **options: Any) -> GatewayProcess:
            process = GatewayProcess(tmp_path, ledger, *flags, **({"settings": SHORT} | options))
            stack.callback(process.kill)
            process.start()
            return process

        yield start


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    # No connection is kept: one to a gateway that was killed meanwhile would fail the next request.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, trust_env=False, auto_decompress=False) as open_session:
        yield open_session


@pytest.fixture
def api(session: aiohttp.ClientSession, gateway: GatewayProcess) -> Api:
    """A caller for a company that no other test uses, at the first gateway."""
    return Api(session, lambda: gateway.url, f"shop-{uuid4().hex[:12]}")


@pytest.fixture
async def new_merchant() -> AsyncIterator[Callable[..., Awaitable[RawMerchant]]]:
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> RawMerchant:
            made = RawMerchant()
            stack.push_async_callback(made.stop)
            await made.start(**options)
            return made

        yield start


@pytest.fixture
async def merchant(new_merchant: Callable[..., Awaitable[RawMerchant]]) -> RawMerchant:
    return await new_merchant()


@pytest.fixture
async def shop(api: Api, merchant: RawMerchant) -> Api:
    """A caller whose company has `place_order`, which changes something, and `get_menu`, which does not."""
    await api.register("place_order", merchant.url, timeout_s=20)
    await api.register("get_menu", merchant.url)
    return api


Heard = Callable[[], Awaitable[list[str]]]


@pytest.fixture
async def heard(api: Api, gateway: GatewayProcess, eventually: Eventually) -> Heard:
    """What the first gateway wrote since this test began, or since it was asked last: no line is missing that is still
    on its way, and none is there that was on its way from an earlier test."""

    async def so_far() -> int:
        mark = f"request=mark-{uuid4().hex}"
        refused = await api.by("nobody").send(
            "GET", "/v1/events", headers={"Request-Id": mark.removeprefix("request=")}
        )
        assert refused.status == 401
        return await eventually(lambda: next((n for n, line in enumerate(gateway.said, 1) if mark in line), 0))

    since = await so_far()

    async def lines() -> list[str]:
        nonlocal since
        before, since = since, await so_far()
        return gateway.said[before : since - 1]

    return lines


Condition = Callable[[], Any]
Eventually = Callable[[Condition], Awaitable[Any]]


@pytest.fixture
def eventually() -> Eventually:
    """Waits until a condition, plain or awaitable, holds, and gives what it gave; fails after BOUND_S."""

    async def wait(condition: Condition) -> Any:
        deadline = time.monotonic() + BOUND_S
        while True:
            held = condition()
            if isawaitable(held):
                held = await held
            if held:
                return held
            assert time.monotonic() < deadline, "it never came true"
            await asyncio.sleep(0.01)

    return wait
