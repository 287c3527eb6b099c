"""`oncegate check-merchant`: what a network and a stranger do to a merchant, done on purpose, and counted."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path
from secrets import token_hex
from typing import Final

from gateway.commands.merchant_check.as_html import as_html
from gateway.commands.merchant_check.as_json import as_json
from gateway.commands.merchant_check.as_text import as_text
from gateway.commands.merchant_check.plan import FAULTS, OPTION, Fault
from gateway.commands.merchant_check.player import play
from gateway.commands.merchant_check.target import CannotRun, Target

EXAMPLES: Final = """\
examples:
  export SHOP_SECRET='whsec_…'        (what oncegate secrets add shows, or the shop's own for a check)
  oncegate check-merchant http://127.0.0.1:8081/ --tool place_order --arguments '{"item": "dosa", "quantity": 1}'
  oncegate check-merchant http://127.0.0.1:8081/ --tool place_order --arguments '{"item": "dosa", "quantity": 1}' \\
    --other-arguments '{"item": "dosa", "quantity": 2}' --declined-arguments '{"item": "vada", "quantity": 1}' \\
    --count-tool count_orders --status-url http://127.0.0.1:8081/status --html report.html
  oncegate check-merchant … --only twins,late --json -
  oncegate check-merchant --list

Nearly 20 orders are really placed, and more by a shop that fails: use one for tests. {fresh} in arguments becomes a
new word for each order, for a shop that takes the same cart of the same buyer for the same order:
'{"buyer": "{fresh}", "item": "dosa"}'.
Each order comes from a conversation of its own. Only the host of URL is spoken to.

Exit status 0: all that was tried has passed; 1: something failed; 2: the check could not be run to its end.
"""
FALLBACK_ENV: Final = "SHOP_SECRET"
_CODES: Final = tuple(fault.code for fault in FAULTS)
_MOST_SECRET_BYTES: Final = 65_536


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("url", nargs="?", metavar="URL", help="the tool's endpoint")
    add("--tool", metavar="NAME", help="a tool that changes something")
    add("--arguments", metavar="JSON", help="its arguments: an order that the shop takes")
    add("--other-arguments", metavar="JSON", help="another cart, for the conflict")
    add("--declined-arguments", metavar="JSON", help="a cart that the shop declines")
    add("--secret-env", metavar="NAME", help=f"variable with the signing secret (default: {FALLBACK_ENV})")
    add("--secret-file", metavar="FILE", type=Path, help="file with it; several stand apart by white space")
    add("--status-url", metavar="URL", help="the status endpoint")
    add("--count-tool", metavar="NAME", help="a tool that reads how many orders there are: a number or a list")
    add("--count-arguments", metavar="JSON", default="{}", help="its arguments (default: {})")
    add("--count-url", metavar="URL", help="the same, by GET")
    add("--company", default="merchant-check", help="the company named in the calls (default: merchant-check)")
    add("--only", metavar="CODES", action="append", default=[], help="these faults, comma-separated (and honest)")
    add("--list", action="store_true", help="list the faults and what each needs, and send nothing")
    add("--json", metavar="FILE", help="the report as JSON; - writes it in place of the text")
    add("--html", metavar="FILE", type=Path, help="the report as a page, with a picture of each failure")
    add("--timeout", metavar="S", type=float, default=10.0, help="seconds for one answer (default: 10)")
    add("--settle", metavar="S", type=float, default=0.3, help="seconds until the second look (default: 0.3)")
    add("--deadline", metavar="S", type=float, default=180.0, help="seconds for it all (default: 180)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        for fault in FAULTS:
            needs = "".join(f" ({OPTION[need]})" for need in fault.needs)
            print(f"{fault.code:16}  {fault.promise}{needs}")
        return 0
    try:
        target = _target(arguments)
        only = _only(arguments.only)
        for option, file in (("--json", arguments.json), ("--html", arguments.html)):
            if file is not None and str(file) != "-" and not Path(file).absolute().parent.is_dir():
                raise CannotRun(f"{option}: there is no folder {Path(file).absolute().parent}")
        ran = asyncio.run(play(target, only, lambda: token_hex(8), time.time, time.monotonic, _progress))
    except CannotRun as reason:
        print(f"oncegate check-merchant: {reason}", file=sys.stderr)
        return 2
    sys.stdout.write(as_json(ran) if arguments.json == "-" else as_text(ran))
    written = [(arguments.json, as_json)] if arguments.json not in (None, "-") else []
    for file, form in [*written, *([(arguments.html, as_html)] if arguments.html else [])]:
        try:
            Path(file).write_text(form(ran), encoding="utf-8")
        except OSError as wrong:
            print(f"oncegate check-merchant: {file} cannot be written: {wrong.strerror}", file=sys.stderr)
            return 2
    return ran.exit_status


def _target(arguments: argparse.Namespace) -> Target:
    for option, given in (("URL", arguments.url), ("--tool", arguments.tool), ("--arguments", arguments.arguments)):
        if not given:
            raise CannotRun(f"{option} is needed; see oncegate check-merchant --help")
    if arguments.count_tool and arguments.count_url:
        raise CannotRun("--count-tool or --count-url, not both")
    return Target(
        url=arguments.url,
        tool=arguments.tool,
        arguments=arguments.arguments,
        secrets=_secrets(arguments.secret_env, arguments.secret_file),
        other=arguments.other_arguments,
        declined=arguments.declined_arguments,
        status_url=arguments.status_url,
        count_tool=arguments.count_tool,
        count_arguments=arguments.count_arguments,
        count_url=arguments.count_url,
        company=arguments.company,
        timeout_s=arguments.timeout,
        settle_s=arguments.settle,
        deadline_s=arguments.deadline,
    )


def _secrets(name: str | None, file: Path | None) -> tuple[str, ...]:
    if name is not None and file is not None:
        raise CannotRun("--secret-env or --secret-file, not both")
    if file is not None:
        try:
            with file.open("rb") as opened:
                return tuple(opened.read(_MOST_SECRET_BYTES).decode().split())
        except (OSError, UnicodeDecodeError):
            raise CannotRun(f"--secret-file {file} cannot be read") from None
    found = os.environ.get(name or FALLBACK_ENV, "").split()
    if not found:
        raise CannotRun(f"${name or FALLBACK_ENV} holds no signing secret: export it, or give --secret-file FILE")
    return tuple(found)


def _only(given: list[str]) -> frozenset[str]:
    codes = [code.strip() for each in given for code in each.split(",") if code.strip()]
    unknown = [code for code in codes if code not in _CODES]
    if unknown:
        raise CannotRun(f"--only: there is no fault {unknown[0]!r}; there are {', '.join(_CODES)}")
    return frozenset(codes)


def _progress(fault: Fault) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{fault.code} …\r", end="", file=sys.stderr, flush=True)
