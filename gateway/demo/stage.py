"""What every story of the demo starts from: a shop, and a gateway that knows its tools."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from gateway.demo.kitchen import count_orders
from gateway.demo.processes import Counting, GatewayProcess, serving
from gateway.demo.shop import create_shop

COMPANY = "dosa-shop"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Stage:
    """The gateway's process, and the shop with a count of what reaches it."""

    gateway: GatewayProcess
    shop: Counting
    database: Path

    def orders(self) -> int:
        """How many orders really exist."""
        return count_orders(self.database)


@contextlib.asynccontextmanager
async def stage(ledger: str, say: Say) -> AsyncIterator[Stage]:
    """Raises GatewayDidNotStart."""
    with tempfile.TemporaryDirectory(prefix="oncegate-demo-") as folder:
        database = Path(folder) / "shop.sqlite3"
        gateway = GatewayProcess(ledger)
        await gateway.start()
        try:
            secret = await _new_secret(gateway.url)
            merchant = create_shop(database, [secret])
            shop = Counting(merchant.asgi())
            async with serving(shop) as shop_url:
                say("")
                say(f"  shop     {shop_url}  SQLite, the merchant SDK: commit before reply")
                say(f"  gateway  {gateway.url}  ledger {ledger}")
                await _register(gateway.url, merchant.manifest(shop_url))
                yield Stage(gateway, shop, database)
        finally:
            await gateway.stop()


async def _new_secret(url: str) -> str:
    made = await _api("POST", f"{url}/v1/companies/{COMPANY}/secrets", None)
    secret: str = made["secret"]
    return secret


async def _register(url: str, manifest: list[dict[str, Any]]) -> None:
    for tool in manifest:
        await _api("PUT", f"{url}/v1/companies/{COMPANY}/tools/{tool.pop('name')}", tool)


async def _api(method: str, url: str, body: Any) -> Any:
    headers = {"Authorization": "Bearer dev", "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(headers=headers, trust_env=False) as session,
        session.request(method, url, json=body) as answer,
    ):
        said = await answer.json(content_type=None)
        if answer.status >= 400:
            raise RuntimeError(f"{method} {url}: {answer.status} {said}")
        return said
