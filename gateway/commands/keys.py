"""`oncegate keys`: who may speak to the gateway. Works on the ledger itself, not through a gateway."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

from gateway.adapters.local_redis import LedgerInUse, LocalRedis
from gateway.adapters.redis_documents import RedisDocuments
from gateway.adapters.redis_program import LocalRedisError
from gateway.adapters.redis_urls import parse_ledger_url
from gateway.adapters.system import SystemClock, SystemRandomness
from gateway.commands import remote
from gateway.core.errors import ConfigError, GatewayError
from gateway.core.model import Role
from gateway.ledger import beside, open_commands
from gateway.service.manage_keys import ManageKeys
from gateway.service.registry import Registry
from gateway.settings import Settings, read_settings

EXAMPLES = """\
examples:
  oncegate keys create --role runtime --company acme --principal chat-runtime --ledger redis://10.0.0.5:6379/0
  oncegate keys create --role operator --company '*' --principal ops --json
  oncegate keys list
  oncegate keys revoke key_1a2b3c

  oncegate keys list --ledger unix://$PWD/.oncegate/redis.sock     (beside a gateway with the embedded ledger)

A key is shown once and stored only as a hash. The embedded ledger (local:DIR) is open to one process at a time: beside
a gateway that runs, name the socket of its Redis, as above.
"""
_MADE = """\
id: {id}
key (shown once):
{key}
next: give it to its holder, who sends it as `Authorization: Bearer KEY` or exports it as ONCEGATE_KEY"""


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = remote.add_action(actions, "create", "make a key; it is shown once", EXAMPLES)
    create.add_argument("--role", required=True, choices=[role.value for role in Role])
    create.add_argument("--company", action="append", required=True, help="repeat for several; '*' for all")
    create.add_argument("--principal", required=True, metavar="NAME", help="who holds it, as events will say")
    revoke = remote.add_action(actions, "revoke", "end a key; gateways notice within seconds", EXAMPLES)
    revoke.add_argument("id", help="as oncegate keys list shows it")
    for action in (create, remote.add_action(actions, "list", "all keys, without their values", EXAMPLES), revoke):
        action.add_argument("--config", type=Path, default=Path("config"), metavar="DIR", help="default: ./config")
        action.add_argument("--ledger", metavar="URL", help="default: as oncegate serve")
        action.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        settings = read_settings({"ledger.url": arguments.ledger}, os.environ, arguments.config)
        if settings.ledger.url == "memory":
            raise ConfigError(["the memory ledger keeps no keys; use serve --dev with its key `dev`"])
        ledger = parse_ledger_url(settings.ledger.url)
        if ledger.kind == "local" and arguments.action != "create" and not LocalRedis(ledger.path).exists:
            # Looking must not make a ledger: an empty one would say that there are no keys.
            print(f"oncegate keys: there is no ledger in {ledger.path.absolute()}; name one: --ledger", file=sys.stderr)
            return 1
        print(f"oncegate keys: ledger {ledger.safe}", file=sys.stderr)
        return asyncio.run(_act(arguments, settings))
    except ConfigError as wrong:
        for problem in wrong.problems:
            print(f"oncegate keys: {problem}", file=sys.stderr)
        return 2
    except LedgerInUse:
        print(f"oncegate keys: {beside(ledger.path, 'oncegate keys ' + arguments.action)}", file=sys.stderr)
        return 2
    except LocalRedisError as reason:
        print(f"oncegate keys: {reason}", file=sys.stderr)
        return 2
    except GatewayError as problem:
        print(f"oncegate keys: {problem.message}", file=sys.stderr)
        return 1


async def _act(arguments: argparse.Namespace, settings: Settings) -> int:
    async with contextlib.AsyncExitStack() as stack:
        documents = RedisDocuments(await open_commands(stack, settings))
        clock = SystemClock()
        keys = ManageKeys(
            registry=Registry(documents, clock), stored=documents, clock=clock, randomness=SystemRandomness()
        )
        if arguments.action == "create":
            id_, key = await keys.create(
                role=arguments.role, companies=arguments.company, principal=arguments.principal
            )
            print(json.dumps({"id": id_, "key": key}) if arguments.json else _MADE.format(id=id_, key=key))
        elif arguments.action == "revoke":
            await keys.revoke(arguments.id)
            print(json.dumps({"id": arguments.id, "revoked": True}) if arguments.json else f"{arguments.id}: revoked")
        else:
            found = await keys.list()
            if arguments.json:
                print(json.dumps({"keys": found}))
            elif not found:
                print("no keys")
            for row in [] if arguments.json else found:
                companies = ",".join(row["companies"])
                print(f"{row['id']}  {row['role']:9} {companies:20} {row['principal']:20} {row['created_at']}")
    return 0
