"""`python -m tests.small_world`: searches each situation to its end and prints what it met."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing

from tests.small_world.many import ALL, many, searches


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.small_world", description=__doc__)
    parser.add_argument("names", nargs="*", help="situations; all of them if none is named")
    parser.add_argument("--near", action="store_true", help="the look of a few seconds that every test run takes")
    parser.add_argument("--workers", type=int, metavar="N", help="searches at once, default one a core")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in ALL]
    if unknown:
        parser.error(f"there is no situation {unknown[0]!r}; there are: {', '.join(map(repr, ALL))}")
    asked = searches(chosen.names, near=chosen.near)
    broken = states = transitions = 0
    began = time.monotonic()
    print(f"{'situation':<44}{'trouble':<40}{'states':>11}{'transitions':>13}{'ends':>8}{'depth':>6}{'s':>7}{'MB':>7}")
    with closing(many(asked, workers=chosen.workers)) as results:
        for each in results:
            found = each.found
            states, transitions = states + found.states, transitions + found.transitions
            print(
                f"{each.name:<44}{each.trouble.told:<40}{found.states:>11,}{found.transitions:>13,}{found.ends:>8,}"
                f"{found.depth:>6}{each.seconds:>7.1f}{each.memory_mb:>7,}",
                flush=True,
            )
            if found.broken:
                broken += 1
                print(f"  BROKEN: {found.broken}", *[f"    {line}" for line in found.story], sep="\n", flush=True)
    held = f"{broken} BROKEN" if broken else "every promise held"
    print(
        f"{len(asked)} searches, each to its end: {states:,} states, {transitions:,} transitions, "
        f"{time.monotonic() - began:.0f} s; {held}"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
