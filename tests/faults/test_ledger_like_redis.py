"""The simulated ledger is the real one: the same requests, the same decisions, views, events and indexes."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

import fakeredis._helpers
import fakeredis._socket._base
import fakeredis.commands_mixins.server_mixin
import pytest
from msgspec.structs import replace

from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_counters import RedisCounters
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_urls import parse_ledger_url
from gateway.core import decisions as d
from gateway.core import identity
from gateway.core.conversation import View, Where, Writes
from gateway.core.identity import Kind, Place, Scope
from gateway.core.ports import Counter as Limited
from gateway.core.ports import Page, Swap, Taken
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
    Settle,
    Terms,
)
from gateway.service.deciding import Decider
from tests.faults.counters import SimCounters
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

    confirms = False

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


ASKS = (None, None, Asks(("operator",), 900_000), Asks(("operator", "customer"), 30_000, "Is it meant?"))


def ask(rng: random.Random, token: int) -> Claim:
    turn = rng.choice((None, "t1", "t1", "t2"))
    read = identity.read_arguments({"sku": rng.choice("AAB")})
    mode, on_repeat = rng.choice(list(Mode)), rng.choice(list(OnRepeat))
    submitted = rng.random() < 0.3
    endpoint = "" if submitted else "https://shop.example/"
    return Claim(
        company="acme",
        conversation=rng.choice(("c1", "c1", "c2")),
        tool_call_id=rng.choice("aabc") if not submitted or turn is None or rng.random() < 0.5 else None,
        kind=Kind.TOOL_CALL,
        target="place_order",
        arguments=read,
        fingerprint=identity.fingerprint(Kind.TOOL_CALL, "place_order", read.canonical),
        place=Place(turn, rng.choice((None, 1, 2)) if turn else None, rng.choice((None, 1, 2)) if turn else None),
        scope=Scope.AUTO,
        terms=Terms(mode, on_repeat, 15_000, rng.choice((1, 1, 2)), endpoint, 60_000, KEEP_MS, 40_000),
        token=b"token-%d" % token,
        submitted=submitted,
        asks=rng.choice(ASKS),
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


Held = tuple[Effect, Claim]


async def decide(rng: random.Random, decider: Decider, effect: Effect, claim: Claim, number: int) -> str:
    """Of what is held: what a decision, or the time, makes of it."""
    assert effect.approval is not None
    approval, by = effect.approval.id, rng.choice(("op", "boss"))
    if rng.random() < 0.6:
        decided = replace(claim, token=b"grant-%d" % number, refusal=None, repeat_of=frozenset())
        decision, _ = await decider.grant(Grant(effect.effect_id, approval, by, decided), effect)
    elif rng.random() < 0.5:
        decision, _ = await decider.end(Refuse(effect.effect_id, approval, by, HOLD_MS, KEEP_MS), effect)
    else:
        decision, _ = await decider.end(Expire(effect.effect_id, HOLD_MS, KEEP_MS), effect)
    return type(decision).__name__


async def same_pending(real: RedisLedger, simulated: SimLedger) -> None:
    """7.4: what waits for approval is the same in both."""
    for company in ("acme", "globex"):
        listed = await pages(lambda cursor, company=company: real.pending(company, cursor, 2))
        assert listed == await pages(lambda cursor, company=company: given(simulated.pending(company, cursor, 2)))
        assert not (listed and company == "globex")


async def one_step(
    rng: random.Random, decider: Decider, both: Both, granted: list[Any], held: list[Held], number: int
) -> str:
    if rng.random() < 0.1:
        await decider.withdraw(ask(rng, rng.randrange(number + 1)))
        return ""
    if held and rng.random() < 0.3:
        return await decide(rng, decider, *rng.choice(held[-4:]), number)
    if not granted or rng.random() < 0.5:
        claim = ask(rng, number)
        decision, _ = await decider.claim(claim, likely_new=rng.random() < 0.5)
        granted += [decision.effect] if isinstance(decision, d.Granted) else []
        held += [(decision.effect, claim)] if isinstance(decision, d.Blocked) and decision.effect.approval else []
        return ""
    effect, outcome = rng.choice(granted), rng.choice(OUTCOMES)
    token = effect.tokens[-1]
    ends = (
        Settle(effect.effect_id, token, OUTCOMES[rng.randrange(2)], KEEP_MS),
        Release(effect.effect_id, token, "not sent", KEEP_MS),
        Lose(effect.effect_id, rng.choice((None, token)), "timeout"),
        Resolve(effect.effect_id, outcome, "op", "", KEEP_MS),
        Renew(effect.effect_id, token, 15_000),
    )
    await decider.end(rng.choice(ends), effect)
    return ""


@pytest.mark.parametrize("seed", range(6))
async def test_p4_15_the_simulated_ledger_decides_stamps_and_forgets_as_the_real_one_does(
    seed: int, clock: Clock
) -> None:
    """4.13, 4.15: what is found with the one holds for the other."""
    rng = random.Random(seed)
    client = open_client(parse_ledger_url("memory"))
    commands = Commands(client)
    real, simulated = RedisLedger(commands), SimLedger(clock)
    both, granted, held, decided = Both(real, simulated), [], [], Counter()
    decider = Decider(both, sleep=lambda _: asyncio.sleep(0))  # type: ignore[arg-type]
    try:
        for number in range(160):
            clock.ms += rng.choice((1, 1, 500, 15_000, 61_000) if rng.random() < 0.97 else (2 * KEEP_MS,))
            decided[await one_step(rng, decider, both, granted, held, number)] += 1
            if number % 40 == 0:
                await same_pending(real, simulated)
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
        await same_pending(real, simulated)
        for effect in {effect.effect_id: effect for effect, _ in held}.values():
            for conversation in ("c1", "c2"):
                digest = identity.conversation_digest("acme", conversation)[:2]
                assert await real.named(digest, effect.effect_id[:16]) == simulated.named(digest, effect.effect_id[:16])
        assert granted
        assert held
        assert decided["Granted"] + decided["Approved"] + decided["Settled"]
    finally:
        await commands.close()
        await client.aclose()


@pytest.mark.parametrize("seed", range(4))
async def test_p7_5_the_simulated_counters_count_give_back_and_end_as_the_real_ones_do(seed: int, clock: Clock) -> None:
    """7.5: windows that end, that are made shorter, counts given back late, clocks that jump either way."""
    rng = random.Random(seed)
    client = open_client(parse_ledger_url("memory"))
    commands = Commands(client)
    real, simulated = RedisCounters(commands), SimCounters(SimLedger(clock))
    taken: list[tuple[Limited, Taken]] = []
    answers: Counter[bool] = Counter()
    try:
        for _ in range(300):
            clock.ms += rng.choice((0, 1, 40, 700, 2_500, -3_000) if rng.random() < 0.97 else (3_600_000, -3_600_000))
            if taken and rng.random() < 0.3:
                counter, got = taken.pop(rng.randrange(len(taken)))
                await real.give_back(counter, got)
                simulated.give_back(counter, got)
                continue
            counter = Limited(rng.choice((b"a", b"b")) * 16, rng.choice((1, 1, 2, 7)), 8, rng.choice((2_000, 5_000)))
            got, ours = await real.take(counter), simulated.take(counter)[0]
            assert got == ours
            answers[got.granted] += 1
            taken += [(counter, got)] if got.granted else []
        assert answers[True] > 10
        assert answers[False] > 10
    finally:
        await commands.close()
        await client.aclose()
