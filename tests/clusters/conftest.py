"""Clusters and sentinels that are real processes; skipped where there is no redis-server."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "flows"))

from cluster_processes import Cluster, Watched
from desk import Desk

from gateway.adapters.claim_wait import ClaimWait
from gateway.adapters.redis_clients import close_client, connector, open_client
from gateway.adapters.redis_cluster import ClusterCommands
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_sentinels import follow
from gateway.adapters.redis_urls import parse_ledger_url


def programs() -> list[str]:
    """The server on PATH, and one more that NEWER_REDIS_SERVER may name."""
    found = [shutil.which("redis-server") or shutil.which("valkey-server"), os.environ.get("NEWER_REDIS_SERVER")]
    return [each for each in found if each]


@pytest.fixture(scope="session", params=programs() or [None], ids=lambda path: path and Path(path).name)
def program(request: pytest.FixtureRequest) -> str:
    if request.param is None:
        pytest.skip("no redis-server or valkey-server on PATH")
    return str(request.param)


@pytest.fixture(scope="session")
def three(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three primaries without replicas, for all tests that leave them as they were."""
    cluster = Cluster(program, tmp_path_factory.mktemp("three"))
    with ExitStack() as stack:
        stack.callback(cluster.end)
        cluster.start()
        yield cluster


@pytest.fixture
def six(program: str, tmp_path: Path) -> Iterator[Cluster]:
    """Three primaries, each with a replica, for one test to break."""
    cluster = Cluster(program, tmp_path, replicas=1)
    with ExitStack() as stack:
        stack.callback(cluster.end)
        cluster.start()
        yield cluster


@pytest.fixture
def watched(program: str, tmp_path: Path) -> Iterator[Watched]:
    """A primary, two replicas and three sentinels, for one test to break."""
    servers = Watched(program, tmp_path)
    with ExitStack() as stack:
        stack.callback(servers.end)
        servers.start()
        yield servers


@pytest.fixture
async def reach() -> AsyncIterator[Callable[..., ClusterCommands | Commands]]:
    """A front to what a URL of a cluster or of sentinels names; closed at the end of the test."""
    async with AsyncExitStack() as stack:

        def front(text: str, **options: float) -> ClusterCommands | Commands:
            url = parse_ledger_url(text)
            made: ClusterCommands | Commands
            if url.kind == "cluster":
                made = ClusterCommands(connector(url), url.nodes, **options)  # type: ignore[arg-type]
            else:
                client = open_client(url)
                stack.push_async_callback(close_client, client)
                made = Commands(client, **options)  # type: ignore[arg-type]
                following = asyncio.create_task(follow(client, made))
                stack.push_async_callback(asyncio.wait, [following])
                stack.callback(following.cancel)
            stack.push_async_callback(made.close)
            return made

        yield front


@pytest.fixture
def desk_at(reach: Callable[..., ClusterCommands | Commands]) -> Callable[..., Desk]:
    """Callers over a ledger of their own connections; their claims wait for `replicas`."""

    def made(url: str, *, replicas: int = 0) -> Desk:
        wait = ClaimWait(replicas, False, 1.0) if replicas else None
        return Desk(RedisLedger(reach(url), wait=wait))

    return made


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Waits until a condition holds, or fails after two minutes."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not condition():  # noqa: ASYNC110 (it may be about another process)
                await asyncio.sleep(0.01)

    return wait
