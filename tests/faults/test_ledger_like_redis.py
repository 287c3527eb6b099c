"""The simulated ledger is the real one: the same requests, the same decisions, views, events and indexes."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import fakeredis._helpers
import fakeredis._socket._base
import fakeredis.commands_mixins.server_mixin
import pytest
from msgspec.structs import replace

from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_urls import parse_ledger_url
from gateway.core import decisions as d
from gateway.core import identity
from gateway.core.conversation import View, Where, Writes
from gateway.core.identity import Kind, Place, Scope
from gateway.core.ports import Page, Swap
from gateway.core.record import Fault, Mode, Outcome, Status
from gateway.core.requests import Claim, Lose, OnRepeat, Release, Resolve, Settle, Terms
from gateway.service.deciding import Decider
from tests.faults.ledger import SimLedger

CLOCKS = (fakeredis._helpers, fakeredis._socket._base, fakeredis.commands_mixins.server_mixin)
KEEP_MS = 86_400_000
OUTCOMES = (Outcome(Status.SUCCEEDED, b'"O-1"'), Outcome(Status.FAILED, fault=Fault("merchant_refused", "No.")), None)


class Clock:
    """Stands in for the time module inside fakeredis, and is the simulated ledger's clock."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def __call__(self) -> int:
        return self.ms

    def time(self) -> float:
        return self.ms / 1000

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class Both:
    """A `Ledger` that asks both and lets no difference pass; versions differ, so each keeps its own view."""

    def __init__(self, real: RedisLedger, simulated: SimLedger) -> None:
        self._real, self._simulated = real, simulated
        self._views: dict[int, tuple[View, View]] = {}

    async def read(self, where: Where) -> View:
        return self._same(await self._real.read(where), self._simulated.read(where))

    async def swap(self, where: Where, view: View, writes: Writes) -> Swap:
        own = self._views.get(id(view), (view, view))[1]
        real, simulated = await self._real.swap(where, view, writes), self._simulated.swap(where, own, writes)
        assert real.applied == simulated.applied
        return Swap(real.applied, self._same(real.view, simulated.view))

    def _same(self, real: View, simulated: View) -> View:
        nothing: dict[Any, bytes] = {}
        assert replace(real, versions=nothing) == replace(simulated, versions=nothing)
        stands = [{name for name, version in v.versions.items() if version} for v in (real, simulated)]
        assert stands[0] == stands[1]
        self._views[id(real)] = (real, simulated)
        return real


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in CLOCKS:
        monkeypatch.setattr(module, "time", clock)
    return clock


def ask(rng: random.Random, token: int) -> Claim:
    turn = rng.choice((None, "t1", "t1", "t2"))
    read = identity.read_arguments({"sku": rng.choice("AAB")})
    mode, on_repeat = rng.choice(list(Mode)), rng.choice(list(OnRepeat))
    return Claim(
        company="acme",
        conversation=rng.choice(("c1", "c1", "c2")),
        tool_call_id=rng.choice("aabc"),
        kind=Kind.TOOL_CALL,
        target="place_order",
        arguments=read,
        fingerprint=identity.fingerprint(Kind.TOOL_CALL, "place_order", read.canonical),
        place=Place(turn, rng.choice((None, 1, 2)) if turn else None, rng.choice((None, 1, 2)) if turn else None),
        scope=Scope.AUTO,
        terms=Terms(mode, on_repeat, 15_000, 1, "https://shop.example/", 60_000, KEEP_MS, 40_000),
        token=b"token-%d" % token,
    )


async def given(page: Page) -> Page:
    return page


async def pages(look: Any) -> list[bytes]:
    """What all pages list, from the first to the last."""
    found: list[bytes] = []
    page = await look(None)
    found += [effect.effect_id for effect in page.effects]
    while page.cursor is not None:
        page = await look(page.cursor)
        found += [effect.effect_id for effect in page.effects]
    return sorted(found)


async def one_step(rng: random.Random, decider: Decider, both: Both, granted: list[Any], number: int) -> None:
    if rng.random() < 0.1:
        await decider.withdraw(ask(rng, rng.randrange(number + 1)))
        return
    if not granted or rng.random() < 0.5:
        decision, _ = await decider.claim(ask(rng, number), likely_new=rng.random() < 0.5)
        granted += [decision.effect] if isinstance(decision, d.Granted) else []
        return
    effect, outcome = rng.choice(granted), rng.choice(OUTCOMES)
    token = effect.tokens[-1]
    ends = (
        Settle(effect.effect_id, token, OUTCOMES[rng.randrange(2)], KEEP_MS),
        Release(effect.effect_id, token, "not sent", KEEP_MS),
        Lose(effect.effect_id, rng.choice((None, token)), "timeout"),
        Resolve(effect.effect_id, outcome, "op", "", KEEP_MS),
    )
    await decider.end(rng.choice(ends), effect)


@pytest.mark.parametrize("seed", range(6))
async def test_p4_15_the_simulated_ledger_decides_stamps_and_forgets_as_the_real_one_does(
    seed: int, clock: Clock
) -> None:
    """4.13, 4.15: what is found with the one holds for the other."""
    rng = random.Random(seed)
    client = open_client(parse_ledger_url("memory"))
    commands = Commands(client)
    real, simulated = RedisLedger(commands), SimLedger(clock)
    both, granted = Both(real, simulated), []
    decider = Decider(both, sleep=lambda _: asyncio.sleep(0))  # type: ignore[arg-type]
    try:
        for number in range(160):
            clock.ms += rng.choice((1, 1, 500, 15_000, 61_000) if rng.random() < 0.97 else (2 * KEEP_MS,))
            await one_step(rng, decider, both, granted, number)
        for conversation in ("c1", "c2"):
            digest = identity.conversation_digest("acme", conversation)
            now = [e.event for e in await real.events(digest, 0, 5_000)]
            ours = [e.event for e in simulated.events(digest, 0, 5_000)]
            assert [e.type for e in now] == [e.type for e in ours[len(ours) - len(now) :]]
        listed = await pages(lambda cursor: real.due(2, cursor))
        assert listed == await pages(lambda cursor: given(simulated.due(2, cursor)))
        for company in ("acme", None, "globex"):
            listed = await pages(lambda cursor, company=company: real.unknown(company, cursor, 2))
            ours = await pages(lambda cursor, company=company: given(simulated.unknown(company, cursor, 2)))
            assert listed == ours
            assert not (listed and company == "globex")
        assert granted
    finally:
        await commands.close()
        await client.aclose()
