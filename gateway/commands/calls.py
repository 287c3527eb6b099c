"""`oncegate calls`: what happened to a call and why, what is not known, and saying how that ended."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from typing import Any, Final

from gateway.commands import remote
from gateway.core.explain import Explained, explain

EXAMPLES = """\
examples:
  oncegate calls show acme c-42 call_9f
  oncegate calls show acme c-42 call_9f --turn t-7 --json
  oncegate calls show acme c-42 --effect 7d955ba7
  oncegate calls unknown acme
  oncegate calls resolve acme c-42 EFFECT --succeeded '"Order MO-1001 placed."' --note "seen in the shop"
"""
SHOW_EXAMPLES = """\
examples:
  oncegate calls show acme c-42 call_9f
  oncegate calls show acme c-42 call_9f --turn t-7 --json     (where the same id names calls of several turns)
  oncegate calls show acme c-42 --effect 7d955ba7             (how its effect id begins, as logs show it)

Exit status 0: told; 1: nothing of it is recorded, or the gateway cannot be asked.
"""
UNKNOWN_EXAMPLES = """\
examples:
  oncegate calls unknown acme
  oncegate calls unknown acme --json | jq -r '.calls[].effect_id'

A line a call: when it was first asked for, its conversation, tool_call_id, tool and effect id. All of them are
listed, --limit at a time. Exit status 0 also where there are none.
"""
RESOLVE_EXAMPLES = """\
EFFECT is the effect_id that `oncegate calls unknown` lists, or how it begins (6 digits or more, and no other effect of
the conversation may begin so). Look at the merchant's side first: its key for the call is
the same id. What is said here is what every repeat of the call is told from then on.

examples:
  oncegate calls resolve acme c-42 EFFECT --succeeded '{"order": "MO-1001"}' --note "seen in the shop"
  oncegate calls resolve acme c-42 EFFECT --failed card_declined --message "The card was declined." --note "shop's log"
  oncegate calls resolve acme c-42 EFFECT --absent --note "the shop has no such order; it may be made again"
