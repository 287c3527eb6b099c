"""One bench: everything started, slices interleaved, medians taken."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.bench.cpu import Pinning, cpu_seconds, machine_busy_s
from benchmarks.bench.load import Load, LoadFailed
from benchmarks.bench.machine import machine
from benchmarks.bench.subjects import CONCURRENT, PROXY, Subject, Where, subjects
from benchmarks.bench.traffic import COMPANY, MENU, ORDER, RULED, RULES, SCHEMA
from benchmarks.processes import DEV_KEY, LOOPBACK, ROOT, Gateway, RedisServer, Server, free_port

Again = Callable[[], Awaitable[tuple["RedisServer", list[Subject]]]]
"""Starts another gateway, with a ledger of its own; gives what is measured there."""

_SETTLE_S: Final = 0.05
"""What a slice has left behind (notes of replays) is finished, and counted, before the next begins."""
_NEVER_S: Final = 3_600
"""Events are sealed some seconds after a call, while something else is measured. So the gateway of the slices seals
nothing, and another one shows what sealing costs, between slices of its own."""
_SEAL_AFTER_S: Final = 1.0
_SEALED_S: Final = 2 * _SEAL_AFTER_S + 0.2
_IDLE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure. `warm_s` before each slice is not counted; `looks` are at what is done later."""

    rounds: int
    slice_s: float
    warm_s: float
    looks: int


FULL: Final = Plan(rounds=8, slice_s=0.5, warm_s=0.15, looks=3)
QUICK: Final = Plan(rounds=2, slice_s=0.3, warm_s=0.1, looks=1)


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of one subject. CPU in microseconds a call."""

    cpu_us: float
    redis_us: float
    per_s: float
    p50_ms: float
    calls: int


@dataclass(frozen=True, slots=True)
class Later:
    """What a call leaves to be done seconds after it was answered: its events are sealed. CPU in microseconds."""

    cpu_us: float = 0.0
    redis_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """A subject at one concurrency: medians over its slices, with what is done later, of which `later_us` is the CPU.
    `spread` is half the range of the middle half of its CPU figures, as a part of the median; `ratio` is CPU to the
    plain proxy's at the same concurrency."""

    subject: str
    concurrent: int
    cpu_us: float
    later_us: float
    spread: float
    redis_us: float
    per_s: float
    p50_ms: float
    ratio: float
    calls: int


@dataclass(frozen=True, slots=True)
class Bench:
    """A whole run."""

    results: list[Result]
    machine: dict[str, str]
    settings: dict[str, Any]

    def result(self, subject: str, concurrent: int) -> Result:
        return next(each for each in self.results if (each.subject, each.concurrent) == (subject, concurrent))


async def bench(
    folder: Path, plan: Plan, pinned: Pinning, say: Callable[[str], None], *, fsync: str = "everysec"
) -> Bench:
    """`fsync`: how the ledger's Redis syncs its append-only file. Raises StartFailed, LoadFailed."""
    if pinned.rest is not None:
        os.sched_setaffinity(0, pinned.rest)
    async with _everything(folder, pinned, fsync) as (redis, found, again):
        busy, steal, started = *machine_busy_s(), time.monotonic()
        ours = [redis.pid, os.getpid(), *{subject.pid for subject in found}]
        ours_before = sum(map(cpu_seconds, ours))
        slices: dict[tuple[str, int], list[Slice]] = {}
        for number in range(plan.rounds):
            for concurrent, subject in itertools.product(CONCURRENT, found):
                measured = await _slice(subject, concurrent, redis.pid, plan)
                slices.setdefault((subject.name, concurrent), []).append(measured)
            say(f"round {number + 1} of {plan.rounds}")
        later = await _afterwards(again, plan, say)
        seconds = (time.monotonic() - started) * (os.cpu_count() or 1)
        after, steal_after = machine_busy_s()
        others = (after - busy) - (sum(map(cpu_seconds, ours)) - ours_before)
        settings = {
            "rounds": plan.rounds,
            "slice_s": plan.slice_s,
            "warm_s": plan.warm_s,
            "cpu_of_code_under_test": _cpus(pinned.tested),
            "cpu_of_the_rest": _cpus(pinned.rest),
            "appendfsync": fsync,
            "work_of_others_percent": round(100 * max(0.0, others) / seconds, 1),
            "taken_by_the_host_percent": round(100 * (steal_after - steal) / seconds, 1),
        }
        return Bench(_results(slices, later), machine(redis.program), settings)


@contextlib.asynccontextmanager
async def _everything(
    folder: Path, pinned: Pinning, fsync: str
) -> AsyncIterator[tuple[RedisServer, list[Subject], Again]]:
    env = {"PYTHONPATH": str(ROOT)}
    async with contextlib.AsyncExitStack() as stack:
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.bench.merchant", str(port)]
        merchant = Server("merchant", command, log=folder / "merchant.log", port=port, cpus=pinned.rest, env=env)
        await stack.enter_async_context(merchant)
        endpoint = f"http://{LOOPBACK}:{port}/tools"
        proxy_port = free_port()
        command = [
            *(sys.executable, "-m", "uvicorn", "benchmarks.bench.proxy:app", "--host", LOOPBACK),
            *("--port", str(proxy_port), "--http", "httptools", "--loop", "uvloop"),
            *("--no-access-log", "--log-level", "warning"),
        ]
        env = {**env, "BENCH_MERCHANT": endpoint}
        proxy = Server("proxy", command, log=folder / "proxy.log", port=proxy_port, cpus=pinned.tested, env=env)
        await stack.enter_async_context(proxy)

        async def gateway(name: str, seal_after_s: float) -> tuple[RedisServer, list[Subject]]:
            redis = RedisServer(folder / f"redis-{name}", fsync=fsync, rewrite=False, cpus=pinned.rest)
            await stack.enter_async_context(redis)
            settings = {"ONCEGATE_EVENTS_SEAL_AFTER_S": str(seal_after_s)}
            started = Gateway(folder / f"gateway-{name}", redis.url, cpus=pinned.tested, env=settings)
            await stack.enter_async_context(started)
            await _register(started.url, endpoint)
            where = Where(started.port or 0, started.pid)
            return redis, subjects(Where(port, merchant.pid), Where(proxy_port, proxy.pid), where)

        redis, found = await gateway("measured", _NEVER_S)
        yield redis, found, partial(gateway, "sealing", _SEAL_AFTER_S)


