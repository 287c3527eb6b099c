"""`oncegate calls resolve`: saying how an unknown outcome ended (promise 5.5)."""

from __future__ import annotations

import argparse
import json
from typing import Any, Final

from gateway.commands import remote

EXAMPLES = """\
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


def prepare(actions: Any) -> None:
    action = remote.add_action(actions, "resolve", "say how an unknown outcome ended", EXAMPLES)
    remote.add_options(action)
    action.add_argument("company")
    action.add_argument("conversation")
    action.add_argument("effect", metavar="EFFECT", help="its effect id, or how that begins")
    ended = action.add_mutually_exclusive_group(required=True)
    ended.add_argument("--succeeded", metavar="JSON", type=_json_text, help="it was done, and gave this (JSON)")
    ended.add_argument("--failed", metavar="CODE", help="it was refused or not done, and is not to be tried again")
    ended.add_argument("--absent", action="store_true", help="it never happened; the same call may be made again")
    action.add_argument("--message", help="with --failed: what the assistant is told")
    action.add_argument("--note", required=True, help="why, for the event log")
    action.add_argument("--evidence", help="where it was seen; required of a runtime key")
    action.set_defaults(run=remote.run, act=_resolve)


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
    listed = f"oncegate calls unknown {remote.typed(arguments.company, 'COMPANY')} lists those that can be resolved"
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


def _json_text(text: str) -> str:
    try:
        json.loads(text.encode())
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be JSON; a text needs its own quotes: '\"{text[:40]}\"'") from None
    return text
