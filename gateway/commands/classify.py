"""`oncegate classify NAME…`: the verdict and its reason for each name."""

from __future__ import annotations

import argparse
import json
import sys

from heuristics import classify, shared_prefix
from heuristics.report import as_dict, as_text

EXAMPLES = """\
examples:
  oncegate classify place_order get_booking finalise_basket
  oncegate classify --heuristic platform get_settings
  jq -r '.tools[].name' manifest.json | oncegate classify --json

Names from one shop may share a prefix (shop_get_menu, shop_place_order); it is found by itself and left out.
Overrides and declarations come first at run time; this shows what the name alone says.
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("names", nargs="*", metavar="NAME", help="tool names; none: one a line from standard input")
    parser.add_argument("--heuristic", choices=("words", "platform"), default="words", help="default: words")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    names = arguments.names or [line.rstrip("\r\n") for line in sys.stdin if line.strip()]
    if not names:
        print("oncegate classify: no names given; see oncegate classify --help", file=sys.stderr)
        return 2
    prefix = shared_prefix(names)
    for name in names:
        verdict = classify(name, heuristic=arguments.heuristic, prefix=prefix)
        print(json.dumps(as_dict(name, verdict)) if arguments.json else as_text(name, verdict))
    return 0
