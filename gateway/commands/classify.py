"""`oncegate classify NAME…`: the verdict and its reason for each name."""

from __future__ import annotations

import argparse
import json
import sys
from io import TextIOWrapper

from heuristics import classify, shared_prefix, suggested_name
from heuristics.report import as_dict, as_text, printable

EXAMPLES = """\
examples:
  oncegate classify place_order get_booking finalise_basket
  oncegate classify cancle_order order_cancellation get_or_create_cart
  oncegate classify --heuristic platform get_settings
  jq -r '.tools[].name' manifest.json | oncegate classify --json
  oncegate classify -- -odd-name

Names from one shop may share a prefix (shop_get_menu, shop_place_order); it is found by itself and left out.
Where a name hides what it does, a clearer one is suggested; it has no part in the verdict.
Overrides and declarations come first at run time; this shows what the name alone says.
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("names", nargs="*", metavar="NAME", help="tool names; none: one a line from standard input")
    parser.add_argument("--heuristic", choices=("words", "platform"), default="words", help="default: words")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    _take_any_bytes()
    names = arguments.names or [name for line in sys.stdin if (name := line.rstrip("\r\n")).strip()]
    if not names:
        print("oncegate classify: no names given; see oncegate classify --help", file=sys.stderr)
        return 2
    prefix = shared_prefix(names)
    for name in names:
        verdict = classify(name, heuristic=arguments.heuristic, prefix=prefix)
        better = suggested_name(name) if arguments.heuristic == "words" and verdict.side_effecting else None
        if arguments.json:
            print(json.dumps({**as_dict(name, verdict), "suggested_name": better}))
        else:
            print(as_text(name, verdict) + ("" if better is None else f"; clearer: {printable(better)}"))
    return 0


def _take_any_bytes() -> None:
    """Names in a broken or foreign encoding are judged and shown escaped, instead of ending the run."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
