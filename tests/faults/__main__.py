"""`python -m tests.faults`: many histories of faults over the real core and service, in virtual time.

Exit code 0 if nothing broke; of 100,000 histories or more, everything that can be reached must have been as well; else 1.
Some 12,000 short histories, a fault at each of their steps, always run besides: --histories 300 takes a quarter of a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.faults.guards import MOST_SEEDS, caught, seeds
from tests.faults.guards_of_answers import GUARDS_OF_ANSWERS
from tests.faults.guards_of_claims import GUARDS_OF_CLAIMS
from tests.faults.guards_of_efforts import GUARDS_OF_EFFORTS
from tests.faults.guards_of_ends import GUARDS_OF_ENDS
from tests.faults.guards_of_limits import GUARDS_OF_LIMITS
from tests.faults.guards_of_shops import GUARDS_OF_SHOPS
from tests.faults.many import Figures, many
from tests.faults.run import run
from tests.faults.story import report, told
from tests.faults.themes import plan_of

HISTORIES = 100_000
TOLD = 3
"""Failing histories whose story is printed."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--histories", type=int, default=HISTORIES, metavar="N", help=f"seeds, default {HISTORIES:,}")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed, default 0")
    parser.add_argument("--seed", type=int, metavar="SEED", help="run one history and tell its story")
    parser.add_argument("--workers", type=int, metavar="N", help="processes, default one a core")
    parser.add_argument("--guards", action="store_true", help="take out one guard at a time; each has to be noticed")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        result = run(plan_of(chosen.seed), telling=True)
        print(report(chosen.seed) if result.broken else told(result))
        return 1 if result.broken else 0
    if chosen.guards:
        return _guards()
    figures = many(chosen.first, chosen.histories, _Progress(), workers=chosen.workers)
    for broken in [b for b in figures.broken if b.story][:TOLD]:
        print(broken.story, file=sys.stderr)
    print(json.dumps(figures.as_json(), indent=1) if chosen.json else _text(figures))
    whole = chosen.histories >= HISTORIES
    missed = whole and (figures.missed_kinds or figures.missed_cells)
    return 1 if figures.broken or missed or figures.unlisted_cells else 0


def _guards() -> int:
    """How soon each missing guard is noticed; 1 if one is not."""
    found = [
        (guard, caught(guard, seeds(MOST_SEEDS)))
        for guard in (
            *(*GUARDS_OF_CLAIMS, *GUARDS_OF_ENDS, *GUARDS_OF_EFFORTS),
            *(*GUARDS_OF_LIMITS, *GUARDS_OF_SHOPS, *GUARDS_OF_ANSWERS),
        )
    ]
    for guard, how in found:
        shown = f"after {how.histories:5,}: {how.broken[1]}" if how is not None else "NOT NOTICED"
        print(f"  {guard.promise:5} {guard.name:45} {shown}")
    noticed = sum(how is not None for _, how in found)
    print(f"{noticed} of {len(found)} missing guards noticed")
    return 0 if noticed == len(found) else 1


class _Progress:
    """A line every few seconds, and one for each history that breaks, at once."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 10
        self._broken = 0

    def __call__(self, figures: Figures) -> None:
        for broken in figures.broken[self._broken :]:
            print(f"broken: {broken.where}, promise {broken.promise}: {broken.what}", file=sys.stderr)
        self._broken = len(figures.broken)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 10
            rate = figures.histories / figures.seconds
            print(f"{figures.histories:,} histories, {rate:,.0f}/s, {len(figures.broken)} broken", file=sys.stderr)


def _text(figures: Figures) -> str:
    said = figures.as_json()
    lines = [
        f"{figures.histories:,} histories in {figures.seconds:.0f} s, {said['histories_per_second']}/s",
        "",
        "faults and ways to ask:",
        *(f"  {times:9,}  {kind}" for kind, times in said["faults"].items()),
        "answers:",
        *(f"  {times:9,}  {answer}" for answer, times in said["answers"].items()),
        "not promised, so not held against the gateway:",
        *(f"  {times:9,}  {why}" for why, times in said["excused"].items()),
        "moves of the table in 4.1:",
        *(f"  {times:9,}  {cell}" for cell, times in said["cells"].items()),
        *(f"  unreachable  {cell}: {why}" for cell, why in said["cells_unreachable"].items()),
        *(f"  NOT REACHED  {cell}" for cell in said["cells_missed"]),
        *(f"  NOT IN THE TABLE OR CALLED UNREACHABLE  {' '.join(cell)}" for cell in figures.unlisted_cells),
        *(f"  NEVER MET  {kind}" for kind in said["kinds_missed"]),
        *(f"broken: {b.where}, promise {b.promise}: {b.what}" for b in figures.broken),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
