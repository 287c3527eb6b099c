"""`oncegate events`: the event log of a conversation, or of a company's own doings."""

from __future__ import annotations

import argparse
import json

from gateway.commands import remote

EXAMPLES = """\
examples:
  oncegate events acme c-42
  oncegate events acme c-42 --after 12 --json
  oncegate events acme                        (the company's own: tools registered and removed)
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    remote.add_options(parser)
    parser.add_argument("company")
    parser.add_argument("conversation", nargs="?")
    parser.add_argument("--after", type=int, default=0, help="start behind this sequence number")
    parser.set_defaults(run=remote.run, act=_list)


def _list(arguments: argparse.Namespace) -> int:
    none = True
    for event in remote.events(arguments, arguments.company, arguments.conversation, arguments.after):
        none = False
        if arguments.json:
            print(json.dumps(event, ensure_ascii=False))
        else:
            effect = (event["effect_id"] or "")[:12]
            print(f"{event['seq']:>5}  {event['at']}  {event['type']:24} {effect:12}  {remote.said_by(event)}")
    if none and not arguments.json:
        print("none")
    return 0
