"""Names judged a second on one core: `python -m benchmarks.lint.classify_speed [--names N] [--json]`.

Every name is distinct and made anew for each round, so that no cache can be the reason for the figure.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Final

from heuristics import classify, default_lexicon

THINGS: Final = (
    "order",
    "cart",
    "guest",
    "invoice",
    "shipping_address",
    "line_items",
    "payment_method",
    "webhook",
    "menu",
)
HOW: Final = ("", "by_id", "status", "for_customer", "and_notify", "v2", "history", "batch")
SPACES: Final = ("", "", "shop_", "acme.", "crm/", "svc__")
STYLES: Final[tuple[Callable[[str], str], ...]] = (
    str,
    lambda snake: snake.replace("_", "-"),
    lambda snake: snake[:1] + snake.title().replace("_", "")[1:],
)
ROUNDS: Final = 5


def distinct_names(count: int, seed: int) -> list[str]:
    """`count` different names out of verbs of the tables, things, endings, styles and a word nobody knows."""
    chance = random.Random(seed)
    verbs = sorted(default_lexicon().verbs)
    names: dict[str, None] = {}
    while len(names) < count:
        unknown = "".join(chance.choices("bcdfglmnprst", k=5))
        verb = unknown if chance.random() < 0.1 else chance.choice(verbs)
        parts = [verb, chance.choice(THINGS), unknown, chance.choice(HOW)]
        name = "_".join(part for part in parts if part)
        names[chance.choice(SPACES) + chance.choice(STYLES)(name)] = None
    return list(names)


def measure(count: int) -> dict[str, float]:
    """Names a second of processor time, over fresh distinct names in each round: the slowest, middle and fastest."""
    classify("warm_up")
    rates = []
    for seed in range(ROUNDS):
        names = distinct_names(count, seed)
        began = time.process_time()
        for name in names:
            classify(name)
        rates.append(count / (time.process_time() - began))
    return {"slowest": min(rates), "middle": statistics.median(rates), "fastest": max(rates)}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="classify_speed", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--names", type=int, default=50_000, help="distinct names a round (default: 50000)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)
    if not 1 <= options.names <= 1_000_000:
        parser.error("--names must be from 1 to 1000000")
    rates = measure(options.names)
    if options.json:
        print(json.dumps({"names": options.names, "rounds": ROUNDS, "names_per_second": rates}))
    else:
        print(f"{options.names:,} distinct names, {ROUNDS} rounds, one core")
        print("\n".join(f"{which:<8} {rate:>12,.0f} names/s" for which, rate in rates.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
