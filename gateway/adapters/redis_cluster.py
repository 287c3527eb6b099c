"""The same front over a Redis Cluster: each command goes to the server that has its keys (4.15).

redis-py knows the servers and which slots they have; every server has a front of its own (`redis_commands`). A
command is sent again only where a server said that it did not run there: MOVED, ASK, TRYAGAIN, CLUSTERDOWN, LOADING,
or no connection at all. Once its bytes have left and no answer came, nobody knows, and it stays at that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from redis import exceptions as rx
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection
from redis.crc import key_slot

from gateway.adapters.ledger_keys import BUCKETS, Bucket
from gateway.adapters.redis_commands import Argument, Commands
from gateway.adapters.redis_errors import ErrorReply, LedgerUnreachable

PAUSES_S: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
"""Before each further try: about a second, in which a slot's move or a small cluster's vote is often over."""
_REFRESH_S: Final = 0.2
"""The servers are not asked for their slots more often than this."""
_NOT_HERE: Final = frozenset(("ASK", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "READONLY", "TRYAGAIN"))

Command = tuple[Argument, ...]


class Primary(NamedTuple):
    """A server that has slots: its address, a front to it alone, and a bucket whose keys are there."""

    name: str
    front: Commands
    bucket: int


class ClusterCommands:
    """What `Commands` is, for a cluster. Every command must name a key; those of one write share a slot."""

    one_server = False
    unpacks = True

    def __init__(
        self,
        cluster: RedisCluster,
        *,
        connections: int = 4,
        connect_timeout_s: float = 1.0,
        command_timeout_s: float = 2.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._connections = connections
        self._connect_timeout_s = connect_timeout_s
        self._command_timeout_s = command_timeout_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._fronts: dict[str, Commands] = {}
        self._known = False
        self._asked_at = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._closed = False

    async def do(self, *args: Argument) -> Any:
        """As `Commands.do`."""
        return (await self._routed((args,)))[0]

    async def do_together(self, *commands: Command) -> list[Any]:
        """As `Commands.do_together`: one of them, the first, may have keys."""
        return await self._routed(commands)

    async def primaries(self) -> list[Primary]:
        """Every server that has slots. Raises LedgerUnreachable where none says who has which."""
        await self._ask()
        owners: dict[str, int] = {}
        for bucket in range(BUCKETS):
            slot = key_slot(Bucket(bucket).probe)
            if slot in self._cluster.nodes_manager.slots_cache:
                owners.setdefault(self._cluster.nodes_manager.get_node_from_slot(slot).name, bucket)
        return [Primary(name, self._front_at(name), bucket) for name, bucket in owners.items()]

    async def close(self) -> None:
        """Close the fronts of all servers. May be repeated."""
        self._closed = True
        await asyncio.gather(*(front.close() for front in self._fronts.values()))

    async def _routed(self, commands: tuple[Command, ...]) -> list[Any]:
        slot = key_slot(_key(commands[0]))
        refused: LedgerUnreachable | None = None
        for pause in PAUSES_S:
            if pause:
                await self._sleep(pause)
            try:
                return await self._told(refused, slot, commands)
            except LedgerUnreachable as error:
                if self._closed or error.may_have_run:
                    self._known = False  # before the next command it is asked who has the slot now
                    raise
                cause = error.__cause__
                if isinstance(cause, ErrorReply) and cause.code not in _NOT_HERE:
                    raise
                # While a slot is on its way, who had it has it still.
                self._known = self._known and isinstance(cause, ErrorReply) and cause.code in ("ASK", "TRYAGAIN")
                refused = error
        assert refused is not None
        raise refused

    async def _told(self, refused: LedgerUnreachable | None, slot: int, commands: tuple[Command, ...]) -> list[Any]:
        """Tell the server that the refusal before named, or the one that is known to have the slot."""
        code, name = _redirection(refused)
        if code == "ASK":
            # ASKING holds for the next command on its connection alone.
            return (await self._front_at(name).do_together(("ASKING",), *commands))[1:]
        front = self._front_at(name) if code == "MOVED" else await self._front_of(slot)
        return await front.do_together(*commands)

    async def _front_of(self, slot: int) -> Commands:
        if not self._known:
            await self._ask()
        try:
            node: ClusterNode = self._cluster.nodes_manager.get_node_from_slot(slot)
        except (rx.RedisClusterException, KeyError) as nobody:
            self._known = False
            raise LedgerUnreachable(f"no server of the cluster has slot {slot}", may_have_run=False) from nobody
        return self._front_at(node.name)

    def _front_at(self, name: str) -> Commands:
        """The front of a server; one that is not known yet (ASK names it) is like those that are."""
        front = self._fronts.get(name)
        if front is None:
            front = self._fronts[name] = Commands(
                lambda: self._connection(name),
                connections=self._connections,
                connect_timeout_s=self._connect_timeout_s,
                command_timeout_s=self._command_timeout_s,
            )
        return front

    def _connection(self, name: str) -> AbstractConnection:
        host, _, port = name.rpartition(":")
        node = ClusterNode(host.strip("[]"), int(port), **self._cluster.nodes_manager.connection_kwargs)
        connection: AbstractConnection = node.connection_class(**node.connection_kwargs)
        return connection

    async def _ask(self) -> None:
        """Learn who has which slots; many who wait share one question. Raises LedgerUnreachable."""
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._look())
            self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # all may have given up
        asking = self._asking
        try:
            await asyncio.shield(asking)
        except (rx.RedisError, OSError, IndexError) as unknown:
            raise LedgerUnreachable(
                f"no server of the cluster says who has which slots: {type(unknown).__name__}", may_have_run=False
            ) from unknown

    async def _look(self) -> None:
        try:
            left = self._asked_at + _REFRESH_S - self._monotonic()
            if left > 0:
                await self._sleep(left)
            self._asked_at = self._monotonic()
            async with asyncio.timeout(self._connect_timeout_s + self._command_timeout_s):
                await self._cluster.nodes_manager.initialize()
            self._known = True
        finally:
            self._asking = None


def _redirection(refused: LedgerUnreachable | None) -> tuple[str, str]:
    """The code word and server of ``MOVED 3999 10.0.0.7:6381``, or of ASK; empty where there is none."""
    words = str(refused.__cause__).split() if refused is not None and isinstance(refused.__cause__, ErrorReply) else []
    if len(words) == 3 and words[0] in ("ASK", "MOVED") and not words[2].startswith((":", "?")):
        return words[0], words[2]
    return "", ""


def _key(command: Command) -> bytes:
    """The first key of a command: behind the number of keys where it runs a script."""
    key = command[3] if command[0] in ("EVAL", "EVALSHA") else command[1]
    return key if isinstance(key, bytes) else str(key).encode()
