"""Documents over an in-memory Redis and over a real one that the test starts."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_documents import RedisDocuments
from gateway.adapters.redis_urls import LedgerUrl


@asynccontextmanager
async def redis_server(folder: Path) -> AsyncIterator[LedgerUrl]:
    """A redis-server on a Unix socket in `folder`; ended by its own process handle."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("no redis-server or valkey-server on PATH")
    url = LedgerUrl.for_socket(folder / "s")
    settings = ("--port", "0", "--save", "", "--dir", str(folder), "--unixsocket", str(url.path))
    process = await asyncio.create_subprocess_exec(program, *settings, stdout=asyncio.subprocess.DEVNULL)
    try:
        client = open_client(url)
        async with asyncio.timeout(120):
            while True:
                try:
                    await client.ping()
                    break
                except (RedisError, OSError):
                    await asyncio.sleep(0.01)
        await client.aclose()
        yield url
    finally:
        process.terminate()
        await process.wait()


@pytest.fixture(params=["memory", "redis"])
async def commands(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Commands]:
    async with AsyncExitStack() as stack:
        url = LedgerUrl(kind="memory")
        if request.param == "redis":
            url = await stack.enter_async_context(redis_server(tmp_path_factory.mktemp("r")))
        client = open_client(url)
        front = Commands(client, connect_timeout_s=60, command_timeout_s=60)
        yield front
        await front.close()
        await client.aclose()


@pytest.fixture
async def documents(commands: Commands) -> RedisDocuments:
    return RedisDocuments(commands)
