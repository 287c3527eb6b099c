"""`python -m benchmarks.chaos`: gateways killed, stopped and cut off, and what must hold all the same.

Exit code 0 only if nothing went against the promises; 1 if something did, with the story of each such call and the
folder of logs and databases; 2 if it could not be run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.chaos.report import text
from benchmarks.chaos.run import Report, chaos
from benchmarks.processes import StartFailed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, metavar="N", help="at most so many (default 1000)")
    parser.add_argument("--seconds", type=float, default=220.0, metavar="T", help="about so long (default 220)")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of everything drawn; printed")
    parser.add_argument("--replicas", type=int, default=3, metavar="N", help="gateways (default 3)")
    parser.add_argument("--json", action="store_true", help="figures and violations as JSON")
    chosen = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    folder = Path(tempfile.mkdtemp(prefix="oncegate-chaos-"))
    say = _quiet if chosen.json else _aloud
    say(f"chaos, seed {seed}: {chosen.replicas} gateways, one Redis, two merchants; about {chosen.seconds:.0f} s")
    kept = True
    run = chaos(
        folder, seed=seed, rounds=chosen.rounds, seconds=chosen.seconds, replicas=max(1, chosen.replicas), say=say
    )
    try:
        report = uvloop.run(_until_told(run))
        kept = bool(report.violations)
    except (StartFailed, OSError) as error:
        print(f"{error}\n(logs: {folder})", file=sys.stderr)
        return 2
    except asyncio.CancelledError:
        kept = False
        return 130
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    if chosen.json:
        print(json.dumps({**report.document, "folder": str(folder) if kept else None}, indent=2))
    else:
        print(text(report, folder))
    return 1 if report.violations else 0


async def _until_told(run: Coroutine[Any, Any, Report]) -> Report:
    """A run that is told to end first ends the processes it started, also those it had stopped."""
    task, loop = asyncio.ensure_future(run), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    return await task


def _aloud(line: str) -> None:
    print(line, flush=True)


def _quiet(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
