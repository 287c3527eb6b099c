"""`oncegate calls`: what happened to a call, what is not known, and saying how that ended."""

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
  oncegate calls resolve acme c-42 EFFECT --succeeded '"Order MO-1001 placed."' --note "seen in the shop"
"""
RESOLVE_EXAMPLES = """\
EFFECT is the effect_id that `oncegate calls unknown` lists. Look at the merchant's side first: its key for the call is
the same id. What is said here is what every repeat of the call is told from then on.

examples:
  oncegate calls resolve acme c-42 EFFECT --succeeded '{"order": "MO-1001"}' --note "seen in the shop"
  oncegate calls resolve acme c-42 EFFECT --failed card_declined --message "The card was declined." --note "shop's log"
  oncegate calls resolve acme c-42 EFFECT --absent --note "the shop has no such order; it may be made again"
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="the stored records of one id, with their events")
    unknown = actions.add_parser("unknown", help="calls whose outcome is not known")
    resolve = actions.add_parser(
        "resolve",
        help="say how an unknown outcome ended",
        epilog=RESOLVE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for action, act in ((show, _show), (unknown, _unknown), (resolve, _resolve)):
        remote.add_options(action)
        action.add_argument("company")
        action.set_defaults(run=remote.run, act=act)
    show.add_argument("conversation")
    show.add_argument("tool_call_id")
    show.add_argument("--turn")
    show.add_argument("--step", type=int)
    unknown.add_argument("--limit", type=int, default=100)
    resolve.add_argument("conversation")
    resolve.add_argument("effect")
    ended = resolve.add_mutually_exclusive_group(required=True)
    ended.add_argument("--succeeded", metavar="JSON", type=_json_text, help="it was done, and gave this (JSON)")
    ended.add_argument("--failed", metavar="CODE", help="it was refused or not done, and is not to be tried again")
    ended.add_argument("--absent", action="store_true", help="it never happened; the same call may be made again")
    resolve.add_argument("--message", help="with --failed: what the assistant is told")
    resolve.add_argument("--note", required=True, help="why, for the event log")
    resolve.add_argument("--evidence", help="where it was seen; required of a runtime key")


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


def _resolve(arguments: argparse.Namespace) -> int:
    if (arguments.message is not None) != (arguments.failed is not None):
        raise remote.RemoteProblem("--failed CODE and --message go together")
    said = {"company": arguments.company, "conversation": arguments.conversation, "note": arguments.note}
    if arguments.evidence is not None:
        said["evidence"] = arguments.evidence
    more: dict[str, Any] = {"outcome": "absent"}
    if arguments.succeeded is not None:
        more = {"outcome": "succeeded"}
    elif arguments.failed is not None:
        more = {"outcome": "failed", "error": {"code": arguments.failed, "message": arguments.message}}
    body = json.dumps({**said, **more}).encode()
    if arguments.succeeded is not None:
        # As it was typed: read and written again, a long number would be another one.
        body = body[:-1] + b', "result": ' + arguments.succeeded.encode() + b"}"
    call = remote.ask(arguments, "POST", remote.path("effects", arguments.effect, "resolve"), body=body)
    if arguments.json:
        remote.show(call)
    else:
        print(f"{call['tool']}  {remote.word(call['tool_call_id'])}  {call['status']}  (effect {call['effect_id']})")
    return 0


def _json_text(text: str) -> str:
    try:
        json.loads(text.encode())
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be JSON; a text needs its own quotes: '\"{text[:40]}\"'") from None
    return text


def _print(call: dict[str, Any]) -> None:
    print(f"{call['tool']}  {remote.word(call['tool_call_id'])}  {call['status']}  (effect {call['effect_id']})")
    for event in call["events"]:
        print(f"  {event['at']}  {event['type']:24} {remote.said_by(event)}")
    if call["error"]:
        print(f"  {call['error']['message']}")
    elif call["result"] is not None:
        print(f"  result: {json.dumps(call['result'], ensure_ascii=False)}")
