"""A gateway without sockets: the real service and core over an in-memory ledger, and a merchant that counts."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_counters import RedisCounters
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_urls import parse_ledger_url
from gateway.core.answer import Answer
from gateway.core.model import Company, Principal, Role, SigningSecret, Tool
from gateway.core.outcome import Reason, Seen, SeenKind
from gateway.core.policy import Bundle
from gateway.core.ports import MerchantRequest
from gateway.service.asking import Asking, Pace
from gateway.service.call_request import CallRequest
from gateway.service.claims import CallLimits
from gateway.service.deciding import Decider
from gateway.service.desk import Desk, open_desk
from gateway.service.handle_call import HandleCall
from gateway.service.look_up import LookUp
from gateway.service.reading import Reading
from gateway.service.replay_notes import ReplayNotes
from gateway.service.resolve_unknown import ResolveUnknown
from gateway.service.running import Running
from gateway.service.sending import Sending, Trace
from gateway.service.settled_answers import SettledAnswers
from gateway.service.status_question import StatusQuestion
from gateway.service.sweep import Sweep
from gateway.service.waiting import Waiting
from heuristics import classify

Behaviour = Callable[[MerchantRequest], Awaitable[Seen] | Seen]


def reply(status: int = 200, body: Any = None, content_type: str = "application/json") -> Seen:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Seen(SeenKind.REPLY, Reason.REPLIED, True, status, content_type, None, "", raw)


NO_CONNECTION = Seen(SeenKind.NOT_CONNECTED, Reason.CONNECT_FAILED, False)
TIMED_OUT = Seen(SeenKind.TIMEOUT, Reason.TIMED_OUT, True)
RESET = Seen(SeenKind.BROKEN, Reason.CONNECTION_LOST, True)


class VirtualClock:
    """Time that passes only when someone sleeps."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000) + 1_700_000_000_000

    async def sleep(self, seconds: float) -> None:
        # Those who sleep side by side wake side by side: time does not pass once for each of them.
        wake = self.now + seconds
        for _ in range(10):
            await asyncio.sleep(0)
        self.now = max(self.now, wake)


class Tokens:
    """No two alike, also between gateways."""

    numbers = itertools.count(1)

    def token(self) -> bytes:
        return next(self.numbers).to_bytes(16, "big")


class CountingMerchant:
    """Answers as told, and remembers every request it was sent."""

    def __init__(self) -> None:
        self.requests: list[MerchantRequest] = []
        self.deadlines: list[float] = []
        """The seconds that each request was given, as this port was told."""
        self.behave: Behaviour = lambda _: reply(body={"order": f"O-{len(self.requests)}"})

    async def send(self, request: MerchantRequest, *, deadline_s: float) -> Seen:
        self.requests.append(request)
        self.deadlines.append(deadline_s)
        seen = self.behave(request)
        return seen if isinstance(seen, Seen) else await seen

    async def reached(self, hits: int = 1) -> None:
        """Until so many requests came; a call that never sends one is a failed test, not a hung one."""
        for _ in range(10_000):
            if self.hits >= hits:
                return
            await asyncio.sleep(0)
        raise AssertionError("nothing was sent")

    @property
    def hits(self) -> int:
        return len(self.requests)

    def header(self, place: int, name: str) -> str | None:
        return dict(self.requests[place].headers).get(name)


@dataclass
class Shelf:
    """A registry that is told what to hold."""

    companies: dict[str, Company] = field(default_factory=dict)
    shelf: dict[tuple[str, str], Tool] = field(default_factory=dict)
    without_secret: set[str] = field(default_factory=set)
    """Companies whose last signing secret is retired."""
    platform_policy: Bundle | None = None
    policies: dict[str, Bundle] = field(default_factory=dict)

    async def refresh(self) -> None:
        return None

    def company(self, name: str) -> Company:
        return self.companies.get(name, Company(name))

    def tool(self, company: str, name: str) -> Tool | None:
        return self.shelf.get((company, name))

    def tools(self, company: str) -> list[Tool]:
        return [tool for (owner, _), tool in self.shelf.items() if owner == company]

    def policy(self, company: str) -> Bundle | None:
        return self.policies.get(company)

    def secrets(self, company: str) -> list[SigningSecret]:
        if company in self.without_secret:
            return []
        return [SigningSecret("s1", "whsec_" + "c2VjcmV0" * 4)]

    def nearest_tools(self, company: str, name: str) -> list[str]:
        return sorted(tool for owner, tool in self.shelf if owner == company)[:3]

    def put(self, company: str, name: str, **fields: Any) -> Tool:
        version = fields.pop("version", 1)
        tool = Tool(company, name, version, f"https://{company}.example/tools", classify(name), **fields)
        self.shelf[company, name] = tool
        return tool


