"""`python -m benchmarks.replay FILE`: recorded calls through the gateway, on a real redis-server.

Exit code 0 only if every write reached the shop exactly once, every answer is the recorded one and no
recycled id was refused or answered with another call's result; 1 if not; 2 if it could not be run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.processes import StartFailed
from benchmarks.replay.recorded import BadRecording, load
from benchmarks.replay.report import text
from benchmarks.replay.run import RESTARTS, counts, replay

FORMAT: Final = """\
examples:
  python -m benchmarks.replay calls.jsonl
  python -m benchmarks.replay calls.jsonl --limit 20 --restarts 1 --json

FILE has one conversation a line, {"conversation": NAME, "calls": [CALL, …]}, its calls in the order they were made.
A CALL is {"turn", "step", "tool_call_id", "tool", "arguments", "result"}: turn a number or a text; step a whole number
from 1; the others texts. `arguments` is the model's own text, `result` what the tool answered, as JSON or as text; one
that begins with "Error" was a refusal, an empty one no result. tests/replay/odd_conversations.jsonl is such a file.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replay",
        description=__doc__,
        epilog=FORMAT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="one conversation a line, as JSON")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N conversations")
    parser.add_argument("--restarts", type=int, default=RESTARTS, metavar="N", help=f"default {RESTARTS}")
    parser.add_argument("--json", action="store_true", help="figures and failures as JSON")
    chosen = parser.parse_args(arguments)
    try:
        calls = load(chosen.file, chosen.limit)
        with tempfile.TemporaryDirectory(prefix="oncegate-replay-") as folder:
            report = asyncio.run(replay(calls, Path(folder), restarts=max(1, chosen.restarts)))
    except (BadRecording, StartFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if chosen.json:
        document = {**counts(report), "seconds": round(report.seconds, 1), "list": [asdict(f) for f in report.failures]}
        print(json.dumps(document, indent=2))
    else:
        print(text(report, chosen.file.name))
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
