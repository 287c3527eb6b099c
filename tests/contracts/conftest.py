"""One bench over three ledgers: `memory` (fakeredis), a real redis-server on a Unix socket, and a cluster of three."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "clusters"))

from cluster_processes import Cluster

from gateway.adapters.ledger_keys import Bucket
from gateway.adapters.redis_clients import connector, open_client
from gateway.adapters.redis_cluster import ClusterCommands
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_seals import RedisSeals
from gateway.adapters.redis_urls import LedgerUrl, parse_ledger_url
from gateway.core import identity
from gateway.core.event_types import unlisted
from gateway.core.identity import Kind, Place, Scope
from gateway.core.record import Effect, Fault, Mode, Outcome, Status
from gateway.core.requests import (
    HOLD_MS,
    Asks,
    Claim,
    Expire,
    Grant,
    Lose,
    OnRepeat,
    Refuse,
    Release,
    Renew,
    Resolve,
    Ruled,
    Settle,
    Terms,
)
from gateway.service.deciding import Decider

DAY_MS = 86_400_000
ORDER = {"sku": "A", "qty": 1}
SUCCESS = Outcome(Status.SUCCEEDED, b'"MO-1"')
FAILURE = Outcome(Status.FAILED, fault=Fault("merchant_refused", "No."))


class Counted:
    """Counts what goes over the wire, and may drop what comes back."""

    def __init__(self, commands: Commands | ClusterCommands) -> None:
        self._commands = commands
        self.one_server = commands.one_server
        self.unpacks = commands.unpacks
        self.sent: list[tuple[Any, ...]] = []

    async def do(self, *args: Any) -> Any:
        self.sent.append(args)
        return await self._commands.do(*args)

    async def do_together(self, *commands: tuple[Any, ...]) -> list[Any]:
        self.sent += commands
        return await self._commands.do_together(*commands)


class Bench:
    """The real decider over a real ledger, and short words for what a call and its holder do."""

    def __init__(self, commands: Commands | ClusterCommands, kind: str) -> None:
        self.kind = kind
        self._commands = commands
        self.wire = Counted(commands)
        self.ledger = RedisLedger(self.wire)  # type: ignore[arg-type]
        self.decider = Decider(self.ledger)
        self.seals = RedisSeals(self.wire)  # type: ignore[arg-type]
        self._tokens = itertools.count(1)

    def ask(
        self,
        call: str | None = "call_1",
        arguments: Any = ORDER,
        *,
        tool: str = "place_order",
        company: str = "acme",
        conversation: str = "c-1",
        turn: str | None = None,
        step: int | None = None,
        attempt: int | None = None,
        scope: Scope = Scope.AUTO,
        kind: Kind = Kind.TOOL_CALL,
        mode: Mode = Mode.AT_MOST_ONCE,
        on_repeat: OnRepeat = OnRepeat.HOLD,
        lease_ms: int = 60_000,
        window_ms: int = 60_000,
        keep_ms: int = 30 * DAY_MS,
        hold_ms: int = HOLD_MS,
        version: int = 1,
        endpoint: str = "https://shop.example/tools",
        token: bytes | None = None,
        **more: Any,
    ) -> Claim:
        read = identity.read_arguments(arguments)
        return Claim(
            company=company,
            conversation=conversation,
            tool_call_id=call,
            kind=kind,
            target=tool,
            arguments=read,
            fingerprint=identity.fingerprint(kind, tool, read.canonical),
            place=Place(turn, step, attempt),
            scope=scope,
            terms=Terms(mode, on_repeat, lease_ms, version, endpoint, window_ms, keep_ms, hold_ms),
            token=token or b"token-%010d" % next(self._tokens),
            **more,
        )

    async def claim(self, *args: Any, **more: Any) -> Any:
        """The decision on a call made as `ask` makes it."""
        decision, _ = await self.decider.claim(self.ask(*args, **more))
        return decision

    async def again(self, request: Claim) -> Any:
        decision, _ = await self.decider.claim(request)
        return decision

    def submission(self, call: str | None = None, arguments: Any = ORDER, **more: Any) -> Claim:
        """An effect that whoever asks runs (7.2); a model call in attempt 1 of turn t-1 unless told otherwise."""
        usual = {"kind": Kind.LLM_CALL, "tool": "a-model", "turn": "t-1", "attempt": 1, "mode": Mode.SAFE_TO_RETRY}
        wanted = {"on_repeat": OnRepeat.RUN, "endpoint": "", **usual, **more}
        request = self.ask(call, arguments, submitted=True, seed=b"seed-%011d" % next(self._tokens), **wanted)
        scope = request.scope if call is not None else Scope.CONVERSATION
        return msgspec.structs.replace(request, scope=scope)

    async def submit(self, call: str | None = None, arguments: Any = ORDER, **more: Any) -> Any:
        return await self.again(self.submission(call, arguments, **more))

    async def grant(self, held: Effect, request: Claim, by: str = "ops", *, approval: bytes | None = None) -> Any:
        """`request`: the held call as it would be asked now, which is judged anew."""
        assert held.approval is not None
        asked = Grant(held.effect_id, approval or held.approval.id, by, request)
        decision, _ = await self.decider.grant(asked, held)
        return decision

    async def deny(self, held: Effect, by: str = "ops", *, hold_ms: int = HOLD_MS) -> Any:
        assert held.approval is not None
        return await self._end(Refuse(held.effect_id, held.approval.id, by, hold_ms, 30 * DAY_MS), held)

    async def expire(self, held: Effect, *, hold_ms: int = HOLD_MS) -> Any:
        """What the sweeper asks."""
        return await self._end(Expire(held.effect_id, hold_ms, 30 * DAY_MS), held)

    async def renew(self, effect: Effect, *, token: bytes | None = None, lease_ms: int = 60_000) -> Any:
        return await self._end(Renew(effect.effect_id, token or effect.tokens[-1], lease_ms), effect)

    async def settle(
        self, effect: Effect, outcome: Outcome = SUCCESS, *, token: bytes | None = None, keep_ms: int = 30 * DAY_MS
    ) -> Any:
        return await self._end(Settle(effect.effect_id, token or effect.tokens[-1], outcome, keep_ms), effect)

    async def release(self, effect: Effect, *, token: bytes | None = None) -> Any:
        return await self._end(Release(effect.effect_id, token or effect.tokens[-1], "not sent", 30 * DAY_MS), effect)

    async def lose(self, effect: Effect, *, token: bytes | None = None) -> Any:
        return await self._end(Lose(effect.effect_id, token or effect.tokens[-1], "timeout"), effect)

    async def lapse(self, effect: Effect) -> Any:
        return await self._end(Lose(effect.effect_id, None, "lease lapsed"), effect)

    async def told(self, effect: Effect, outcome: Outcome) -> Any:
        """The merchant's status endpoint said so."""
        asked = Resolve(effect.effect_id, outcome, "merchant", "", 30 * DAY_MS, said_by_merchant=True)
        return await self._end(asked, effect)

    async def events(self, company: str = "acme", conversation: str = "c-1") -> list[Any]:
        """The conversation's events, in order."""
        digest = identity.conversation_digest(company, conversation)
        found = [logged.event for logged in await self.ledger.events(digest, 0, 10_000)]
        assert [each for event in found for each in unlisted(event.type, event.data)] == [], "7.6: not in the taxonomy"
        return found

    async def resolve(self, effect: Effect, outcome: Outcome | None) -> Any:
        return await self._end(Resolve(effect.effect_id, outcome, "ops", "seen in the shop", 30 * DAY_MS), effect)

    async def run(self, *args: Any, outcome: Outcome = SUCCESS, **more: Any) -> Effect:
        """A call that is granted and settled."""
        granted = await self.claim(*args, **more)
        assert type(granted).__name__ == "Granted", granted
        settled = await self.settle(granted.effect, outcome, keep_ms=more.get("keep_ms", 30 * DAY_MS))
        return settled.effect

    async def lost(self, *args: Any, **more: Any) -> Effect:
        """A call that is granted and whose outcome stays unknown."""
        granted = await self.claim(*args, **more)
        assert type(granted).__name__ == "Granted", granted
        return (await self.lose(granted.effect)).effect

    def conversation(self) -> bytes:
        return identity.conversation_digest("acme", "c-1")

    def ending(self, effect: Effect) -> Settle:
        return Settle(effect.effect_id, effect.tokens[-1], SUCCESS, 30 * DAY_MS)

    def releasing(self, effect: Effect) -> Release:
        return Release(effect.effect_id, effect.tokens[-1], "not sent", 30 * DAY_MS)

    def losing(self, effect: Effect) -> Lose:
        return Lose(effect.effect_id, effect.tokens[-1], "timeout")

    async def record(self, effect: Effect) -> Effect | None:
        view = await self.ledger.read(
            self.ask(company=effect.company, conversation=effect.conversation).where([effect.effect_id])
        )
        return view.effects[effect.effect_id]

    async def types(self, company: str = "acme", conversation: str = "c-1") -> list[str]:
        """The types of the conversation's events, in order."""
        digest = identity.conversation_digest(company, conversation)
        return [logged.event.type for logged in await self.ledger.events(digest, 0, 10_000)]

    async def ttls(self) -> dict[str, list[int]]:
        """What is left of every key's life in ms (-1: it has no end), by the letter of its kind; without the sets of
        logs to be sealed, which are emptied by sealing (test_event_seals)."""
        found: dict[str, list[int]] = {}
        for key in await self.keys():
            if key[8:] != b"Q":
                found.setdefault(chr(key[8]), []).append(await self.wire.do("PTTL", key))
        return found

    async def keys(self) -> list[bytes]:
        """Every key, wherever it lies."""
        return [key for server in await servers(self._commands) for key in await server.do("KEYS", "*")]

    async def forget_scripts(self) -> None:
        for server in await servers(self._commands):
            await server.do("SCRIPT", "FLUSH")

    async def _end(self, request: Any, effect: Effect) -> Any:
        decision, _ = await self.decider.end(request, effect)
        return decision


