"""`oncegate doctor`: is this ledger fit to guard money?"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from gateway.adapters.local_redis import LedgerInUse, LocalRedis
from gateway.adapters.redis_program import LocalRedisError
from gateway.adapters.redis_urls import parse_ledger_url
from gateway.core.errors import ConfigError, LedgerUnavailable
from gateway.core.ledger_findings import Finding, Severity, worst
from gateway.ledger import beside, examine_ledger, open_commands
from gateway.settings import Settings, read_settings

EXAMPLES = """\
examples:
  oncegate doctor                                        the ledger that oncegate serve would use here
  oncegate doctor --ledger rediss://10.0.0.5:6379/0
  oncegate doctor --ledger unix://$PWD/.oncegate/redis.sock    beside a gateway with the embedded ledger
  oncegate doctor --ledger redis://10.0.0.5 --json | jq '.findings[] | select(.severity != "ok")'

Findings are ok, note, warning or unsafe; oncegate serve refuses to start on what is unsafe. Exit status 0: nothing
above a note; 1: a warning or worse; 2: the ledger could not be reached, or a setting is wrong.
It writes one key that /readyz writes too, and changes nothing else. The embedded ledger (local:DIR) is open to one
process at a time: beside a gateway that runs, name the socket of its Redis, as above.
"""
WIDTH: Final = 100
_RAISED: Final = (Severity.WARNING, Severity.UNSAFE)


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("--config", type=Path, default=Path("config"), metavar="DIR", help="default: ./config")
    parser.add_argument("--ledger", metavar="URL", help="default: as oncegate serve")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        settings = read_settings({"ledger.url": arguments.ledger}, os.environ, arguments.config)
        url = parse_ledger_url(settings.ledger.url)
        if url.kind == "local" and not LocalRedis(url.path).exists:
            return _unreachable(f"there is no ledger in {url.path.absolute()}; name one: --ledger")
        found = asyncio.run(_examine(settings))
    except ConfigError as wrong:
        return _unreachable(*wrong.problems)
    except LedgerInUse:
        return _unreachable(beside(url.path, "oncegate doctor"))
    except LocalRedisError as reason:
        return _unreachable(str(reason))
    except LedgerUnavailable as gone:
        return _unreachable(f"the ledger {url.safe} does not answer: {gone.__cause__ or gone}")
    if arguments.json:
        print(json.dumps(as_json(url.safe, found), indent=2))
    else:
        print(as_text(url.safe, found))
    return 1 if worst(found) in _RAISED else 0


async def _examine(settings: Settings) -> list[Finding]:
    async with contextlib.AsyncExitStack() as stack:
        return await examine_ledger(settings, await open_commands(stack, settings))


def as_json(ledger: str, found: Sequence[Finding]) -> dict[str, object]:
    """`ledger` without credentials, the worst severity, and every finding."""
    return {"ledger": ledger, "worst": worst(found), "findings": [_plain(finding) for finding in found]}


def _plain(finding: Finding) -> dict[str, object]:
    return {name: value for name, value in msgspec.structs.asdict(finding).items() if name != "must"}


def as_text(ledger: str, found: Sequence[Finding]) -> str:
    lines = [f"ledger {ledger}", ""]
    for finding in found:
        lines += _block(f"{finding.severity.upper() if finding.severity in _RAISED else finding.severity:8}", finding)
    counted = Counter(finding.severity for finding in found)
    summary = ", ".join(f"{counted[severity]} {severity}" for severity in reversed(Severity) if counted[severity])
    return "\n".join([*lines, "", summary])


def _block(severity: str, finding: Finding) -> list[str]:
    said = [("", f"{finding.found}  [{finding.code}]"), ("cost: ", finding.cost), ("do:   ", finding.do)]
    indent = " " * len(severity) + "  "
    lines = [
        line
        for label, text in said
        if text
        for line in textwrap.wrap(label + text, WIDTH - len(indent), subsequent_indent=" " * len(label))
    ]
    return [f"{severity}  {lines[0]}", *[indent + line for line in lines[1:]]]


def _unreachable(*problems: str) -> int:
    for problem in problems:
        print(f"oncegate doctor: {problem}", file=sys.stderr)
    return 2
