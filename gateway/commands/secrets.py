"""`oncegate secrets`: what a company's requests are signed with."""

from __future__ import annotations

import argparse
import shlex

from gateway.commands import remote

EXAMPLES = """\
examples:
  oncegate secrets add acme                          (shown once: give it to the merchant's server)
  oncegate secrets list acme                         (ids only, newest first)
  oncegate secrets retire acme ws_1a2b3c4d5e6f7081   (after the merchant has the new one)
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = remote.add_action(actions, "add", "make a new signing secret; older ones go on signing beside it", EXAMPLES)
    retire = remote.add_action(actions, "retire", "stop signing with one", EXAMPLES)
    listing = remote.add_action(actions, "list", "the ids of those that sign, newest first", EXAMPLES)
    for action, act in ((add, _add), (listing, _list), (retire, _retire)):
        remote.add_options(action)
        action.add_argument("company")
        action.set_defaults(run=remote.run, act=act)
    retire.add_argument("id", help="as oncegate secrets list shows it")


def _add(arguments: argparse.Namespace) -> int:
    made = remote.ask(arguments, "POST", remote.path("companies", arguments.company, "secrets"))
    if arguments.json:
        remote.show(made)
    else:
        print(f"id: {made['id']}")
        print("secret (shown once):")
        print(made["secret"])  # on a line of its own, to be copied or cut out
        print(
            "next: give it to the merchant's server, then retire older ones, if any: "
            f"oncegate secrets retire {shlex.quote(arguments.company)} ID (oncegate secrets list names them)"
        )
    return 0


def _list(arguments: argparse.Namespace) -> int:
    answer = remote.ask(arguments, "GET", remote.path("companies", arguments.company, "secrets"))
    if arguments.json:
        remote.show(answer)
        return 0
    for secret in answer["secrets"]:
        print(secret["id"])
    if not answer["secrets"]:
        print(f"none: company {remote.word(arguments.company)} has no signing secret")
    return 0


def _retire(arguments: argparse.Namespace) -> int:
    remote.ask(arguments, "DELETE", remote.path("companies", arguments.company, "secrets", arguments.id))
    print(f"{arguments.id}: retired")
    return 0
