"""The primary that sentinels name: found while some of them are away, and asked whether it is one."""

from __future__ import annotations

import asyncio
from typing import Any

from redis import exceptions as rx
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

Address = tuple[str, int]


class Sentinels(Sentinel):
    """Asks all sentinels at once and takes the first that names a primary.

    redis-py asks one after the other, so that one whose host is gone takes up all the time there is to connect.
    """

    async def discover_master(self, service_name: str) -> Address:
        """Raises MasterNotFoundError, or AuthenticationError and the like where one of them says so."""
        asked = [asyncio.ensure_future(self._primary(sentinel, service_name)) for sentinel in self.sentinels]
        refused: Exception | None = None
        try:
            for answer in asyncio.as_completed(asked):
                try:
                    if (found := await answer) is not None:
                        return found
                except (rx.RedisError, OSError) as error:
                    refused = error
            raise MasterNotFoundError(f"no sentinel knows a primary of that name ({_said(refused)})") from refused
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _primary(self, sentinel: Any, service_name: str) -> Address | None:
        state = (await sentinel.sentinel_masters()).get(service_name)
        if state is None or not self.check_master_state(state, service_name):
            return None
        return state["ip"], state["port"]


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


def _said(refused: Exception | None) -> str:
    return "all that answered were asked" if refused is None else type(refused).__name__
