"""`oncegate demo`: see what the product does, in a minute."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable

from gateway.adapters.redis_program import NoRedisServer, find_redis_server
from gateway.demo.crash import tell_crash
from gateway.demo.processes import GatewayDidNotStart
from gateway.demo.story import tell

EXAMPLES = """\
examples:
  oncegate demo
  oncegate demo --ledger local:./demo-ledger
  oncegate demo --ledger memory              (no Redis needed; the restart is left out)
  oncegate demo --crash                      (the assistant is killed in the middle of its turn, and run again)

Starts a shop on SQLite, a gateway and a scripted assistant, all on loopback, and removes them at the end.
Exit status 0 only if exactly one order exists; with --crash, only if nothing was done or asked twice.
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--ledger", help="a ledger URL; default: a private redis-server in a temporary folder, removed at the end"
    )
    parser.add_argument(
        "--crash", action="store_true", help="show a turn that is killed in the middle and goes on where it stopped"
    )
    parser.set_defaults(run=run)


class Ended(Exception):
    """By a signal, `number`."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


async def _told(story: Callable[[str, Callable[[str], None]], Awaitable[bool]], ledger: str) -> bool:
    """Whether the story went well. Raises Ended: what it started must not outlive it, nor by a closed terminal."""
    loop, telling = asyncio.get_running_loop(), asyncio.current_task()
    numbers: list[int] = []

    def end(number: int) -> None:
        numbers.append(number)
        if telling is not None:
            telling.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    try:
        return await story(ledger, lambda line: print(line, flush=True))
    except asyncio.CancelledError:
        if not numbers:
            raise
        raise Ended(numbers[0]) from None


def run(arguments: argparse.Namespace) -> int:
    if not arguments.ledger or arguments.ledger.startswith("local:"):
        try:
            asyncio.run(find_redis_server())
        except NoRedisServer as reason:
            print(f"oncegate demo: {reason}", file=sys.stderr)
            return 2
    does = "is killed in the middle of its turn" if arguments.crash else "repeats itself"
    print(f"Oncegate demo: a shop, a gateway, and an assistant that {does}.", flush=True)
    story = tell_crash if arguments.crash else tell
    with tempfile.TemporaryDirectory(prefix="oncegate-ledger-") as folder:
        ledger = arguments.ledger or f"local:{folder}"
        try:
            done = asyncio.run(_told(story, ledger))
        except Ended as ended:
            return 128 + ended.number
        except GatewayDidNotStart as reason:
            print(f"oncegate demo: {reason}", file=sys.stderr)
            return 2
    return 0 if done else 1
