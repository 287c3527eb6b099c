"""One bench: everything started, slices interleaved, medians taken."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.bench.cpu import Pinning, cpu_seconds, machine_busy_s
from benchmarks.bench.load import Load, LoadFailed
from benchmarks.bench.machine import machine
from benchmarks.bench.subjects import CONCURRENT, PROXY, Subject, Where, subjects
from benchmarks.bench.traffic import COMPANY, MENU, ORDER, RULED, RULES, SCHEMA
from benchmarks.processes import DEV_KEY, LOOPBACK, ROOT, Gateway, RedisServer, Server, free_port

_SETTLE_S: Final = 0.05
_SEAL_AFTER_S: Final = 0.5
_SEALED_S: Final = 2 * _SEAL_AFTER_S + 0.1
"""What a slice has left behind (events to be sealed, notes of replays) is finished, and counted as the slice's, before
the next begins. A gateway seals every five seconds; here at once, or the work would be some other row's."""
_IDLE_S: Final = 2.0
"""How long a gateway is looked at before the first slice: what it does without a call is no call's cost."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure. `warm_s` before each slice is not counted."""

    rounds: int
    slice_s: float
    warm_s: float


FULL: Final = Plan(rounds=6, slice_s=0.5, warm_s=0.15)
QUICK: Final = Plan(rounds=2, slice_s=0.3, warm_s=0.1)


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of one subject. CPU in microseconds a call."""

    cpu_us: float
    redis_us: float
    per_s: float
    p50_ms: float
    calls: int


@dataclass(frozen=True, slots=True)
class Result:
    """A subject at one concurrency: medians over its slices. `spread` is half the range of the middle half of
    its CPU figures, as a part of the median; `ratio` is CPU to the plain proxy's at the same concurrency."""

    subject: str
    concurrent: int
    cpu_us: float
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
    async with _everything(folder, pinned, fsync) as (redis, found):
        busy, steal, started = *machine_busy_s(), time.monotonic()
        ours = [redis.pid, os.getpid(), *{subject.pid for subject in found}]
        ours_before = sum(map(cpu_seconds, ours))
        idle = await _idle({redis.pid, *(subject.pid for subject in found)})
        slices: dict[tuple[str, int], list[Slice]] = {}
        for number in range(plan.rounds):
            for concurrent, subject in itertools.product(CONCURRENT, found):
                measured = await _slice(subject, concurrent, redis.pid, plan, idle)
                slices.setdefault((subject.name, concurrent), []).append(measured)
            say(f"round {number + 1} of {plan.rounds}")
        seconds = (time.monotonic() - started) * (os.cpu_count() or 1)
        after, steal_after = machine_busy_s()
        others = (after - busy) - (sum(map(cpu_seconds, ours)) - ours_before)
        settings = {
            "rounds": plan.rounds,
            "slice_s": plan.slice_s,
            "warm_s": plan.warm_s,
            "idle_cpu_ms_per_s": round(idle[found[-1].pid] * 1e3, 1),
            "cpu_of_code_under_test": _cpus(pinned.tested),
            "cpu_of_the_rest": _cpus(pinned.rest),
            "appendfsync": fsync,
            "work_of_others_percent": round(100 * max(0.0, others) / seconds, 1),
            "taken_by_the_host_percent": round(100 * (steal_after - steal) / seconds, 1),
        }
        return Bench(_results(slices), machine(redis.program), settings)


@contextlib.asynccontextmanager
async def _everything(folder: Path, pinned: Pinning, fsync: str) -> AsyncIterator[tuple[RedisServer, list[Subject]]]:
    env = {"PYTHONPATH": str(ROOT)}
    async with contextlib.AsyncExitStack() as stack:
        redis = RedisServer(folder / "redis", fsync=fsync, rewrite=False, cpus=pinned.rest)
        await stack.enter_async_context(redis)
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
        settings = {"ONCEGATE_EVENTS_SEAL_AFTER_S": str(_SEAL_AFTER_S)}
        gateway = Gateway(folder / "gateway", redis.url, cpus=pinned.tested, env=settings)
        await stack.enter_async_context(gateway)
        await _register(gateway.url, endpoint)
        yield (
            redis,
            subjects(
                Where(port, merchant.pid, _SETTLE_S),
                Where(proxy_port, proxy.pid, _SETTLE_S),
                Where(gateway.port or 0, gateway.pid, _SEALED_S),
            ),
        )


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


async def _idle(pids: set[int]) -> dict[int, float]:
    """CPU seconds a second of processes that nobody asks anything."""
    before = {pid: cpu_seconds(pid) for pid in pids}
    await asyncio.sleep(_IDLE_S)
    return {pid: (cpu_seconds(pid) - spent) / _IDLE_S for pid, spent in before.items()}


async def _slice(subject: Subject, concurrent: int, redis_pid: int, plan: Plan, idle: Mapping[int, float]) -> Slice:
    load = await Load.connect(subject.port, concurrent, subject.must)
    try:
        # The same sources for both, so that nothing they hold is used twice.
        sources = subject.feed(concurrent)
        await load.drive([_some(source, concurrent) for source in sources], plan.warm_s)
        began, before, redis_before = time.monotonic(), cpu_seconds(subject.pid), cpu_seconds(redis_pid)
        tally = await load.drive(sources, plan.slice_s)
        await asyncio.sleep(subject.settles_s)
        took = time.monotonic() - began
        cpu = cpu_seconds(subject.pid) - before - took * idle[subject.pid]
        redis = cpu_seconds(redis_pid) - redis_before - took * idle[redis_pid]
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


def _results(slices: dict[tuple[str, int], list[Slice]]) -> list[Result]:
    made = []
    for (subject, concurrent), some in slices.items():
        cpu = statistics.median(each.cpu_us for each in some)
        proxy = statistics.median(each.cpu_us for each in slices[PROXY, concurrent])
        low, _, high = statistics.quantiles([each.cpu_us for each in some], n=4, method="inclusive")
        made.append(
            Result(
                subject=subject,
                concurrent=concurrent,
                cpu_us=cpu,
                spread=(high - low) / 2 / cpu,
                redis_us=statistics.median(each.redis_us for each in some),
                per_s=statistics.median(each.per_s for each in some),
                p50_ms=statistics.median(each.p50_ms for each in some),
                ratio=cpu / proxy,
                calls=sum(each.calls for each in some),
            )
        )
    return made


def _cpus(cpus: frozenset[int] | None) -> str:
    return "not pinned" if cpus is None else ", ".join(map(str, sorted(cpus)))
