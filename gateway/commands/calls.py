"""`oncegate calls`: what happened to a call, and what is not known."""

from __future__ import annotations

import argparse
import json
from typing import Any

from gateway.commands import remote

EXAMPLES = """\
examples:
  oncegate calls show acme c-42 call_9f
  oncegate calls show acme c-42 call_9f --turn t-7 --json
  oncegate calls unknown acme
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="the stored records of one id, with their events")
    unknown = actions.add_parser("unknown", help="calls whose outcome is not known")
    for action, act in ((show, _show), (unknown, _unknown)):
        remote.add_options(action)
        action.add_argument("company")
        action.set_defaults(run=remote.run, act=act)
    show.add_argument("conversation")
    show.add_argument("tool_call_id")
    show.add_argument("--turn")
    show.add_argument("--step", type=int)
    unknown.add_argument("--limit", type=int, default=100)


def _show(arguments: argparse.Namespace) -> int:
    query = {
        "company": arguments.company,
        "conversation": arguments.conversation,
        "tool_call_id": arguments.tool_call_id,
        "turn": arguments.turn,
        "step": arguments.step,
    }
    answer = remote.ask(arguments, "GET", remote.path("calls"), query=query)
    if arguments.json:
        remote.show(answer)
        return 0
    if not answer["calls"]:
        print(
            "no such call is recorded (read-only and denied calls are not, and settled ones end with their retention "
            "time; denied ones are in oncegate events)"
        )
        return 1
    for call in answer["calls"]:
        _print(call)
    return 0


def _unknown(arguments: argparse.Namespace) -> int:
    query: dict[str, str | int | None] = {
        "company": arguments.company,
        "status": "indeterminate",
        "limit": arguments.limit,
        "cursor": None,
    }
    none = not arguments.json
    while True:
        answer = remote.ask(arguments, "GET", remote.path("calls"), query=query)
        if arguments.json:
            remote.show(answer)
        else:
            for call in answer["calls"]:
                shown = ("first_at", "conversation", "tool_call_id", "tool", "effect_id")
                print("  ".join(remote.word(call[name]) for name in shown))
                none = False
        if not answer.get("cursor"):
            if none:
                print("none")
            return 0
        query["cursor"] = answer["cursor"]


def _print(call: dict[str, Any]) -> None:
    print(f"{call['tool']}  {remote.word(call['tool_call_id'])}  {call['status']}  (effect {call['effect_id']})")
    for event in call["events"]:
        print(f"  {event['at']}  {event['type']:24} {remote.said_by(event)}")
    if call["error"]:
        print(f"  {call['error']['message']}")
    elif call["result"] is not None:
        print(f"  result: {json.dumps(call['result'], ensure_ascii=False)}")
