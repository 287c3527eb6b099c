"""`oncegate secrets`: what a company's requests are signed with."""

from __future__ import annotations

import argparse

from gateway.commands import remote

EXAMPLES = """\
examples:
  oncegate secrets add acme              (shown once: give it to the merchant's server)
  oncegate secrets retire acme sec_1a2b  (after the merchant has the new one)
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="make a new signing secret; older ones go on signing beside it")
    retire = actions.add_parser("retire", help="stop signing with one")
    for action, act in ((add, _add), (retire, _retire)):
        remote.add_options(action)
        action.add_argument("company")
        action.set_defaults(run=remote.run, act=act)
    retire.add_argument("id")


def _add(arguments: argparse.Namespace) -> int:
    made = remote.ask(arguments, "POST", remote.path("companies", arguments.company, "secrets"))
    if arguments.json:
        remote.show(made)
    else:
        print(f"{made['id']}\n{made['secret']}\n(shown once)")
    return 0


def _retire(arguments: argparse.Namespace) -> int:
    remote.ask(arguments, "DELETE", remote.path("companies", arguments.company, "secrets", arguments.id))
    print(f"{arguments.id}: retired")
    return 0
