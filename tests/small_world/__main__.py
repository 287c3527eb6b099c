"""`python -m tests.small_world`: searches each situation to its end and prints what it met."""

from __future__ import annotations

import argparse
import sys
import time

from tests.small_world.search import search
from tests.small_world.situations import HASTY, SITUATIONS
from tests.small_world.world import World


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.small_world", description=__doc__)
    parser.add_argument("names", nargs="*", help="situations; all of them if none is named")
    parser.add_argument("--near", action="store_true", help="the look of a few seconds that every test run takes")
    chosen = parser.parse_args(arguments)
    broken = states = transitions = 0
    print(f"{'situation':<42}{'trouble':<44}{'states':>11}{'transitions':>13}{'ends':>8}{'depth':>6}{'s':>7}")
    for situation in (*SITUATIONS, HASTY):
        if chosen.names and situation.name not in chosen.names:
            continue
        for trouble in (situation.near,) if chosen.near else situation.searches:
            started = time.monotonic()
            found = search(World(situation.under(trouble)))
            took = time.monotonic() - started
            states, transitions = states + found.states, transitions + found.transitions
            print(
                f"{situation.name:<42}{trouble.told:<44}{found.states:>11,}{found.transitions:>13,}{found.ends:>8,}"
                f"{found.depth:>6}{took:>7.1f}",
                flush=True,
            )
            if found.broken:
                broken += 1
                print(f"  BROKEN: {found.broken}", *[f"    {line}" for line in found.story], sep="\n")
    print(f"{states:,} states, {transitions:,} transitions; {f'{broken} BROKEN' if broken else 'every promise held'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
