"""The ledger that the settings name: opened, and looked at before anything is kept in it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gateway.adapters.claim_wait import ClaimWait
from gateway.adapters.filesystems import network_filesystem
from gateway.adapters.local_redis import SOCKET_NAME, LocalRedis
from gateway.adapters.redis_clients import close_client, connector, open_client
from gateway.adapters.redis_cluster import ClusterCommands
from gateway.adapters.redis_commands import Commands, SendsCommands
from gateway.adapters.redis_errors import served
from gateway.adapters.redis_facts import read_facts
from gateway.adapters.redis_sentinels import follow
from gateway.adapters.redis_urls import LedgerUrl, parse_ledger_url
from gateway.adapters.system import SystemClock
from gateway.core.errors import ConfigError
from gateway.core.ledger_facts import LedgerFacts, Wanted
from gateway.core.ledger_findings import Finding, Severity, of_servers, refusing
from gateway.core.ledger_rules import findings
from gateway.settings import Settings

_log = logging.getLogger("oncegate.ledger")


async def open_commands(
    stack: contextlib.AsyncExitStack, settings: Settings, ended: asyncio.Event | None = None
) -> SendsCommands:
    """A front to the ledger's Redis, with the embedded server started first where the URL says so; `ended` is set
    should that server end before the stack is closed."""
    url = parse_ledger_url(settings.ledger.url)
    if url.kind == "local":
        local = LocalRedis(url.path)
        stack.push_async_callback(local.stop)
        url = LedgerUrl.for_socket(await local.start())
        if ended is not None:
            watching = asyncio.create_task(local.wait())
            watching.add_done_callback(lambda task: None if task.cancelled() else ended.set())
            stack.callback(watching.cancel)
    times: dict[str, Any] = {
        "connect_timeout_s": settings.ledger.connect_timeout_s,
        "command_timeout_s": settings.ledger.command_timeout_s,
    }
    commands: SendsCommands
    if url.kind == "cluster":
        commands = ClusterCommands(connector(url, **times), url.nodes, connections=settings.ledger.connections, **times)
    else:
        client = open_client(url, **times)
        stack.push_async_callback(close_client, client)
        commands = Commands(client, connections=settings.ledger.connections, **times)
        if url.kind == "sentinel":
            stack.push_async_callback(_stop, asyncio.create_task(follow(client, commands)))
    stack.push_async_callback(commands.close)
    return commands


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def beside(folder: Path, command: str) -> str:
    """What to do where another process holds an embedded ledger that a command has to look into: its Redis can be asked
    beside that process, its files cannot."""
    socket = folder.absolute() / SOCKET_NAME
    held = f"the embedded ledger in {folder.absolute()} is open in another process, such as a gateway that runs"
    if not socket.is_socket():  # where the folder's path is too long it lies elsewhere
        return f"{held}: stop that one first"
    return f"{held}; ask its Redis beside it: {command} --ledger {shlex.quote(f'unix://{socket}')}"


async def examine_ledger(settings: Settings, commands: SendsCommands) -> list[Finding]:
    """What is to be said of this ledger (4.14). Raises LedgerUnavailable where it does not answer."""
    asked = settings.ledger
    url = parse_ledger_url(asked.url)
    wanted = Wanted(asked.wait_replicas, asked.wait_fsync, asked.wait_timeout_s)
    if url.kind == "memory":
        return findings(LedgerFacts(kind="memory"), wanted)
    wait, clock = claim_wait(settings), SystemClock()
    if isinstance(commands, ClusterCommands):
        found = {
            server.name: findings(
                await read_facts(server.front, clock, kind="cluster", wait=wait, bucket=server.bucket), wanted
            )
            for server in await served(commands.primaries())
        }
        return of_servers(found)
    facts = await read_facts(commands, clock, kind=url.kind, wait=wait)
    if url.kind == "local":
        facts = msgspec.structs.replace(facts, network_filesystem=network_filesystem(url.path))
    return findings(facts, wanted)


def refuse_unsafe(found: Sequence[Finding], *, allow_unsafe: bool) -> None:
    """Log what is wrong with a ledger. Raises ConfigError for what a gateway must not start with."""
    or_not = " (or start with --allow-unsafe-ledger)"
    refused = [
        f"the ledger: {f.found}; {f.cost}; {f.do}{'' if f.must else or_not} [{f.code}]"
        for f in refusing(found, allow_unsafe=allow_unsafe)
    ]
    if refused:
        raise ConfigError(refused)
    for finding in found:
        if finding.severity in (Severity.WARNING, Severity.UNSAFE) and finding.code != "memory-ledger":
            _log.warning("the ledger: %s; %s", finding.found, finding.cost, extra={"code": finding.code})


def claim_wait(settings: Settings) -> ClaimWait | None:
    """What a claim waits for, if it waits."""
    asked = settings.ledger
    return ClaimWait(asked.wait_replicas, asked.wait_fsync, asked.wait_timeout_s) if asked.waits else None
