"""`oncegate calls`: what happened to a call and why, what is not known, and saying how that ended."""

from __future__ import annotations

import argparse
import json
from typing import Any

from gateway.commands import remote
from gateway.core.explain import explain

EXAMPLES = """\
examples:
  oncegate calls show acme c-42 call_9f
  oncegate calls show acme c-42 call_9f --turn t-7 --json
  oncegate calls show acme c-42 --effect 7d955ba7
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
    show = actions.add_parser("show", help="what became of one id or effect, why, and what can be done now")
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
    show.add_argument("tool_call_id", nargs="?")
    show.add_argument("--turn")
    show.add_argument("--step", type=int)
    show.add_argument("--effect", metavar="ID", help="an effect id, or how it begins, in place of a tool_call_id")
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
    if (arguments.tool_call_id is None) == (arguments.effect is None):
        raise remote.RemoteProblem("state a tool_call_id, or --effect with how the effect id begins")
    if arguments.effect is not None:
        return _show_effects(arguments)
    query = {
        "company": arguments.company,
        "conversation": arguments.conversation,
        "tool_call_id": arguments.tool_call_id,
        "turn": arguments.turn,
        "step": arguments.step,
    }
    answer = remote.ask(arguments, "GET", remote.path("calls"), query=query)
    # A call that was denied has no record; why it was is in the log.
    denied = [] if answer["calls"] else _denials(arguments)
    answer["calls"] = [{**call, "explained": explain(call["events"])._asdict()} for call in answer["calls"]]
    if arguments.json:
        remote.show({**answer, "denied": [{**event, "explained": explain([event])._asdict()} for event in denied]})
        return 0
    for call in answer["calls"]:
        print(f"{call['tool']}  {remote.word(call['tool_call_id'])}  {call['status']}  (effect {call['effect_id']})")
        _tell(call["events"])
        _show_outcome(call)
    for event in denied:
        what = "rate limited" if event["type"] == "effect.rate_limited" else "denied"
        print(f"{remote.word(arguments.tool_call_id)}  {what}, not recorded")
        _tell([event])
    if answer["calls"] or denied:
        return 0
    print(
        "no such call is recorded (read-only calls are not; settled ones end with their retention time; what was "
        "released or resolved as absent is told by --effect ID, and all of it is in oncegate events)"
    )
    return 1


def _show_effects(arguments: argparse.Namespace) -> int:
    """From the events of the conversation alone."""
    wanted, found = arguments.effect.lower(), dict[str, list[dict[str, Any]]]()
    for event in remote.events(arguments, arguments.company, arguments.conversation):
        if (event["effect_id"] or "").startswith(wanted):
            found.setdefault(event["effect_id"], []).append(event)
    if arguments.json:
        remote.show(
            {"effects": [{"effect_id": e, "events": of, "explained": explain(of)._asdict()} for e, of in found.items()]}
        )
        return 0
    for effect, events in found.items():
        print(f"effect {effect}  {explain(events).status}")
        _tell(events)
    if not found:
        print("no event of such an effect is in the log of this conversation")
    return 0 if found else 1


def _denials(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        event
        for event in remote.events(arguments, arguments.company, arguments.conversation)
        if event["type"] in ("effect.denied", "effect.rate_limited")
        and event["effect_id"] is None
        and event.get("tool_call_id") == arguments.tool_call_id
        and arguments.turn in (None, event.get("turn"))
    ]


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


def _tell(events: list[dict[str, Any]]) -> None:
    """Each event in words, with what it says beside; then what can be done."""
    explained = explain(events)
    for event, told in zip(events, explained.story, strict=True):
        print(f"  {event['at']}  {event['type']:24} {told}")
        said = remote.said_by(event)
        if said:
            print(f"  {'':24}  {said}")
    for line in explained.now:
        print(f"  now: {line}")


def _show_outcome(call: dict[str, Any]) -> None:
    if call["error"]:
        print(f"  {call['error']['message']}")
    elif call["result"] is not None:
        print(f"  result: {json.dumps(call['result'], ensure_ascii=False)}")
