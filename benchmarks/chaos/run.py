"""One run: rounds of faults under traffic, a calm after every few, and then what must hold is looked at."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.chaos.chains import verify_all
from benchmarks.chaos.checks import Violation, check
from benchmarks.chaos.faults import Breaker
from benchmarks.chaos.plan import Ask
from benchmarks.chaos.sight import Sight, counts, events_of, look, name_of
from benchmarks.chaos.stories import check_stories, story
from benchmarks.chaos.traffic import Answer, Traffic
from benchmarks.chaos.world import LEASE_S, LONGEST_PAUSE_S, SWEPT_S, Direct, World, until

BLOCK: Final = 45
"""Rounds between two calms."""
CALM_S: Final = max(LEASE_S + SWEPT_S, LONGEST_PAUSE_S) + 1.5
"""By then every lease that was running has lapsed and been swept, and what waited for the ledger is recorded."""
CALM_ASKS: Final = 16
READY_WITHIN_S: Final = 120.0

Say = Callable[[str], None]


@dataclass(slots=True)
class Report:
    """What a run did and showed; `stories` are told for the first violations."""

    seed: int
    rounds: int = 0
    blocks: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    bytes_met: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    stories: list[str] = field(default_factory=list)

    @property
    def document(self) -> dict[str, Any]:
        """All of it, fit for JSON."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return found | {"violations": [asdict(each) for each in self.violations]}


async def _nobody(world: World) -> None:
    """Nobody tampers with anything."""


async def chaos(
    folder: Path,
    *,
    seed: int,
    rounds: int,
    seconds: float,
    replicas: int,
    say: Say,
    tamper: Callable[[World], Awaitable[None]] = _nobody,
) -> Report:
    """At most `rounds` rounds in at most about `seconds`, the last calm included. `tamper`: what somebody does to the
    ledger before its event logs are verified, to see that it is noticed. Raises StartFailed."""
    started, report = time.monotonic(), Report(seed)
    with (folder / "faults.log").open("a", buffering=1) as log:
        async with World(folder, seed, replicas) as world:
            breaker = Breaker(world, seed, lambda line: print(line, file=log))
            traffic = Traffic(seed, [replica.url for replica in world.replicas])
            try:
                while report.rounds < rounds and not report.violations:
                    ends = started + seconds - CALM_S - 3.0  # reading it all takes a moment too
                    if report.blocks and time.monotonic() > ends:
                        break
                    traffic.go()
                    await _block(report, breaker, min(rounds, report.rounds + BLOCK), ends)
                    await traffic.pause()
                    await _judge(report, world, breaker, traffic, say, started)
                await _verify(report, world, say, tamper)
            finally:
                await breaker.give_up()
                await traffic.close()
                report.faults, report.seconds = breaker.done, time.monotonic() - started
                for link in world.links:
                    report.bytes_met += link.met
    return report


async def _block(report: Report, breaker: Breaker, last: int, ends: float) -> None:
    first = report.rounds
    while report.rounds < last and (report.rounds - first < 5 or time.monotonic() < ends):
        report.rounds += 1
        await breaker.round()


async def _judge(report: Report, world: World, breaker: Breaker, traffic: Traffic, say: Say, started: float) -> None:
    """Calm everything, ask every call once more, look, check."""
    report.blocks += 1
    await breaker.all_mended()
    for link in world.links:
        link.calm = True
        link.let_go()
    asks = [ask for each in traffic.scripts for ask in each.asks]
    async with Direct(world.replicas[0].direct) as api:
        await until(lambda: _all_ready(world), READY_WITHIN_S, "not every gateway was ready")
        await asyncio.sleep(CALM_S)
        early = await events_of(api, asks)
        calm = await _ask_again(world, traffic, asks)
        sight = await look(world, api, asks, traffic.answers + calm, early)
    found = [*check(sight), *check_stories(sight)]
    for name in list(dict.fromkeys(each.intent for each in found))[:5]:
        report.stories.append(story(sight, name))
    report.violations += found
    report.figures += figures(sight)
    report.figures["requests"] = traffic.requests
    n = report.figures
    say(
        f"  {time.monotonic() - started:4.0f} s  {report.rounds} rounds: {breaker.kills} kills, {breaker.stops} stops, "
        f"{n['intents']} intended calls, {n['requests']} requests, {n['sends']} sends, "
        f"{n['unknown']} unknown: {'VIOLATED' if found else 'all as promised'}"
    )
    for link in world.links:
        link.calm = False