async def servers(commands: Commands | ClusterCommands) -> list[Commands]:
    """A front to each server that keeps a part of the ledger."""
    return [commands] if isinstance(commands, Commands) else [each.front for each in await commands.primaries()]


class MovableTime:
    """Stands in for the time module inside fakeredis."""

    def __init__(self) -> None:
        self._ms = int(time.time() * 1000)

    def time(self) -> float:
        """In the middle of a millisecond, so that no rounding makes it another one."""
        return (self._ms + 0.5) / 1000

    def advance(self, ms: int) -> None:
        self._ms += ms

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@pytest.fixture(scope="session")
def redis_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A redis-server of this test process alone; it keeps nothing on disk."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("no redis-server or valkey-server on PATH")
    folder = tmp_path_factory.mktemp("redis")
    socket = folder / "s"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    server = subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if "ready to accept connections" in line.lower():
                break
        else:
            pytest.fail("redis-server did not start")
        yield socket
    finally:
        server.terminate()
        server.communicate(timeout=20)


@pytest.fixture
def memory_time(monkeypatch: pytest.MonkeyPatch) -> MovableTime:
    """The clock of the `memory` ledger, for tests in which time passes."""
    clock = MovableTime()
    for module in ("_helpers", "_socket._base", "commands_mixins.server_mixin"):
        monkeypatch.setattr(f"fakeredis.{module}.time", clock)
    return clock


