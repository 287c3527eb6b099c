"""`oncegate tools`: a company's tools."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from gateway.adapters.text_files import read_text, unreadable
from gateway.commands import register_tools, remote

EXAMPLES = """\
examples:
  oncegate tools list acme
  oncegate tools list acme --format openai > tools.json
  oncegate tools show acme place_order
  oncegate tools put acme place_order place_order.json     (- reads standard input)
  oncegate tools remove acme place_order
  oncegate tools register --from shop:app --company acme --endpoint https://shop.example/tools
  oncegate tools register --from shop:app --endpoint https://shop.example/tools --dry-run    (no gateway is asked)
"""


FORMATS: Final = ("oncegate", "openai", "anthropic", "gemini", "mcp")
ACTIONS: Final = (
    (
        "list",
        "all tools, with their verdicts",
        ("oncegate tools list acme", "oncegate tools list acme --format openai"),
    ),
    ("show", "one tool as stored", ("oncegate tools show acme place_order",)),
    (
        "put",
        "register a tool, or change it",
        (
            "oncegate tools put acme place_order place_order.json",
            """echo '{"endpoint": "https://shop.example/tools"}' | oncegate tools put acme place_order -""",
        ),
    ),
    ("remove", "remove a tool", ("oncegate tools remove acme place_order",)),
)


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    acts = {"list": _list, "show": _show, "put": _put, "remove": _remove}
    for name, purpose, examples in ACTIONS:
        action = remote.add_action(actions, name, purpose, "\n  ".join(["examples:", *examples]))
        remote.add_options(action)
        action.add_argument("company")
        if name == "list":
            action.add_argument("--format", choices=FORMATS, help="as a model provider wants them")
        else:
            action.add_argument("tool")
        if name == "put":
            action.add_argument("file", help="the registration as JSON; - for standard input")
        action.set_defaults(run=remote.run, act=acts[name])
    register_tools.prepare(actions)


def _list(arguments: argparse.Namespace) -> int:
    where = remote.path("companies", arguments.company, "tools")
    answer = remote.ask(arguments, "GET", where, query={"format": arguments.format})
    if arguments.json or arguments.format not in (None, "oncegate"):
        remote.show(answer)
        return 0
    for tool in answer["tools"]:
        verdict = tool["verdict"]
        effect = "side-effecting" if verdict["side_effecting"] else "read-only"
        print(f"{tool['name']:32} v{tool['version']:<4} {effect:15} {verdict['reason']}")
    if not answer["tools"]:
        print(f"none: company {remote.word(arguments.company)} has no tools")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    remote.show(remote.ask(arguments, "GET", remote.path("companies", arguments.company, "tools", arguments.tool)))
    return 0


def _put(arguments: argparse.Namespace) -> int:
    name = "standard input" if arguments.file == "-" else arguments.file
    try:
        body = json.loads(sys.stdin.read() if arguments.file == "-" else read_text(arguments.file))
    except (OSError, UnicodeDecodeError) as wrong:
        raise remote.RemoteProblem(f"{name}: {unreadable(wrong)}") from None
    except ValueError as wrong:
        raise remote.RemoteProblem(f"{name}: is not valid JSON: {wrong}") from None
    where = remote.path("companies", arguments.company, "tools", arguments.tool)
    tool = remote.ask(arguments, "PUT", where, body=body)
    if arguments.json:
        remote.show(tool)
        return 0
    register_tools.tell(tool)
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    remote.ask(arguments, "DELETE", remote.path("companies", arguments.company, "tools", arguments.tool))
    print(f"{arguments.tool}: removed; its recorded calls still replay")
    return 0