async def _register(url: str, endpoint: str) -> None:
    headers = {"Authorization": f"Bearer {DEV_KEY}"}
    async with aiohttp.ClientSession(url, headers=headers, raise_for_status=True) as session:
        for company in (f"/v1/companies/{name}" for name in (COMPANY, RULED)):
            async with session.post(f"{company}/secrets", json={}):
                pass
            for tool in (ORDER, MENU):
                body = {"description": "Of the bench.", "parameters": SCHEMA, "endpoint": endpoint}
                async with session.put(f"{company}/tools/{tool}", json=body):
                    pass
        policy = {"policy": {"default_action": "allow", "rules": RULES}}
        async with session.put(f"/v1/companies/{RULED}", json=policy):
            pass


async def _afterwards(again: Again, plan: Plan, say: Callable[[str], None]) -> dict[str, Later]:
    """What the calls of each gateway row cost after they were answered. What an idle gateway does is no call's cost."""
    redis, found = await again()
    pid = found[-1].pid
    await asyncio.sleep(_SEALED_S)
    idle = await _spent(pid, redis.pid, _IDLE_S)
    later: dict[str, list[Later]] = {}
    for number in range(plan.looks):
        for subject in (each for each in found if each.pid == pid):
            calls = (await _slice(subject, CONCURRENT[0], redis.pid, plan)).calls
            cpu, in_redis = await _spent(pid, redis.pid, _SEALED_S)
            idle_s = _SEALED_S / _IDLE_S
            made = Later((cpu - idle[0] * idle_s) / calls * 1e6, (in_redis - idle[1] * idle_s) / calls * 1e6)
            later.setdefault(subject.name, []).append(made)
        say(f"after the calls, {number + 1} of {plan.looks}")
    return {
        name: Later(
            max(0.0, statistics.median(each.cpu_us for each in some)),
            max(0.0, statistics.median(each.redis_us for each in some)),
        )
        for name, some in later.items()
    }


async def _spent(pid: int, redis_pid: int, seconds: float) -> tuple[float, float]:
    """CPU seconds of the gateway and of its Redis in that time."""
    before, redis_before = cpu_seconds(pid), cpu_seconds(redis_pid)
    await asyncio.sleep(seconds)
    return cpu_seconds(pid) - before, cpu_seconds(redis_pid) - redis_before


async def _slice(subject: Subject, concurrent: int, redis_pid: int, plan: Plan) -> Slice:
    load = await Load.connect(subject.port, concurrent, subject.must)
    try:
        # The same sources for both, so that nothing they hold is used twice.
        sources = subject.feed(concurrent)
        await load.drive([_some(source, concurrent) for source in sources], plan.warm_s)
        before, redis_before = cpu_seconds(subject.pid), cpu_seconds(redis_pid)
        tally = await load.drive(sources, plan.slice_s)
        await asyncio.sleep(_SETTLE_S)
        cpu, redis = cpu_seconds(subject.pid) - before, cpu_seconds(redis_pid) - redis_before
    finally:
        load.close()
    calls = tally.requests
    if not calls:
        raise LoadFailed(f"{subject.name}: nothing was measured")
    return Slice(
        cpu_us=cpu / calls * 1e6,
        redis_us=redis / calls * 1e6,
        per_s=calls / tally.seconds,
        p50_ms=statistics.median(tally.latencies) * 1e3,
        calls=calls,
    )


def _some(source: Iterator[bytes], concurrent: int) -> Iterator[bytes]:
    """Enough to open what a slice uses, without using up what can be used once."""
    return itertools.islice(source, 2 if concurrent > 1 else 20)


def _results(slices: dict[tuple[str, int], list[Slice]], later: dict[str, Later]) -> list[Result]:
    made = []
    for (subject, concurrent), some in slices.items():
        behind = later.get(subject, Later())
        cpu = statistics.median(each.cpu_us for each in some) + behind.cpu_us
        proxy = statistics.median(each.cpu_us for each in slices[PROXY, concurrent])
        low, _, high = statistics.quantiles([each.cpu_us for each in some], n=4, method="inclusive")
        made.append(
            Result(
                subject=subject,
                concurrent=concurrent,
                cpu_us=cpu,
                later_us=behind.cpu_us,
                spread=(high - low) / 2 / cpu,
                redis_us=statistics.median(each.redis_us for each in some) + behind.redis_us,
                per_s=statistics.median(each.per_s for each in some),
                p50_ms=statistics.median(each.p50_ms for each in some),
                ratio=cpu / proxy,
                calls=sum(each.calls for each in some),
            )
        )
    return made


def _cpus(cpus: frozenset[int] | None) -> str:
    return "not pinned" if cpus is None else ", ".join(map(str, sorted(cpus)))
