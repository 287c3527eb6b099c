"""A recorded call stays as small as docs/performance.md says."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from benchmarks.ledger_size.measure import BAR_BYTES, grow
from benchmarks.processes import RedisServer, redis_program
from gateway.adapters.redis_clients import close_client, open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_urls import parse_ledger_url
from gateway.service.deciding import Decider


@pytest.mark.skipif(redis_program() is None, reason="no redis-server or valkey-server on PATH")
async def test_p4_13_a_call_of_a_kilobyte_takes_at_most_two_thousand_bytes(tmp_path: Path) -> None:
    """4.13: its record, its id, its events and all that finds them; with what `make bench-ledger` measures."""
    async with contextlib.AsyncExitStack() as stack:
        commands = []
        for name in ("grown", "beside"):
            server = await stack.enter_async_context(RedisServer(tmp_path / name, fsync="no"))
            client = open_client(parse_ledger_url(server.url))
            stack.push_async_callback(close_client, client)
            commands.append(Commands(client))
            stack.push_async_callback(commands[-1].close)
        deciders = [Decider(RedisLedger(each)) for each in commands]
        measured = await grow(commands[0], *deciders, [400], 400, lambda _: None)
    assert measured.size is not None
    assert set(measured.size.kinds) == {"records", "ids", "identical calls", "live calls", "events", "feeds"}
    assert measured.size.a_call <= BAR_BYTES
