"""The same front over a Redis Cluster: each command goes to the server that has its keys (4.15).

Every server has a front of its own (`redis_commands`). A command is sent again only where a server said that it did not
run there (MOVED, ASK, TRYAGAIN, CLUSTERDOWN, LOADING), or where there was no connection at all. Once its bytes have
left and no answer came, nobody knows, and it stays at that.

What is known of the slots may be old. That costs a redirection, and nothing else: a server refuses keys that are not
its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from gateway.adapters.ledger_keys import BUCKETS, Bucket
from gateway.adapters.redis_commands import Argument, Commands
from gateway.adapters.redis_errors import ErrorReply, LedgerUnreachable, ScriptMissing
from gateway.adapters.redis_slots import Redirection, address, key_slot, named, owners_said, redirection

PAUSES_S: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
"""Before each further try: about a second, in which a slot's move or a small cluster's vote is often over."""
_REFRESH_S: Final = 0.2
"""The servers are not asked for their slots more often than this, however many commands wait to know."""
_ASKED_AT_ONCE: Final = 3
_ELSEWHERE: Final = frozenset(("ASK", "MOVED", "TRYAGAIN"))
"""Said by a server that is well: it knows better who has the keys, or will before long."""
_NOT_NOW: Final = frozenset(("CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"))
"""Said by one that cannot serve now; another one may have its slots by then."""

Command = tuple[Argument, ...]
Connect = Callable[[str, int], AbstractConnection]


class Primary(NamedTuple):
    """A server that has slots: its address, a front to it alone, and a bucket whose keys are there."""

    name: str
    front: Commands
    bucket: int


class ClusterCommands:
    """What `Commands` is, for a cluster. Every command must name a key; those of one write share a slot.

    ``connect`` makes an unconnected connection to a host and port; ``servers`` are some to ask first. A command is
    tried for at most ``connect_timeout_s`` plus ``command_timeout_s``; the try that is then under way ends as
    `Commands` says.
    """

    one_server = False
    unpacks = True

    def __init__(
        self,
        connect: Connect,
        servers: Sequence[tuple[str, int]],
        *,
        connections: int = 4,
        connect_timeout_s: float = 1.0,
        command_timeout_s: float = 2.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connect = connect
        self._servers = [named(host, port) for host, port in servers]
        self._front_options: dict[str, Any] = {
            "connections": connections,
            "connect_timeout_s": connect_timeout_s,
            "command_timeout_s": command_timeout_s,
        }
        self._patience_s = connect_timeout_s + command_timeout_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._fronts: dict[str, Commands] = {}
        self._owners: dict[int, str] = {}
        self._doubted: set[str] = set()
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[str | None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._turn = 0
        self._closed = False

    async def do(self, *args: Argument) -> Any:
        """As `Commands.do`."""
        return (await self._routed((args,)))[0]

    async def do_together(self, *commands: Command) -> list[Any]:
        """As `Commands.do_together`: one of them, the first, may have keys."""
        return await self._routed(commands)

    async def primaries(self) -> list[Primary]:
        """Every server that has slots. Raises LedgerUnreachable where none says who has which."""
        await self._look()
        owners: dict[str, int] = {}
        for bucket in range(BUCKETS):
            name = self._owners.get(key_slot(Bucket(bucket).probe))
            if name is not None:
                owners.setdefault(name, bucket)
        return [Primary(name, self._front(name), bucket) for name, bucket in owners.items()]

    async def close(self) -> None:
        """Close the fronts of all servers. May be repeated."""
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for name in list(self._fronts):
            self._part_with(name)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _routed(self, commands: tuple[Command, ...]) -> list[Any]:
        slot = key_slot(_key(commands[0]))
        ends = self._monotonic() + self._patience_s
        refused = LedgerUnreachable("the ledger connection was closed", may_have_run=False)
        ask: Redirection | None = None
        for pause in PAUSES_S:
            if pause:
                if self._monotonic() + pause > ends:
                    break
                await self._sleep(pause)
            if self._closed:
                break
            name = ""
            try:
                name = ask.name if ask is not None else await self._owner(slot)
                return await self._told(name, commands, asking=ask is not None)
            except LedgerUnreachable as error:
                refused, ask = error, self._learnt(error, slot, name)
                if error.may_have_run or not _elsewhere_perhaps(error):
                    break
        raise refused

    async def _told(self, name: str, commands: tuple[Command, ...], *, asking: bool) -> list[Any]:
        if not asking:
            return await self._front(name).do_together(*commands)
        # ASKING holds for the next command on its connection alone.
        return (await self._front(name).do_together(("ASKING",), *commands))[1:]

    def _learnt(self, error: LedgerUnreachable, slot: int, name: str) -> Redirection | None:
        """Take from a refusal by `name` what it says of the slots; whom to ask next, if it says so."""
        cause = error.__cause__
        if not isinstance(cause, ErrorReply):
            self._doubted.add(name)  # no connection, or one that broke: another may have its slots by now
            return None
        where = redirection(cause, name)
        if cause.code in _NOT_NOW or (cause.code == "MOVED" and where is None):
            self._doubted.add(name)
        if where is None or where.code == "ASK":
            return where
        self._owners[slot] = where.name
        if self._looking is None and not self._closed:
            # One slot is known anew, others have moved with it as a rule. Nobody waits for it.
            self._looking = self._task(self._ask_around(where.name))
        return None

    async def _owner(self, slot: int) -> str:
        name = self._owners.get(slot)
        if name is None or name in self._doubted:  # calls to the other servers do not wait
            await self._look()
            name = self._owners.get(slot)
        if name is None:
            raise LedgerUnreachable(f"no server of the cluster has slot {slot}", may_have_run=False)
        return name

    async def _look(self) -> None:
        """Learn who has which slots; many who wait share one question. Raises LedgerUnreachable."""
        if self._closed:
            raise LedgerUnreachable("the ledger connection was closed", may_have_run=False)
        if self._looking is None:
            self._looking = self._task(self._ask_around())
        looking = self._looking
        await asyncio.wait([looking])  # not cancelled with one of those who wait for it
        failed = "the ledger connection was closed" if looking.cancelled() else looking.result()
        if failed is not None:
            raise LedgerUnreachable(failed, may_have_run=False)

    async def _ask_around(self, *first: str) -> str | None:
        """Ask one server after the other, a few at a time; what went wrong, in words, where none of them knows."""
        try:
            left = self._looked_at + _REFRESH_S - self._monotonic()
            if left > 0:
                await self._sleep(left)
            self._looked_at = self._monotonic()
            said = "no server of the cluster says who has which slots"
            try:
                async with asyncio.timeout(self._patience_s):
                    for names in (first, *self._groups()):
                        owners = await self._first_answer(names) if names else {}
                        if owners:
                            self._take(owners)
                            return None
            except TimeoutError:
                return f"{said} in time"
            return said
        finally:
            self._looking = None

    def _groups(self) -> list[list[str]]:
        """Whom to ask. Not the same ones first each time: one that was cut off answers with what it knew then."""
        known = list(dict.fromkeys((*self._owners.values(), *self._servers)))
        self._turn += 1
        turn = self._turn % len(known)
        known = known[turn:] + known[:turn]
        return [known[start : start + _ASKED_AT_ONCE] for start in range(0, len(known), _ASKED_AT_ONCE)]

    async def _first_answer(self, names: Sequence[str]) -> dict[int, str]:
        asked = [asyncio.ensure_future(self._asked(name)) for name in names]
        try:
            for answer in asyncio.as_completed(asked):
                if owners := await answer:
                    return owners
            return {}
        finally:
            for each in asked:
                each.cancel()
            await asyncio.wait(asked)

    async def _asked(self, name: str) -> dict[int, str]:
        try:
            return owners_said(await self._front(name).do("CLUSTER", "SLOTS"), name)
        except (LedgerUnreachable, ScriptMissing, RedisError, ValueError):
            return {}

    def _take(self, owners: dict[int, str]) -> None:
        self._owners = owners
        self._doubted.clear()
        # A server without slots is gone, or a replica by now.
        for name in self._fronts.keys() - set(owners.values()) - set(self._servers):
            self._part_with(name)

    def _front(self, name: str) -> Commands:
        """The front of a server; one that is not known yet (ASK names it) is like those that are."""
        front = self._fronts.get(name)
        if front is None:
            if self._closed:
                raise LedgerUnreachable("the ledger connection was closed", may_have_run=False)
            host, port = address(name)
            front = self._fronts[name] = Commands(lambda: self._connect(host, port), **self._front_options)
        return front

    def _part_with(self, name: str) -> None:
        """Close its front once what was sent is answered."""
        closing = asyncio.get_running_loop().create_task(self._fronts.pop(name).close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _task(self, looking: Any) -> asyncio.Task[str | None]:
        return asyncio.get_running_loop().create_task(looking)


def _elsewhere_perhaps(error: LedgerUnreachable) -> bool:
    """Whether another try may be served: not where a server said what it would say again."""
    cause = error.__cause__
    return not isinstance(cause, ErrorReply) or cause.code in _ELSEWHERE or cause.code in _NOT_NOW


def _key(command: Command) -> bytes:
    """The first key of a command: behind the number of keys where it runs a script."""
    key = command[3] if command[0] in ("EVAL", "EVALSHA") else command[1]
    return key if isinstance(key, bytes) else str(key).encode()
