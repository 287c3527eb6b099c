"""`oncegate events`: the event log of a conversation, or of a company's own doings; `--tail` follows it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from gateway.commands import remote

EXAMPLES = """\
examples:
  oncegate events acme c-42
  oncegate events acme c-42 --after 12 --json
  oncegate events acme                        (the company's own: tools registered and removed)
  oncegate events acme c-42 --tail            (goes on until it is interrupted, and resumes by itself)
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    remote.add_options(parser)
    parser.add_argument("company")
    parser.add_argument("conversation", nargs="?")
    parser.add_argument("--after", type=int, default=0, help="start behind this sequence number")
    parser.add_argument("--tail", action="store_true", help="wait for what comes, and show that too")
    parser.set_defaults(run=remote.run, act=_list)


def _list(arguments: argparse.Namespace) -> int:
    if arguments.tail:
        return _tail(arguments)
    none = True
    for event in remote.events(arguments, arguments.company, arguments.conversation, arguments.after):
        none = False
        _show(arguments, event)
    if none and not arguments.json:
        whose = f"company {remote.word(arguments.company)}"
        where = "" if arguments.conversation is None else f", conversation {remote.word(arguments.conversation)}"
        behind = f" behind {arguments.after}" if arguments.after else ""
        print(f"none: the log of {whose}{where} has no events{behind}")
    return 0


def _tail(arguments: argparse.Namespace) -> int:
    """Until interrupted. A gateway that is away, or stops, is asked again; one that refuses is not."""
    after, away = arguments.after, False
    while True:
        try:
            for event in remote.stream(arguments, arguments.company, arguments.conversation, after):
                after, away = event["seq"], False
                _show(arguments, event)
                sys.stdout.flush()
        except remote.RemoteAway as gone:
            if not away:
                print(f"oncegate: {gone}; trying again", file=sys.stderr)
            away = True
        time.sleep(remote.AGAIN_S)


def _show(arguments: argparse.Namespace, event: dict[str, Any]) -> None:
    if arguments.json:
        print(json.dumps(event, ensure_ascii=False))
    else:
        effect = (event["effect_id"] or "")[:12]
        print(f"{event['seq']:>5}  {event['at']}  {event['type']:24} {effect:12}  {remote.said_by(event)}")