class NoSchemas:
    def problems(self, tool: Tool, value: Any) -> list[dict[str, str]]:
        needed = tool.parameters.get("required", [])
        return [{"field": f"/arguments/{n}", "problem": "is required"} for n in needed if n not in value]


@dataclass
class World:
    """One gateway, or several over one ledger."""

    commands: Commands
    ledger: RedisLedger
    shelf: Shelf
    merchant: CountingMerchant
    clock: VirtualClock
    background: set[asyncio.Task[None]]
    handle: HandleCall
    look_up: LookUp
    sweep: Sweep
    decider: Decider
    asking: Asking
    said: list[str]
    """What status endpoints said, in order."""
    resolve: ResolveUnknown
    conflicts: list[str]
    """What late successes contradicted, as the metric counts them."""
    desk: Desk

    async def call(self, **fields: Any) -> Answer:
        request = {
            "company": "shop1",
            "conversation": "c1",
            "tool": "create_order",
            "arguments": {"sku": "A"},
            **fields,
        }
        principal = Principal("rt", Role.RUNTIME, frozenset({request["company"]}), "k1")
        return await self.handle(principal, CallRequest(**request), Trace("req-1"))

    async def settle_background(self) -> None:
        while self.background:
            await asyncio.gather(*self.background)

    def another_gateway(self, clock: VirtualClock | None = None, schemas: Any = None) -> World:
        return build(self.commands, self.ledger, self.shelf, self.merchant, clock or self.clock, schemas)


def build(
    commands: Commands,
    ledger: RedisLedger,
    shelf: Shelf,
    merchant: CountingMerchant,
    clock: VirtualClock,
    schemas: Any = None,
) -> World:
    background: set[asyncio.Task[None]] = set()

    def spawn(work: Any) -> None:
        task = asyncio.ensure_future(work)
        background.add(task)
        task.add_done_callback(background.discard)

    def sign(secrets: Any, message_id: str, timestamp_s: int, body: bytes) -> list[tuple[str, str]]:
        return [("webhook-id", message_id), ("webhook-timestamp", str(timestamp_s))]

    conflicts: list[str] = []
    decider = Decider(ledger, count_conflict=conflicts.append, on_unknown=lambda effect: asking.became_unknown(effect))
    tokens, waiting = Tokens(), Waiting(clock)
    said: list[str] = []
    asking = Asking(
        ledger=ledger,
        registry=shelf,  # type: ignore[arg-type]
        question=StatusQuestion(
            merchant=merchant,
            sign=sign,
            registry=shelf,  # type: ignore[arg-type]
            ledger=ledger,
            decider=decider,
            clock=clock,
            randomness=tokens,
            result_cap=1_048_576,
            count=lambda each: said.append(each.value),
        ),
        clock=clock,
        jitter=lambda: 0.5,
        pace=Pace(first_s=1.0, longest_s=60.0, at_once=8),
    )
    settled = SettledAnswers(clock)
    sending = Sending(merchant, sign, clock, result_cap=1_048_576)
    running = Running(
        decider=decider,
        sending=sending,
        registry=shelf,  # type: ignore[arg-type]
        waiting=waiting,
        settled=settled,
        clock=clock,
        lease_margin_s=5.0,
        spawn=spawn,
    )
    reading = Reading(sending, shelf, clock, tokens)  # type: ignore[arg-type]
    notes = ReplayNotes(ledger, clock, spawn)
    desk = open_desk(
        registry=shelf,  # type: ignore[arg-type]
        ledger=ledger,
        counters=RedisCounters(commands),
        decider=decider,
        running=running,
        reading=reading,
        waiting=waiting,
        asking=asking,
        notes=notes,
        settled=settled,
        schemas=schemas or NoSchemas(),
        clock=clock,
        randomness=tokens,
        limits=CallLimits(),
        result_cap=1_048_576,
    )
    sweep = Sweep(ledger, decider, waiting, notes, clock)
    resolve = ResolveUnknown(registry=shelf, ledger=ledger, decider=decider, waiting=waiting, result_cap=1_048_576)  # type: ignore[arg-type]
    return World(
        commands,
        ledger,
        shelf,
        merchant,
        clock,
        background,
        desk.handle_call,
        LookUp(ledger),
        sweep,
        decider,
        asking,
        said,
        resolve,
        conflicts,
        desk,
    )


