"""Run as a process by the tests: starts the embedded ledger, writes, says so, and then just stands there."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Literal, cast

from gateway.adapters.local_redis import LocalRedis
from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_urls import LedgerUrl


async def main(folder: str, guard: str) -> None:
    ledger = LocalRedis(Path(folder), guard=cast(Literal["signal", "watch"], guard))
    client = open_client(LedgerUrl.for_socket(await ledger.start()))
    await client.set("order", "placed")
    info = await client.info("server")
    print(json.dumps({"redis": info["process_id"]}), flush=True)
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
