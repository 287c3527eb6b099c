"""The primary that sentinels name: found while some of them are away, and asked whether it is one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from redis import exceptions as rx
from redis.asyncio import Redis
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from gateway.adapters.redis_commands import Commands

Address = tuple[str, int]

PERIOD_S: Final = 0.5
"""How often sentinels are asked whether the primary is still the same."""
_OTHERS_S: Final = 0.1
"""How long an answer waits for those of the other sentinels, one of which may know better."""


class Sentinels(Sentinel):
    """Asks all sentinels at once and believes the one that knows of the latest failover.

    redis-py asks one after the other and believes the first: one whose host is gone takes up all the time there is to
    connect, and one that was cut off names a primary that has been replaced.
    """

    async def discover_master(self, service_name: str) -> Address:
        """Raises MasterNotFoundError, with what one of them said as its cause."""
        asked = {asyncio.ensure_future(self._primary(sentinel, service_name)) for sentinel in self.sentinels}
        known: list[tuple[int, Address]] = []
        refused: BaseException | None = None
        pending = asked
        try:
            while pending:
                done, pending = await asyncio.wait(
                    pending, timeout=_OTHERS_S if known else None, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                for each in done:
                    if (error := each.exception()) is not None:
                        refused = error
                    elif (answer := each.result()) is not None:
                        known.append(answer)
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if not known:
            raise MasterNotFoundError(f"no sentinel names a primary for {service_name}") from refused
        return max(known)[1]

    async def _primary(self, sentinel: Any, service_name: str) -> tuple[int, Address] | None:
        """The number of its latest failover, and whom it names since; None where it names nobody who is up."""
        state = (await sentinel.sentinel_masters()).get(service_name)
        named = None if state is None else await sentinel.sentinel_get_master_addr_by_name(service_name)
        if state is None or named is None:
            return None
        address = (_text(named[0]), int(named[1]))
        if address != (state["ip"], state["port"]):
            return int(state["config-epoch"]) + 1, address  # chosen, and about to be announced
        return (int(state["config-epoch"]), address) if self.check_master_state(state, service_name) else None


async def follow(
    client: Redis, commands: Commands, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Leave a primary as soon as sentinels name another one; for ever.

    One that was replaced by hand, or came back to life, takes writes for seconds before it is told that it is a replica
    now, and then forgets them.
    """
    pool = client.connection_pool
    assert isinstance(pool, SentinelConnectionPool)
    while True:
        await sleep(PERIOD_S)
        try:
            async with asyncio.timeout(PERIOD_S):
                address = await pool.sentinel_manager.discover_master(pool.service_name)
        except (rx.RedisError, OSError):
            continue  # nobody says: what is there is as good as anything
        commands.leave_all_but(address)


class _AsksItsRole:
    """A server that is a replica by now, though a sentinel that was cut off still calls it the primary, answers reads
    with what it had then; so it is asked before anything else, as clients of sentinels should."""

    async def connect_to(self, address: Address) -> None:
        await super().connect_to(address)  # type: ignore[misc]
        await self.send_command("ROLE")  # type: ignore[attr-defined]
        try:
            role = (await self.read_response())[0]  # type: ignore[attr-defined]
        except rx.NoPermissionError:
            return  # its user may not ask: writes would be refused all the same
        if role not in (b"master", "master"):
            await self.disconnect()  # type: ignore[attr-defined]
            raise rx.ConnectionError("the server that the sentinels name is not a primary")


class PrimaryConnection(_AsksItsRole, SentinelManagedConnection):
    pass


class SecuredPrimaryConnection(_AsksItsRole, SentinelManagedSSLConnection):
    pass


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