@asynccontextmanager
async def _open_world() -> AsyncIterator[World]:
    client = open_client(parse_ledger_url("memory"))
    commands = Commands(client, connect_timeout_s=60, command_timeout_s=60)
    shelf = Shelf()
    for name in ("create_order", "cancel_order", "add_to_cart", "list_orders", "get_menu", "redeem_code"):
        shelf.put("shop1", name)
    shelf.put("shop2", "create_order")
    world = build(commands, RedisLedger(commands), shelf, CountingMerchant(), VirtualClock())
    yield world
    await world.settle_background()
    await commands.close()
    await client.aclose()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with _open_world() as opened:
        yield opened


@pytest.fixture
def open_world() -> Callable[[], AbstractAsyncContextManager[World]]:
    """For tests that need one world an example."""
    return _open_world


class LedgerTime:
    """Stands in for the time module inside the in-memory ledger: stands still until told."""

    def __init__(self) -> None:
        self.now_ms = 1_790_000_000_000

    def time(self) -> float:
        return self.now_ms / 1000

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@pytest.fixture
def ledger_time(monkeypatch: pytest.MonkeyPatch) -> LedgerTime:
    """The ledger's clock, which is neither of the gateway's two."""
    clock = LedgerTime()
    for module in ("_helpers", "_socket._base", "commands_mixins.server_mixin"):
        monkeypatch.setattr(f"fakeredis.{module}.time", clock)
    return clock


@pytest.fixture
def silent() -> Callable[[MerchantRequest], Awaitable[Seen]]:
    """A merchant that never answers."""

    async def never(_: MerchantRequest) -> Seen:
        await asyncio.Event().wait()
        raise AssertionError("it answered")

    return never


@pytest.fixture
def turn_read_only(retag: Callable[..., Tool]) -> Callable[..., Tool]:
    """A tool that was side-effecting is declared read-only, and is looked up for an hour yet (3.6)."""

    def change(world: World, name: str, *, protected_ms: int = 3_600_000, **fields: Any) -> Tool:
        until = world.clock.wall_ms() + protected_ms
        verdict = classify("get_menu")
        return retag(world, name, verdict=verdict, protected_until_ms=until, **fields)

    return change


@pytest.fixture
def kill() -> Callable[..., Awaitable[None]]:
    """Start a call at a merchant that never answers, and let its worker die once the request is out."""

    async def start_and_kill(world: World, **call: Any) -> None:
        sent = world.merchant.hits
        dying = asyncio.ensure_future(world.call(**call))
        while world.merchant.hits == sent:
            assert not dying.done(), dying
            await asyncio.sleep(0)
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)

    return start_and_kill


@pytest.fixture
def seen() -> dict[str, Any]:
    """What a merchant may be seen to do."""
    return {"reply": reply, "no_connection": NO_CONNECTION, "timed_out": TIMED_OUT, "reset": RESET}


@pytest.fixture
def retag() -> Callable[..., Tool]:
    """A registered tool with some of its declarations changed."""

    def change(world: World, name: str, **fields: Any) -> Tool:
        tool = replace(world.shelf.shelf["shop1", name], **fields)
        world.shelf.shelf["shop1", name] = tool
        return tool

    return change