async def _verify(report: Report, world: World, say: Say, tamper: Callable[[World], Awaitable[None]]) -> None:
    """The event logs of the whole run, once it is over and everything is up."""
    for link in world.links:
        link.calm = True
    await until(lambda: _all_ready(world), READY_WITHIN_S, "not every gateway was ready")
    await tamper(world)
    found = await verify_all(world.replicas[-1].direct, world.merchants)
    report.violations += found.wrong
    report.figures["logs_verified"], report.figures["events_verified"] = found.logs, found.events
    say(
        f"  {found.events} sealed events in {found.logs} logs: "
        f"{'VIOLATED' if found.wrong else 'none is missing or changed'}"
    )


async def _all_ready(world: World) -> bool:
    return all(await asyncio.gather(*(replica.server.ready() for replica in world.replicas)))


async def _ask_again(world: World, traffic: Traffic, asks: list[Ask]) -> list[Answer]:
    """Every call once, without a link between; one conversation's calls go one after another."""
    bound = asyncio.Semaphore(CALM_ASKS)
    by_conversation: dict[str, list[Ask]] = {}
    for ask in asks:
        by_conversation.setdefault(ask.intent.conversation, []).append(ask)

    async def each(number: int, some: list[Ask]) -> list[Answer]:
        replica = world.replicas[number % len(world.replicas)]
        async with bound:
            return [
                await traffic.ask(ask, replica.direct, replica.server.log.parent.name, 30.0, calm=True) for ask in some
            ]

    answered = await asyncio.gather(*(each(n, some) for n, some in enumerate(by_conversation.values())))
    return [answer for some in answered for answer in some]


def figures(sight: Sight) -> Counter[str]:
    """What happened in a block, in numbers."""
    reached = {row["key"] for row in sight.arrivals}
    decisions = Counter(str(each.body.get("decision")) for each in sight.answers if each.status == 200)
    codes = Counter(str(each.body.get("code")) for each in sight.answers if each.status not in (0, 200))
    unknown = [effect for effect, record in sight.records.items() if record["status"] == "indeterminate"]
    late = sum(bool(event.get("late")) for events in sight.events.values() for event in events)
    return Counter(
        {
            "intents": len(sight.intents),
            "conversations": len({ask.intent.conversation for ask in sight.asks}),
            "events_sealed": sum(seal["sealed"] for seal in sight.seals.values()),
            "sends": len(sight.arrivals),
            "orders": len(sight.orders),
            "replays": decisions["replay"],
            "blocked": decisions["blocked"],
            "denied": decisions["denied"],
            "no_answer": sum(each.status == 0 for each in sight.answers),
            "unknown": len(unknown),
            "unknown_that_happened": len({row["key"] for row in sight.orders} & set(unknown)),
            "unknown_never_sent": sum(effect not in reached for effect in unknown),
            "settled_late": late,
            "conflicts": sum(e["type"] == "effect.conflict" for events in sight.events.values() for e in events),
            "unrecorded": sum(
                each.body.get("recorded") is False and each.body.get("decision") == "proceed" for each in sight.answers
            ),
            "intended_and_done": len({name_of(row) for row in sight.orders}),
            "sends_counted": sum(counts(row) for row in sight.arrivals),
            **{f"problem_{code}": count for code, count in codes.items()},
            **{f"because_{reason}": count for reason, count in _reasons(sight, set(unknown)).items()},
        }
    )


def _reasons(sight: Sight, unknown: set[str]) -> Counter[str]:
    """Why outcomes stay unknown, by the last event that says so."""
    last = {
        event["effect_id"]: str(event.get("reason"))
        for events in sight.events.values()
        for event in events
        if event["type"] == "effect.indeterminate" and event["effect_id"] in unknown
    }
    return Counter(last.values())
