"""`oncegate approvals`: what waits for somebody, and deciding it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from gateway.commands import remote
from gateway.runtime import exact_json

EXAMPLES: Final = """\
examples:
  oncegate approvals list acme
  oncegate approvals show apr_0a1b…
  oncegate approvals grant apr_0a1b… --rationale "the buyer confirmed by phone"
  oncegate approvals deny apr_0a1b… --rationale "over this customer's budget"
"""
DECIDE_EXAMPLES: Final = """\
Whose word it is, the key says: its role or its principal must be among the approvers. Granting runs the call, once, and
says what it came to; what a runtime runs itself waits for it. Look at the call first: oncegate approvals show APPROVAL

examples:
  oncegate approvals {act} apr_0a1b…
  oncegate approvals {act} apr_0a1b… --rationale "seen with the buyer" --json
"""
LIST_EXAMPLES: Final = """\
examples:
  oncegate approvals list acme
  oncegate approvals list acme --json | jq -r '.approvals[].id'

Two lines a call: approval, when it lapses, conversation and tool; then the arguments, and who may decide.
Exit status 0 also where nothing waits.
"""
SHOW_EXAMPLES: Final = """\
examples:
  oncegate approvals show apr_0a1b…
  oncegate approvals show apr_0a1b… --json

`oncegate approvals list COMPANY` says which are open; an answer to a held call names its own under `approval`.
"""
_CALL: Final = ("conversation", "turn", "step", "tool_call_id")


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = remote.add_action(actions, "list", "a company's open approvals, of all its conversations", LIST_EXAMPLES)
    show = remote.add_action(
        actions, "show", "one approval, with the call it is about; also after it was decided", SHOW_EXAMPLES
    )
    remote.add_options(listing)
    listing.add_argument("company")
    listing.add_argument("--limit", type=int, default=100, help="how many to ask for at a time (default: 100)")
    listing.set_defaults(run=remote.run, act=_list)
    remote.add_options(show)
    show.add_argument("approval")
    show.set_defaults(run=remote.run, act=_show)
    for name, purpose in (("grant", "run the call, once"), ("deny", "it is not done; its ids are told so")):
        decide = actions.add_parser(
            name,
            help=purpose,
            epilog=DECIDE_EXAMPLES.format(act=name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        remote.add_options(decide)
        decide.add_argument("approval")
        decide.add_argument("--rationale", metavar="WORDS", help="why, for the event log")
        decide.add_argument(
            "--customer-message", metavar="WORDS", help="the customer's own words; required of a runtime's key"
        )
        decide.set_defaults(run=remote.run, act=_decide)


def _list(arguments: argparse.Namespace) -> int:
    query: dict[str, str | int | None] = {"company": arguments.company, "limit": arguments.limit, "cursor": None}
    none = not arguments.json
    while True:
        answer = remote.ask(arguments, "GET", remote.path("approvals"), query=query, exact=True)
        if arguments.json:
            remote.show_exact(answer)
        else:
            for each in answer["approvals"]:
                none = False
                print("  ".join(remote.word(each[name]) for name in ("id", "expires_at", "conversation", "tool")))
                print(f"    {_about(each)}")
        if not answer.get("cursor"):
            if none:
                print("none")
            return 0
        query["cursor"] = answer["cursor"]


def _show(arguments: argparse.Namespace) -> int:
    found = remote.ask(arguments, "GET", remote.path("approvals", arguments.approval), exact=True)
    if arguments.json:
        remote.show_exact(found)
        return 0
    by = f" by {remote.word(found['by'])}" if found.get("by") else ""
    print(f"{found['id']}  {found['status']}{by}")
    print(f"  call       {remote.word(found['tool'])}  ({_placed(found)})")
    print(f"  arguments  {_arguments(found)}")
    print(f"  because    {_because(found)}")
    print(f"  approvers  {', '.join(map(remote.word, found['approvers']))}")
    if found.get("message"):
        print(f"  message    {remote.word(found['message'])}")
    print(f"  requested  {remote.word(found['requested_at'])}, lapses {remote.word(found['expires_at'])}")
    print(f"  effect     {found['effect_id']}")
    for first in found.get("repeat_of") or []:
        print(f"  repeats    effect {first}")
    print(
        f"  now: oncegate calls show {remote.word(found['company'])} {remote.word(found['conversation'])} "
        f"--effect {found['effect_id'][:16]}"
    )
    return 0


def _decide(arguments: argparse.Namespace) -> int:
    said = {"rationale": arguments.rationale, "customer_message": arguments.customer_message}
    body = {name: words for name, words in said.items() if words is not None}
    where = remote.path("approvals", arguments.approval, arguments.action)
    answer = remote.ask(arguments, "POST", where, body=body, exact=True)
    if arguments.json:
        remote.show_exact(answer)
        return 0
    print(f"{answer['decision']} by {remote.word(answer['by'])}; the call stands as {answer['status']}")
    if answer.get("error"):
        print(f"  {remote.word(answer['error']['message'])}")
    elif answer.get("result") is not None:
        print(f"  result: {exact_json.encode(answer['result'])}")
    elif answer["status"] == "awaiting_approval":
        print("  It runs when its runtime submits it again.")
    return 0


def _about(approval: Mapping[str, Any]) -> str:
    return f"{_arguments(approval)}  ({_because(approval)}; for {', '.join(map(remote.word, approval['approvers']))})"


def _because(approval: Mapping[str, Any]) -> str:
    rule = approval.get("rule")
    if rule is not None:
        return f"rule {remote.word(rule)}" + (", a repeat" if approval.get("because") == "repeat" else "")
    return "a repeat of what was already done" if approval.get("because") == "repeat" else "policy"


def _placed(approval: Mapping[str, Any]) -> str:
    stated = (f"{name} {remote.word(approval[name])}" for name in _CALL if approval.get(name) is not None)
    return ", ".join((f"company {remote.word(approval['company'])}", *stated))


def _arguments(approval: Mapping[str, Any]) -> str:
    # Every digit, since an amount may be what is decided about; a model's words escaped: none may steer a terminal.
    return exact_json.encode(approval["arguments"]) if approval["arguments"] is not None else "not shown"