@pytest.fixture
async def memory_bench(memory_time: MovableTime) -> AsyncIterator[Bench]:
    client = open_client(parse_ledger_url("memory"))
    commands = Commands(client, connect_timeout_s=60, command_timeout_s=60)
    yield Bench(commands, "memory")
    await commands.close()
    await client.aclose()


@pytest.fixture
async def redis_bench(redis_socket: Path) -> AsyncIterator[Bench]:
    client = open_client(LedgerUrl.for_socket(redis_socket))
    commands = Commands(client, connect_timeout_s=60, command_timeout_s=60)
    await commands.do("FLUSHALL")
    yield Bench(commands, "redis")
    await commands.close()
    await client.aclose()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("no redis-server or valkey-server on PATH")
    started = Cluster(program, tmp_path_factory.mktemp("cluster"))
    try:
        started.start()
        yield started
    finally:
        started.end()


@pytest.fixture
async def cluster_bench(cluster: Cluster) -> AsyncIterator[Bench]:
    url = parse_ledger_url(cluster.url)
    commands = ClusterCommands(connector(url), url.nodes)
    for server in await servers(commands):
        await server.do("FLUSHALL")
    yield Bench(commands, "redis")
    await commands.close()


@pytest.fixture(params=["memory", "redis", pytest.param("cluster", marks=pytest.mark.slow)])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Each test over all ledgers."""
    found: Bench = request.getfixturevalue(f"{request.param}_bench")
    return found


@pytest.fixture
def bucket() -> Bucket:
    """The keys of the bench's usual conversation."""
    return Bucket.of(identity.conversation_digest("acme", "c-1"))


@pytest.fixture
def asks() -> Callable[..., dict[str, Any]]:
    """What makes `ask` and `submission` a call that a rule wants approved."""

    def made(*approvers: str, timeout_ms: int = 900_000, rule: str = "large", bundle: str = "b1") -> dict[str, Any]:
        return {"asks": Asks(approvers or ("operator",), timeout_ms), "ruled": Ruled(bundle, rule)}

    return made


@pytest.fixture
def outcomes() -> SimpleNamespace:
    return SimpleNamespace(success=SUCCESS, failure=FAILURE)
