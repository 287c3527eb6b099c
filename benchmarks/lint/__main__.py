"""make bench-lint: 10,000 tools in one file, linted, against reading the same file; and 10,000 against 1,000.

Each command is a process of its own, run several times; the fastest counts, in seconds of processor, since a busy
machine only adds to the clock. Exit status 1 where linting takes more than twice the reading and a second.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 5
READ = "import json, sys; [None for tool in json.load(open(sys.argv[1]))['tools']]"
READS = ("get", "list", "search", "view", "find")
VERBS = (*READS, "create", "update", "cancel", "place", "submit", "finalise", "book", "add", "send", "void", "archive")
NOUNS = ("order", "cart", "booking", "invoice", "customer", "shipment", "coupon", "ticket", "account", "menu")


def tools(count: int) -> dict[str, object]:
    """A manifest: no two names alike, a handful of arguments each."""
    drawn = random.Random(5)
    return {"tools": [_tool(number, drawn) for number in range(count)]}


def _tool(number: int, drawn: random.Random) -> dict[str, object]:
    verb, noun = VERBS[number % len(VERBS)], NOUNS[number % len(NOUNS)]
    word = "".join(drawn.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(7))
    address = {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}}
    properties = {
        f"{noun}_id": {"type": "string"},
        "quantity": {"type": "integer", "minimum": 1},
        "note": {"type": "string", "description": "What the customer said."},
        "address": address,
    }
    schema = {"type": "object", "properties": properties, "required": [f"{noun}_id"], "additionalProperties": False}
    # As in manifests of some care: most say their hints, a third does not.
    hints = {"readOnlyHint": True} if verb in READS else {"readOnlyHint": False, "idempotentHint": number % 2 == 0}
    return {
        **({"annotations": hints} if number % 3 else {}),
        "name": f"{verb}_{noun}_{word}",
        "description": f"{verb.capitalize()} the {noun} that {word} means.",
        "inputSchema": schema,
    }


def fastest(*command: str) -> tuple[float, float]:
    """Seconds of the fastest of several runs: of a processor, and on the clock."""
    processor = clock = float("inf")
    for _ in range(RUNS):
        start, before = time.perf_counter(), _used()
        ran = subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, check=False)
        clock, processor = min(clock, time.perf_counter() - start), min(processor, _used() - before)
        assert ran.returncode in (0, 1), f"{command} ended with {ran.returncode}"
    return processor, clock


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        taken: dict[int, tuple[float, float]] = {}
        for count in (1_000, 10_000):
            file = Path(folder, f"{count}.json")
            file.write_text(json.dumps(tools(count), indent=1), encoding="utf-8")
            taken[count] = fastest("-m", "gateway.cli", "lint", str(file), "--statistics")
        size = file.stat().st_size / 1e6
        read = fastest("-c", READ, str(file))
        start = fastest("-m", "gateway.cli", "lint", "--explain", "OG101")
    allowed = 2 * read[0] + 1
    grown = (taken[10_000][0] - start[0]) / max(taken[1_000][0] - start[0], 0.001)
    held = taken[10_000][0] <= allowed
    print(f"10,000 tools, {size:.1f} MB: linted in {_said(taken[10_000])}; read by python -c in {_said(read)}")
    print(f"allowed: twice the reading and a second = {allowed:.2f} s of processor: {'held' if held else 'MISSED'}")
    print(f"1,000 tools: {_said(taken[1_000])}; starting alone: {_said(start)}")
    print(f"ten times the tools take {grown:.1f} times as long, starting left out")
    return 0 if held else 1


def _said(taken: tuple[float, float]) -> str:
    return f"{taken[0]:.2f} s of processor ({taken[1]:.2f} s on the clock)"


if __name__ == "__main__":
    raise SystemExit(main())
