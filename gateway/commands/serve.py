"""`oncegate serve`: the gateway."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

import uvloop

from gateway.adapters.redis_program import LocalRedisError
from gateway.adapters.redis_urls import parse_ledger_url
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
    parser.add_argument("--config", type=Path, default=Path("config"), metavar="DIR", help="default: ./config")
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
    _log_to_stderr(arguments.log_level)
    try:
        settings = read_settings(flags, os.environ, arguments.config)
        with bound(settings.http.host, settings.http.port) as sockets:
            _say(f"ledger {parse_ledger_url(settings.ledger.url).safe}{_kept(settings)}")
            uvloop.run(serve(settings, sockets, config=arguments.config, environ=os.environ, say=_say))
    except ConfigError as wrong:
        for problem in wrong.problems:
            print(f"oncegate serve: {problem}", file=sys.stderr)
        return 2
    except LocalRedisError as reason:
        print(f"oncegate serve: {reason}", file=sys.stderr)
        return 2
    except LedgerUnavailable as gone:
        print(
            f"oncegate serve: the ledger {parse_ledger_url(settings.ledger.url).safe} does not answer: "
            f"{gone.__cause__ or gone}",
            file=sys.stderr,
        )
        return 2
    _say("stopped")
    return 0


def _kept(settings: Settings) -> str:
    kind = parse_ledger_url(settings.ledger.url).kind
    if kind == "local":
        return " (the embedded ledger: a private redis-server, every write synced)"
    return " (nothing survives a restart)" if kind == "memory" else ""


def _say(line: str) -> None:
    print(f"oncegate: {line}", file=sys.stderr, flush=True)


def _log_to_stderr(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("oncegate").setLevel(level.upper())
    logging.getLogger("gateway").setLevel(level.upper())
