"""`oncegate serve`: the gateway."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import uvloop

from gateway.adapters.redis_program import LocalRedisError
from gateway.adapters.redis_urls import parse_ledger_url
from gateway.commands.error_lines import ErrorLines
from gateway.commands.log_lines import LogLines
from gateway.core.errors import ConfigError, LedgerUnavailable
from gateway.serving import serve
from gateway.settings import Settings, read_settings
from gateway.web.listening import bound

EXAMPLES = """\
examples:
  oncegate serve --dev                                    loopback, key "dev", http merchants on this machine
  oncegate serve --ledger redis://10.0.0.5:6379/0 --host 0.0.0.0
  oncegate serve --ledger memory --dev                    nothing survives a restart

Without --ledger, a private redis-server keeps the ledger under ./.oncegate, with an fsync on every write.
Settings: flag, then environment (ONCEGATE_HTTP_PORT), then CONFIG/gateway.toml, then default.
SIGTERM stops gracefully: /readyz turns first, calls in flight finish and are recorded, exit status 0.
"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("--config", type=Path, metavar="DIR", help="default: ./config, if it is there")
    parser.add_argument(
        "--ledger",
        metavar="URL",
        help="redis://, rediss://, unix://, redis+sentinel://, redis+cluster://, local:DIR or memory",
    )
    parser.add_argument(
        "--allow-unsafe-ledger",
        action="store_true",
        default=None,
        help="start though the ledger's Redis evicts keys or persists nothing (see oncegate doctor)",
    )
    parser.add_argument("--host", help="default: 127.0.0.1")
    parser.add_argument("--port", type=int, help="default: 8080; 0: any free one, which is printed")
    parser.add_argument("--dev", action="store_true", default=None, help='for trying out: loopback only, key "dev"')
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    flags = {
        "ledger.url": arguments.ledger,
        "ledger.allow_unsafe": arguments.allow_unsafe_ledger,
        "http.host": arguments.host,
        "http.port": arguments.port,
        "dev": arguments.dev,
    }
    with _log_to_stderr(arguments.log_level) as lines:
        return _serve(flags, arguments.config, lines)


def _serve(flags: Mapping[str, object], config: Path | None, lines: ErrorLines) -> int:
    def say(line: str) -> None:
        lines.say(f"oncegate: {line}")

    if config is not None and not config.is_dir():
        # Passed over, a folder that is misspelt is a gateway with none of its settings, merchants and rules.
        lines.say(f"oncegate serve: --config {config}: there is no such folder")
        return 2
    config = config or Path("config")

    def complain(problem: object) -> int:
        lines.say(f"oncegate serve: {problem}")
        return 2

    try:
        settings = read_settings(flags, os.environ, config)
        ledger = parse_ledger_url(settings.ledger.url)
        with bound(settings.http.host, settings.http.port) as sockets:
            say(f"ledger {ledger.safe}{_kept(settings)}")
            uvloop.run(serve(settings, sockets, config=config, environ=os.environ, say=say))
    except ConfigError as wrong:
        for problem in wrong.problems:
            complain(problem)
        return 2
    except LocalRedisError as reason:
        return complain(reason)
    except LedgerUnavailable as gone:
        return complain(f"the ledger {ledger.safe} does not answer: {gone.__cause__ or gone}")
    say("stopped")
    return 0


def _kept(settings: Settings) -> str:
    kind = parse_ledger_url(settings.ledger.url).kind
    if kind == "local":
        return " (the embedded ledger: a private redis-server, every write synced)"
    return " (nothing survives a restart)" if kind == "memory" else ""


@contextlib.contextmanager
def _log_to_stderr(level: str) -> Iterator[ErrorLines]:
    """As it was before, afterwards: whoever called this in a process of theirs has a log of their own."""
    handler = ErrorLines()
    handler.setFormatter(LogLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    ours = [logging.getLogger(name) for name in ("oncegate", "gateway")]
    before = [each.level for each in ours]
    for each in ours:
        each.setLevel(level.upper())
    try:
        yield handler
    finally:
        for each, was in zip(ours, before, strict=True):
            each.setLevel(was)
        logging.getLogger().removeHandler(handler)
        handler.close()
