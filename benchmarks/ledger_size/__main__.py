"""`python -m benchmarks.ledger_size`: bytes a stored call takes in Redis, and latency beside a ledger that grows.

A private redis-server on loopback, the real decider and ledger, no HTTP. Exit code 0, or with `--check` 1 if the bar
does not hold; 2 if it could not be run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from dataclasses import astuple
from pathlib import Path

from benchmarks.bench.machine import machine
from benchmarks.ledger_size.measure import BAR_BYTES, SMALL, Measured, grow
from benchmarks.processes import RedisServer, StartFailed
from gateway.adapters.redis_clients import close_client, open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_urls import parse_ledger_url
from gateway.service.deciding import Decider

SIZE_AT = 10_000
STEPS = [1_000, SIZE_AT, 100_000]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger_size", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 10,000 records only")
    parser.add_argument("--million", action="store_true", help="go on to 1,000,000 records (2.3 GB, some four minutes)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too; - for standard output")
    parser.add_argument("--check", action="store_true", help=f"exit code 1 if a call takes over {BAR_BYTES:,} bytes")
    chosen = parser.parse_args(arguments)
    steps = STEPS[:2] if chosen.quick else [*STEPS, *([1_000_000] if chosen.million else [])]
    try:
        with tempfile.TemporaryDirectory(prefix="oncegate-size-") as folder:
            measured, made_on = asyncio.run(_measure(Path(folder), steps))
    except (StartFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    figures = json.dumps({"machine": made_on, **measured.document()}, indent=2)
    if chosen.json == Path("-"):
        print(figures)
    else:
        print(_text(measured))
        if chosen.json is not None:
            chosen.json.write_text(figures + "\n")
    assert measured.size is not None
    return 1 if chosen.check and measured.size.a_call > BAR_BYTES else 0


async def _measure(folder: Path, steps: list[int]) -> tuple[Measured, dict[str, str]]:
    async with contextlib.AsyncExitStack() as stack:
        servers = [RedisServer(folder / name, fsync="everysec", rewrite=False) for name in ("grown", "small")]
        commands = []
        for server in servers:
            await stack.enter_async_context(server)
            client = open_client(parse_ledger_url(server.url))
            stack.push_async_callback(close_client, client)
            commands.append(Commands(client))
            stack.push_async_callback(commands[-1].close)
        deciders = [Decider(RedisLedger(each)) for each in commands]
        measured = await grow(commands[0], *deciders, steps, SIZE_AT, lambda line: print(line, file=sys.stderr))
        return measured, machine(servers[0].program)


def _text(measured: Measured) -> str:
    size = measured.size
    assert size is not None
    lines = [f"{'':<20}{'keys a call':>12}{'bytes a key':>12}{'bytes a call':>13}"]
    for name, kind in size.kinds.items():
        lines.append(
            f"{name:<20}{kind.keys / size.calls:>12.2f}{kind.bytes / kind.keys:>12,.0f}"
            f"{kind.bytes / size.calls:>13,.0f}"
        )
    lines += [
        f"{'all keys':<44}{size.a_call:>13,.0f}",
        f"{'used_memory':<44}{size.used_a_call:>13,.0f}",
        f"{'holds' if size.a_call <= BAR_BYTES else 'FAILS'}: at most {BAR_BYTES:,} bytes a call of 1 KB",
        "",
        f"{'records':>12}{'claim us':>18}{'settle us':>18}{'replay us':>18}",
        f"{'':>12}" + f"{f'beside {SMALL:,}':>18}" * 3,
    ]
    for speed in measured.speeds:
        pairs = zip(astuple(speed.grown), astuple(speed.small), strict=True)
        lines.append(f"{speed.records:>12,}" + "".join(f"{a:>7.0f} {b:>5.0f} {a / b:>4.2f}" for a, b in pairs))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
