"""`oncegate events`: the event log of a conversation, or of a company's own doings; it is shown, verified, exported."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from gateway.commands import events_export, events_verify, remote

EXAMPLES = """\
examples:
  oncegate events acme c-42
  oncegate events acme c-42 --after 12 --json
  oncegate events acme                        (the company's own: tools registered and removed)
  oncegate events acme c-42 --tail            (goes on until it is interrupted, and resumes by itself)
  oncegate events verify acme c-42            (see oncegate events verify --help)
  oncegate events export acme --since 24h     (see oncegate events export --help)
  oncegate events show verify                 (of a company whose name is that of an action)
"""
ACTIONS = ("show", "verify", "export")


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="show | verify | export", required=True)
    _show_options(_action(actions, "show", "show a log; what is meant where no action is named", EXAMPLES))
    events_verify.prepare(
        _action(actions, "verify", "prove that no sealed event is missing or changed", events_verify.EXAMPLES)
    )
    events_export.prepare(_action(actions, "export", "write events as JSON Lines", events_export.EXAMPLES))


def completed(arguments: list[str]) -> list[str]:
    """With the action that is meant where none is named."""
    behind = arguments.index("events") + 1
    if arguments[behind : behind + 1] and arguments[behind] not in (*ACTIONS, "-h", "--help"):
        return [*arguments[:behind], "show", *arguments[behind:]]
    return arguments


def _action(actions: Any, name: str, purpose: str, examples: str) -> argparse.ArgumentParser:
    action: argparse.ArgumentParser = actions.add_parser(
        name, help=purpose, description=purpose, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    return action


def _show_options(parser: argparse.ArgumentParser) -> None:
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
    """Until interrupted. A gateway that is away, or stops, is asked again; one that refuses is not. A log that lost
    what was shown of it, or expired and began anew, is shown from its start, as `tail -F` does with a file."""
    after, away = arguments.after, False
    while True:
        try:
            for event in remote.stream(arguments, arguments.company, arguments.conversation, after):
                after, away = event["seq"], False
                _show(arguments, event)
                sys.stdout.flush()
        except remote.LogBegunAnew as anew:
            if after == arguments.after:
                raise  # nothing of it was shown: the number is wrong, and it is not ours
            print(f"oncegate: {anew}\noncegate: showing it from its start", file=sys.stderr)
            after, arguments.after = 0, 0
            continue
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
