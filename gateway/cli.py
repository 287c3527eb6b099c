"""The command line, `oncegate`: one file a command in `gateway.commands`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from gateway import __version__

COMMANDS: Final = {
    "serve": "run the gateway",
    "doctor": "say whether the ledger's Redis can be relied on, and what it can lose",
    "demo": "see one order placed once, though the assistant asks again and again",
    "classify": "say which tool names change state, and why",
    "lint": "find tools whose names, hints or schemas would lose protection, before they ship",
    "check-merchant": "play every fault of a network on a merchant's endpoint, and count what it did",
    "tools": "list, show, register and remove a company's tools",
    "calls": "show what happened to a call; list unknown outcomes",
    "approvals": "list, show, grant and deny what waits for somebody",
    "events": "read, verify and export the event log",
    "keys": "create, list and revoke API keys",
    "policy": "check a policy; explain what it says about a call",
    "secrets": "add, list and retire a company's signing secrets",
}
"""What each command is for; a command's module is imported only when it is used."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 for done, 1 for "no" or found, 2 for what could not be understood."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    chosen = next((a for a in arguments if not a.startswith("-")), None)
    parser = argparse.ArgumentParser(
        prog="oncegate",
        description="A tool gateway for chat assistants: every side-effecting call happens once.",
        epilog="oncegate COMMAND --help shows a command's options, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"oncegate {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, purpose in COMMANDS.items():
        sub = commands.add_parser(
            name, help=purpose, description=purpose, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == chosen:
            try:
                module = import_module(f"gateway.commands.{name.replace('-', '_')}")
                module.prepare(sub)
                arguments = getattr(module, "completed", list)(arguments)
            except ModuleNotFoundError as missing:
                if missing.name is None or missing.name.startswith("gateway"):
                    raise
                print(
                    f"oncegate {name} needs the server's libraries (no {missing.name}): "
                    "pip install 'oncegate[gateway]', or in a clone pip install '.[gateway]'",
                    file=sys.stderr,
                )
                return 2
    parsed = parser.parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return 130
    return status


if __name__ == "__main__":
    raise SystemExit(main())
