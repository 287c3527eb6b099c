"""`oncegate calls`: what happened to a call and why, what is not known, and saying how that ended."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gateway.commands import remote, resolve_call
from gateway.core.explain import Explained, explain
from gateway.core.explain_texts import ABSENT

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


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show, unknown = (
        remote.add_action(actions, name, purpose, examples)
        for name, purpose, examples in (
            ("show", "what became of one id or effect, why, and what can be done now", SHOW_EXAMPLES),
            ("unknown", "calls whose outcome is not known", UNKNOWN_EXAMPLES),
        )
    )
    for action, act in ((show, _show), (unknown, _unknown)):
        remote.add_options(action)
        action.add_argument("company")
        action.set_defaults(run=remote.run, act=act)
    show.add_argument("conversation")
    show.add_argument("tool_call_id", nargs="?")
    show.add_argument("--turn", help="only the call of this turn")
    show.add_argument("--step", type=int, help="only the call of this step")
    show.add_argument("--effect", metavar="ID", help="an effect id, or how it begins, in place of a tool_call_id")
    unknown.add_argument("--limit", type=int, default=100, help="how many are asked for at a time (default: 100)")
    resolve_call.prepare(actions)


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
    # A call that was denied, came too often or was given back has no record; why is in the log.
    denied, gone = ([], {}) if answer["calls"] else _not_recorded(arguments)
    told = [(call, _explained(arguments, call["events"], call["effect_id"])) for call in answer["calls"]]
    refused = [(event, _explained(arguments, [event])) for event in denied]
    if arguments.json:
        answer["calls"] = [{**call, "explained": explained._asdict()} for call, explained in told]
        said = [{**event, "explained": why._asdict()} for event, why in refused]
        remote.show({**answer, "denied": said, "gone": _effects_json(arguments, gone)})
        return 0
    for call, explained in told:
        print(f"{call['tool']}  {remote.word(call['tool_call_id'])}  {call['status']}  (effect {call['effect_id']})")
        _tell(call["events"], explained)
        _show_outcome(call)
    for event, explained in refused:
        print(f"{remote.word(arguments.tool_call_id)}  {event['type'].removeprefix('effect.')}, not recorded")
        _tell([event], explained)
    _tell_effects(arguments, gone)
    if answer["calls"] or denied or gone:
        return 0
    print(
        f"no call {remote.word(arguments.tool_call_id)} is recorded in conversation "
        f"{remote.word(arguments.conversation)} of company {remote.word(arguments.company)} (read-only calls are not; "
        "settled ones end with their retention time; all that is left of the conversation is in oncegate events)"
    )
    return 1


def _show_effects(arguments: argparse.Namespace) -> int:
    """From the events of the conversation alone."""
    wanted = arguments.effect.lower()
    found = _by_effect(remote.events(arguments, arguments.company, arguments.conversation), wanted)
    if arguments.json:
        remote.show({"effects": _effects_json(arguments, found)})
        return 0
    _tell_effects(arguments, found)
    if not found:
        print("no event of such an effect is in the log of this conversation")
    return 0 if found else 1


def _by_effect(events: Iterable[dict[str, Any]], beginning: str = "") -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if event["effect_id"] is not None and event["effect_id"].startswith(beginning):
            found.setdefault(event["effect_id"], []).append(event)
    return found


def _effects_json(arguments: argparse.Namespace, found: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {"effect_id": effect, "events": events, "explained": _explained(arguments, events, effect)._asdict()}
        for effect, events in found.items()
    ]


def _tell_effects(arguments: argparse.Namespace, found: dict[str, list[dict[str, Any]]]) -> None:
    for effect, events in found.items():
        explained = _explained(arguments, events, effect)
        print(f"effect {effect}  {explained.status}")
        _tell(events, explained)


def _not_recorded(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """What was denied or came too often under this id; and its effects of which nothing stands, by their ids."""
    events = list(remote.events(arguments, arguments.company, arguments.conversation))
    asked = [
        event
        for event in events
        if event.get("tool_call_id") == arguments.tool_call_id and arguments.turn in (None, event.get("turn"))
    ]
    denied = [
        event
        for event in asked
        if event["type"] in ("effect.denied", "effect.rate_limited") and event["effect_id"] is None
    ]
    its = {event["effect_id"] for event in asked if event["type"] == "effect.proposed"}
    gone = {effect: of for effect, of in _by_effect(events).items() if effect in its and explain(of).status == ABSENT}
    return denied, gone


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


def _explained(arguments: argparse.Namespace, events: Sequence[dict[str, Any]], effect: str | None = None) -> Explained:
    """With the names that its advice leaves open, and where what is held can be decided."""
    explained = explain(events)
    where = f"{remote.typed(arguments.company, 'COMPANY')} {remote.typed(arguments.conversation, 'CONVERSATION')}"
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


def _who_decides(arguments: argparse.Namespace, effect: str) -> list[str]:
    """How its open approval is called, which no event says; nothing where the key may not ask."""
    query: dict[str, str | int | None] = {"company": arguments.company, "cursor": None}
    try:
        while True:
            page = remote.ask(arguments, "GET", remote.path("approvals"), query=query)
            for each in page["approvals"]:
                if each["effect_id"] == effect:
                    name = remote.word(each["id"])
                    asked = ", ".join(map(remote.word, each["approvers"]))
                    return [
                        f"It waits for {asked} until {each['expires_at']}: oncegate approvals grant {name} lets it "
                        f"run, oncegate approvals deny {name} refuses it."
                    ]
            if not page.get("cursor"):
                return []
            query["cursor"] = page["cursor"]
    except remote.RemoteProblem:
        return []


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