"""
FULL_ID: Final = 64
"""Hex digits of an effect id."""
LEAST_BEGINNING: Final = 6
"""Of an effect id that is resolved by how it begins: a slip of the hand must not name another call."""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show, unknown, resolve = (
        remote.add_action(actions, name, purpose, examples)
        for name, purpose, examples in (
            ("show", "what became of one id or effect, why, and what can be done now", SHOW_EXAMPLES),
            ("unknown", "calls whose outcome is not known", UNKNOWN_EXAMPLES),
            ("resolve", "say how an unknown outcome ended", RESOLVE_EXAMPLES),
        )
    )
    for action, act in ((show, _show), (unknown, _unknown), (resolve, _resolve)):
        remote.add_options(action)
        action.add_argument("company")
        action.set_defaults(run=remote.run, act=act)
    show.add_argument("conversation")
    show.add_argument("tool_call_id", nargs="?")
    show.add_argument("--turn", help="only the call of this turn")
    show.add_argument("--step", type=int, help="only the call of this step; needs --turn")
    show.add_argument("--effect", metavar="ID", help="an effect id, or how it begins, in place of a tool_call_id")
    unknown.add_argument("--limit", type=int, default=100, help="how many are asked for at a time (default: 100)")
    resolve.add_argument("conversation")
    resolve.add_argument("effect", metavar="EFFECT", help="its effect id, or how that begins")
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
    # A call that was denied, or came too often, has no record; why is in the log.
    denied = [] if answer["calls"] else _denials(arguments)
    told = [(call, _explained(arguments, call["events"], call["effect_id"])) for call in answer["calls"]]
    refused = [(event, _explained(arguments, [event])) for event in denied]
    if arguments.json:
        answer["calls"] = [{**call, "explained": explained._asdict()} for call, explained in told]
        remote.show({**answer, "denied": [{**event, "explained": why._asdict()} for event, why in refused]})
        return 0
    for call, explained in told:
        print(f"{call['tool']}  {remote.word(call['tool_call_id'])}  {call['status']}  (effect {call['effect_id']})")
        _tell(call["events"], explained)
        _show_outcome(call)
    for event, explained in refused:
        what = "rate limited" if event["type"] == "effect.rate_limited" else "denied"
        print(f"{remote.word(arguments.tool_call_id)}  {what}, not recorded")
        _tell([event], explained)
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
    told = [(effect, events, _explained(arguments, events, effect)) for effect, events in found.items()]
    if arguments.json:
        shown = [{"effect_id": effect, "events": events, "explained": why._asdict()} for effect, events, why in told]
        remote.show({"effects": shown})
        return 0
    for effect, events, explained in told:
        print(f"effect {effect}  {explained.status}")
        _tell(events, explained)
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
                print(f"none: company {remote.word(arguments.company)} has no call whose outcome is not known")
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
    effect = arguments.effect if len(arguments.effect) >= FULL_ID else _begins_with(arguments)
    call = remote.ask(arguments, "POST", remote.path("effects", effect, "resolve"), body=body)
    if arguments.json:
        remote.show(call)
    else:
        print(f"{call['tool']}  {remote.word(call['tool_call_id'])}  {call['status']}  (effect {call['effect_id']})")
    return 0


def _begins_with(arguments: argparse.Namespace) -> str:
    """The one effect of the conversation whose id begins so. Raises RemoteProblem for none, and for more than one."""
    beginning = arguments.effect.lower()
    listed = f"oncegate calls unknown {_named(arguments.company, 'COMPANY')} lists those that can be resolved"
    if len(beginning) < LEAST_BEGINNING:
        raise remote.RemoteProblem(f"EFFECT: state {LEAST_BEGINNING} digits of the effect id or more; {listed}")
    ids = {event["effect_id"] or "" for event in remote.events(arguments, arguments.company, arguments.conversation)}
    found = sorted(each for each in ids if each.startswith(beginning))
    if not found:
        raise remote.RemoteProblem(f"no effect of this conversation begins with {remote.word(beginning)}; {listed}")
    if len(found) > 1:
        raise remote.RemoteProblem(
            "\n  ".join([f"{len(found)} effects begin with {remote.word(beginning)}; state more of the one:", *found])
        )
    return found[0]


def _explained(arguments: argparse.Namespace, events: Sequence[dict[str, Any]], effect: str | None = None) -> Explained:
    """With the names that its advice leaves open, and where what is held can be decided."""
    explained = explain(events)
    where = f"{_named(arguments.company, 'COMPANY')} {_named(arguments.conversation, 'CONVERSATION')}"
    now = [
        line.replace("COMPANY CONVERSATION EFFECT", f"COMPANY CONVERSATION {effect} {_WAYS}").replace(
            "COMPANY CONVERSATION", where
        )
        for line in explained.now
    ]
    if effect is not None and explained.status == "awaiting_approval":
        now += _who_decides(arguments, effect)
    return explained._replace(now=tuple(now))


_WAYS: Final = "(--succeeded JSON | --failed CODE --message TEXT | --absent) --note WHY"


def _named(name: str, otherwise: str) -> str:
    """A name as it is typed in a shell; one that cannot be typed stays open."""
    return shlex.quote(name) if name.isprintable() else otherwise


def _who_decides(arguments: argparse.Namespace, effect: str) -> list[str]:
    """How its open approval is called, which no event says; nothing where the key may not ask."""
    query: dict[str, str | int | None] = {"company": arguments.company, "cursor": None}
    try:
        while True:
            page = remote.ask(arguments, "GET", remote.path("approvals"), query=query)
            for each in page["approvals"]:
                if each["effect_id"] == effect:
                    where = remote.path("approvals", each["id"])
                    asked = ", ".join(map(remote.word, each["approvers"]))
                    return [
                        f"It waits for {asked} until {each['expires_at']}: POST {where}/grant lets it run, "
                        f"POST {where}/deny refuses it."
                    ]
            if not page.get("cursor"):
                return []
            query["cursor"] = page["cursor"]
    except remote.RemoteProblem:
        return []


def _json_text(text: str) -> str:
    try:
        json.loads(text.encode())
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be JSON; a text needs its own quotes: '\"{text[:40]}\"'") from None
    return text


def _tell(events: Sequence[dict[str, Any]], explained: Explained) -> None:
    """Each event in words, with what it says beside; then what can be done."""
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
