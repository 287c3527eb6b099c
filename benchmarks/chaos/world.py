"""The processes of a run and the links between them: one Redis, several gateways, two merchants."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.chaos.plan import CARELESS, KEPT, TOOLS
from benchmarks.chaos.proxy import Link, Odds
from benchmarks.processes import DEV_KEY, LOOPBACK, ROOT, Gateway, RedisServer, Server, StartFailed, free_port

DEADLINE_S: Final = 1.0
MARGIN_S: Final = 1.0
LEASE_S: Final = DEADLINE_S + MARGIN_S
SWEPT_S: Final = 2.0
"""How often a gateway sweeps."""
LONGEST_PAUSE_S: Final = 5.0
"""Between a gateway's tries to record an outcome while the ledger is away."""
SETTINGS: Final = {
    "ONCEGATE_CALLS_LEASE_MARGIN_S": str(MARGIN_S),
    "ONCEGATE_CALLS_WAIT_MARGIN_S": "0.5",
    "ONCEGATE_LEDGER_COMMAND_TIMEOUT_S": "0.5",
    "ONCEGATE_LEDGER_CONNECT_TIMEOUT_S": "0.5",
}
COMPANY: Final = {"repeat_window_s": 3600, "max_steps": "off"}
TO_LEDGER: Final = Odds(slow=0.01, late=0.004, cut=0.003, half=0.002)
TO_SHOP: Final = Odds(slow=0.05, late=0.02, cut=0.025, half=0.015, late_s=(0.7, 2.5))
TO_GATEWAY: Final = Odds(slow=0.05, late=0.01, cut=0.03, half=0.015)
START_WITHIN_S: Final = 90.0


@dataclass(slots=True)
class Replica:
    """One gateway; `url` leads to it through a link that misbehaves, `direct` does not."""

    server: Gateway
    ledger: Link
    front: Link

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.front.port}"

    @property
    def direct(self) -> str:
        return self.server.url


@dataclass(slots=True)
class Merchant:
    """One shop, reached through one link."""

    server: Server
    link: Link
    folder: Path

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What its own database says, in order."""
        with closing(sqlite3.connect(self.folder / f"{table}.db")) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY number")]


class World:
    """`async with World(folder, seed, replicas) as world`. Raises StartFailed."""

    def __init__(self, folder: Path, seed: int, replicas: int) -> None:
        self.redis = RedisServer(folder / "redis", fsync="always")
        assert self.redis.port is not None
        self.replicas: list[Replica] = []
        for n in range(replicas):
            ledger = Link(f"gateway {n} to Redis", self.redis.port, TO_LEDGER, seed)
            server = Gateway(folder / f"gateway-{n}", f"redis://{LOOPBACK}:{ledger.port}/0", env=SETTINGS)
            assert server.port is not None
            self.replicas.append(
                Replica(server, ledger, Link(f"callers to gateway {n}", server.port, TO_GATEWAY, seed))
            )
        self.merchants: dict[str, Merchant] = {}
        self._folder, self._seed = folder, seed

    @property
    def links(self) -> list[Link]:
        both = [link for each in self.replicas for link in (each.ledger, each.front)]
        return [*both, *(each.link for each in self.merchants.values())]

    async def __aenter__(self) -> World:
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        servers = [each.server for each in self.replicas] + [each.server for each in self.merchants.values()]
        await asyncio.gather(*(server.kill() for server in [*servers, self.redis]))
        await asyncio.gather(*(link.close() for link in self.links))

    async def _start(self) -> None:
        await self.redis.start()
        for link in self.links:
            await link.listen()
        await asyncio.gather(*(up(each.server) for each in self.replicas))
        async with Direct(self.replicas[0].direct) as api:
            for company in (CARELESS, KEPT):
                await api.ask("PUT", f"/v1/companies/{company}", COMPANY)
                secret = (await api.ask("POST", f"/v1/companies/{company}/secrets", None))["secret"]
                self.merchants[company] = self._merchant(company, secret)
                await self.merchants[company].link.listen()
                await up(self.merchants[company].server)
            for tool, terms in TOOLS.items():
                registration = {
                    "endpoint": f"http://{LOOPBACK}:{self.merchants[terms.company].link.port}/tools",
                    "side_effecting": True,
                    "on_repeat": terms.on_repeat,
                    "idempotency": terms.idempotency,
                    "timeout_s": DEADLINE_S,
                }
                await api.ask("PUT", f"/v1/companies/{terms.company}/tools/{tool}", registration)
        for replica in self.replicas:
            # A gateway hears of what another was told within seconds.
            async with Direct(replica.direct) as api:
                await until(partial(_knows_the_tools, api), 30, f"{replica.server.name} did not know the tools")
        for link in self.links:
            link.calm = False

    def _merchant(self, company: str, secret: str) -> Merchant:
        folder = self._folder / company
        folder.mkdir()
        port = free_port()
        command = [
            *(sys.executable, "-m", "uvicorn", "--factory", "benchmarks.chaos.shops:app"),
            *("--host", LOOPBACK, "--port", str(port), "--log-level", "warning", "--no-access-log"),
        ]
        env = {
            "CHAOS_SHOP": company,
            "CHAOS_DATABASE": str(folder / "orders.db"),
            "CHAOS_ARRIVALS": str(folder / "arrivals.db"),
            "CHAOS_SEED": str(self._seed),
            "SHOP_SECRET": secret,
            "PYTHONPATH": str(ROOT),
        }
        server = Server(f"the {company} merchant", command, log=folder / "merchant.log", port=port, env=env)
        return Merchant(server, Link(f"gateways to {company}", port, TO_SHOP, self._seed), folder)


async def up(server: Server) -> None:
    """Start it, again and again: what it needs may be down itself. Raises StartFailed after a while."""
    until = time.monotonic() + START_WITHIN_S
    while True:
        try:
            await server.start(within_s=20)
            return
        except StartFailed:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)


class Direct:
    """Asks one gateway without a link between: what it says is what it says."""

    def __init__(self, url: str) -> None:
        self._url = url
        connector = aiohttp.TCPConnector(limit=16)
        headers = {"Authorization": f"Bearer {DEV_KEY}", "Content-Type": "application/json"}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False)

    async def __aenter__(self) -> Direct:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(
        self, method: str, path: str, body: object, *, floats: Callable[[str], Any] = str, **query: str | int
    ) -> Any:
        """Its JSON, `floats` as they were written; RuntimeError where it is no 2xx."""
        data = None if body is None else json.dumps(body).encode()
        async with self._session.request(method, self._url + path, data=data, params=query) as answer:
            said = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {said[:300]!r}")
            return json.loads(said, parse_float=floats) if said else None


async def _knows_the_tools(api: Direct) -> bool:
    pages = [await api.ask("GET", f"/v1/companies/{company}/tools", None) for company in (CARELESS, KEPT)]
    return sum(len(page["tools"]) for page in pages) == len(TOOLS)


async def until(condition: Callable[[], Awaitable[bool]], within_s: float, what: str) -> None:
    """Raises StartFailed if it does not come true in time."""
    deadline = time.monotonic() + within_s
    while not await condition():
        if time.monotonic() > deadline:
            raise StartFailed(f"{what} within {within_s:g} s")
        await asyncio.sleep(0.05)
