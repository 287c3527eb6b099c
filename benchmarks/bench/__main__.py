"""`python -m benchmarks.bench`: CPU per call, calls per second and p50 of the gateway, beside a plain proxy.

Everything runs on loopback, in one run, by turns. Exit code 0, or with `--check` 1 if a bar does not hold;
2 if it could not be run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import uvloop

from benchmarks.bench.cpu import Pinning, pinning
from benchmarks.bench.load import LoadFailed
from benchmarks.bench.report import document, judge, markdown, text
from benchmarks.bench.run import FULL, QUICK, bench
from benchmarks.processes import StartFailed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look in 40 seconds, with more noise")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too; - for standard output")
    parser.add_argument("--markdown", action="store_true", help="the table as docs/performance.md has it")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a bar does not hold")
    parser.add_argument(
        "--fsync",
        choices=("everysec", "always"),
        default="everysec",
        help="how the ledger's Redis syncs its append-only file (default: everysec)",
    )
    parser.add_argument("--no-pin", action="store_true", help="leave it to the system where things run")
    chosen = parser.parse_args(arguments)
    pinned = Pinning(None, None) if chosen.no_pin else pinning()

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    try:
        with tempfile.TemporaryDirectory(prefix="oncegate-bench-") as folder:
            measured = uvloop.run(bench(Path(folder), QUICK if chosen.quick else FULL, pinned, say, fsync=chosen.fsync))
    except (StartFailed, LoadFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    figures = json.dumps(document(measured), indent=2)
    if chosen.json == Path("-"):
        print(figures)
    else:
        print(markdown(measured) if chosen.markdown else text(measured))
        if chosen.json is not None:
            chosen.json.write_text(figures + "\n")
    return 1 if chosen.check and not all(bar.holds for bar in judge(measured)) else 0


if __name__ == "__main__":
    sys.exit(main())
