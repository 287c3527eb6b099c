"""`make bench-sdk`: `once` on a private PostgreSQL, in milliseconds, statements and races."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from benchmarks.sdk.databases import NoServer, private_postgres
from benchmarks.sdk.orders import ORDERS, makers
from benchmarks.sdk.race import race
from benchmarks.sdk.wire_count import counted
from merchant_sdk.stores.postgres import PsycopgStore

BAR: Final = 1.5


@dataclass(frozen=True, slots=True)
class Held:
    """What a kind is measured against, the statements it may have more on the wire, and whether its latency is held to
    the bar, which is for the common path: one statement more."""

    to: str
    statements_more: int
    latency: bool = True


AGAINST: Final = {
    "once, reply known": Held("bare", 1),
    # More than the common path, over the fastest of drivers: their latency is shown, and not held to the bar.
    "once": Held("bare", 2, latency=False),
    "once and bind, reply known": Held("bare", 2, latency=False),
    "once and bind": Held("bare", 4, latency=False),
    "once, SQLAlchemy, reply known": Held("bare, SQLAlchemy", 1),
    "once, SQLAlchemy": Held("bare, SQLAlchemy", 2),
    "once, SQLAlchemy async, reply known": Held("bare, SQLAlchemy async", 1),
    "once, SQLAlchemy async": Held("bare, SQLAlchemy async", 2),
}
_PROCESSES: Final = 4
_SEED: Final = 6


def main() -> int:
    """0 if `once` is inside the bar and every round of the race was one order."""
    parser = argparse.ArgumentParser(prog="make bench-sdk", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer orders and rounds: a look in half a minute")
    parser.add_argument("--no-race", action="store_true", help="latencies and statements only")
    parser.add_argument("--at", type=int, choices=(1, 32), help="latencies at 1 or 32 at a time only (both)")
    parser.add_argument("--rounds", type=int, help="rounds of the race (200)")
    parser.add_argument("--commit-ms", type=float, help="a slower disk: every commit waits so long (commit_delay)")
    args = parser.parse_args()
    slower = [f"commit_delay={int(args.commit_ms * 1000)}", "commit_siblings=0"] if args.commit_ms else []
    rounds = args.rounds if args.rounds is not None else 20 if args.quick else 200
    try:
        with private_postgres(*slower) as conninfo:
            PsycopgStore(conninfo, create_table=True, schema=ORDERS).close()
            slow = _show_statements(conninfo)
            slow += [
                what
                for concurrent in ((args.at,) if args.at else (1, 32))
                for what in _show_latencies(
                    conninfo, concurrent, (400 if args.quick else 2000) // (1 + concurrent // 8)
                )
            ]
            if args.no_race:
                return _told(slow)
            print(f"\nrace: 20 at once on 4 processes, {rounds} rounds, a worker killed in each tenth")
            result = race(conninfo, rounds, say=print)
    except NoServer as why:
        print(f"{why}\nInstall PostgreSQL, for example: apt-get install postgresql", file=sys.stderr)
        return 2
    print(f"  {result.orders} orders, {result.answers} answers, {result.kills} kills, {len(result.wrong)} wrong rounds")
    return _told([*result.wrong, *slow]) or int(result.orders != rounds)


def _told(failed: list[str]) -> int:
    for line in failed:
        print(f"  FAILED {line}")
    return int(bool(failed))


def _show_statements(conninfo: str) -> list[str]:
    print("on the wire, for one order" + " " * 12 + "statements  round trips")
    found: dict[str, int] = {}
    with counted(conninfo) as (proxied, count), ExitStack() as closing:
        for name, make in makers(proxied, closing).items():
            place = make()
            for _ in range(10):  # past psycopg's own preparing of repeated statements
                place(uuid4().hex)
            count.clear()
            place(uuid4().hex)
            found[name] = len(count.statements)
            print(f"  {name:<36}{len(count.statements):>10}{count.round_trips:>13}")
    return [
        f"{name}: {more} statements more, {held.statements_more} are meant"
        for name, held in AGAINST.items()
        if (more := found[name] - found[held.to]) > held.statements_more
    ]


def _show_latencies(conninfo: str, concurrent: int, orders: int) -> list[str]:
    processes = 1 if concurrent == 1 else _PROCESSES
    names = [*dict.fromkeys(held.to for held in AGAINST.values()), *AGAINST]
    command = [sys.executable, "-m", "benchmarks.sdk.orders", conninfo, json.dumps(names)]
    command += [str(concurrent // processes), str(orders)]
    running = [
        subprocess.Popen([*command, str(_SEED + number)], stdout=subprocess.PIPE, text=True)
        for number in range(processes)
    ]
    taken: dict[str, list[float]] = {name: [] for name in names}
    for process in running:
        for name, latencies in json.loads(process.communicate()[0]).items():
            taken[name] += latencies
    print(
        f"\n{concurrent} at a time, {len(taken['bare'])} orders of each kind, interleaved" + " " * 6 + "p50 ms   p99 ms"
    )
    slow = []
    for name in names:
        p50, p99 = (_percentile(taken[name], share) for share in (0.5, 0.99))
        told = f"  {name:<46}{p50 * 1000:>11.2f}{p99 * 1000:>9.2f}"
        held = AGAINST.get(name)
        if held is not None:
            ratio, tail = (mine / _percentile(taken[held.to], share) for mine, share in ((p50, 0.5), (p99, 0.99)))
            told += f"   {ratio:.2f} and {tail:.2f} times {held.to}"
            if ratio > BAR and not held.latency:
                told += f", above {BAR}: not the common path"
            if held.latency and ratio > BAR:
                slow.append(f"{name} at {concurrent}: {ratio:.2f} times the latency, the bar is {BAR}")
        print(told)
    return slow


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


if __name__ == "__main__":
    sys.exit(main())
