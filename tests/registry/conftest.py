"""The registry and what changes it, over an in-memory Redis, with time and randomness by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from gateway.adapters.addresses import check_endpoint
from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_documents import RedisDocuments
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_urls import LedgerUrl
from gateway.adapters.schemas import Schemas
from gateway.core.errors import LedgerUnavailable
from gateway.core.identity import conversation_digest
from gateway.core.model import Company, Principal, Role
from gateway.core.registration import FromFile
from gateway.service.adopt_files import AdoptFiles
from gateway.service.manage_company import ManageCompany
from gateway.service.manage_keys import ManageKeys
from gateway.service.register_tool import RegisterTool
from gateway.service.registry import Registry


class HandClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Numbered:
    """Tokens that are all different and known."""

    def __init__(self) -> None:
        self.made = 0

    def token(self) -> bytes:
        self.made += 1
        return bytes([self.made]) * 16


class Breakable:
    """Documents and Ledger of which either can be taken away; counts what was asked."""

    def __init__(self, documents: RedisDocuments, ledger: RedisLedger) -> None:
        self._documents = documents
        self._ledger = ledger
        self.documents_away = False
        self.ledger_away = False
        self.loads = 0
        self.versions = 0

    async def load(self) -> dict[str, bytes]:
        self.loads += 1
        return await self._documents.load()

    async def version(self) -> int:
        self.versions += 1
        if self.documents_away:
            raise LedgerUnavailable()
        return await self._documents.version()

    async def change(self, name: str, content: bytes | None, expected: bytes | None) -> bool:
        return await self._documents.change(name, content, expected)

    async def append(self, *args: Any) -> None:
        if self.ledger_away:
            raise LedgerUnavailable()
        await self._ledger.append(*args)


@dataclass
class Gateway:
    """One process: its registry and the use cases over it."""

    registry: Registry
    tools: RegisterTool
    companies: ManageCompany
    keys: ManageKeys
    adopt: AdoptFiles


@dataclass
class Place:
    """A ledger that several processes share."""

    stored: Breakable
    ledger: RedisLedger
    clock: HandClock
    randomness: Numbered
    names: dict[str, str] = field(default_factory=dict)

    def gateway(self, **settings: Any) -> Gateway:
        platform = settings.pop("platform_overrides", {})
        registry = Registry(self.stored, self.clock, **settings)
        tools = RegisterTool(
            registry=registry,
            stored=self.stored,
            ledger=self.stored,  # type: ignore[arg-type]
            schemas=Schemas(),
            check_endpoint=self._check,
            clock=self.clock,
            platform_overrides=platform,
        )
        shared = {"registry": registry, "stored": self.stored, "clock": self.clock, "randomness": self.randomness}
        return Gateway(
            registry,
            tools,
            ManageCompany(tools=tools, **shared),
            ManageKeys(**shared),
            AdoptFiles(registry=registry, tools=tools),
        )

    async def events(self, company: str) -> list[tuple[str, dict[str, Any]]]:
        found = await self.ledger.events(conversation_digest(company, ""), 0, 100)
        return [(each.event.type, dict(each.event.data)) for each in found]

    async def _check(self, url: str) -> object:
        return await check_endpoint(url, resolve=self._resolve, allow=(ip_network("127.0.0.0/8"),))

    async def _resolve(self, host: str, port: int) -> list[Any]:
        if host == "nowhere.example":
            raise OSError
        return [ip_address(self.names.get(host, "93.184.216.34"))]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    client = open_client(LedgerUrl(kind="memory"))
    commands = Commands(client, connect_timeout_s=60, command_timeout_s=60)
    ledger = RedisLedger(commands)
    yield Place(Breakable(RedisDocuments(commands), ledger), ledger, HandClock(), Numbered())
    await commands.close()
    await client.aclose()


@pytest.fixture
async def gateway(place: Place) -> Gateway:
    made = place.gateway()
    await made.registry.refresh()
    return made


@pytest.fixture
def merchant() -> Principal:
    return Principal("acme's own", Role.MERCHANT, frozenset({"acme"}), "key_m")


@pytest.fixture
def runtime() -> Principal:
    return Principal("assistant", Role.RUNTIME, frozenset({"acme"}), "key_r")


@pytest.fixture
def operator() -> Principal:
    return Principal("ops", Role.OPERATOR, frozenset({"*"}), "key_o")


@pytest.fixture
def body() -> Callable[..., dict[str, Any]]:
    """A tool's body, with changes."""

    def make(**changes: Any) -> dict[str, Any]:
        return {"endpoint": "https://shop.example/tools", **changes}

    return make


@pytest.fixture
def from_file() -> Callable[..., FromFile]:
    def make(company: str = "acme", **changes: Any) -> FromFile:
        return FromFile(company, f"config/merchants/{company}.toml", **changes)

    return make


@pytest.fixture
def company_of_defaults() -> Company:
    return Company("")
