"""The registry's documents on Redis: one hash, one counter, and a script that compares and sets.

Both keys carry one hash tag, so a cluster keeps them in one slot. Neither ever expires.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from gateway.adapters.redis_commands import LedgerUnreachable, SendsCommands
from gateway.adapters.redis_scripts import Script
from gateway.core.errors import LedgerUnavailable

CONTENT_KEY: Final = b"{og.doc}h"
VERSION_KEY: Final = b"{og.doc}n"


class RedisDocuments:
    """Implements `gateway.core.ports.Documents` over one Redis (or fakeredis). Raises LedgerUnavailable."""

    def __init__(self, commands: SendsCommands) -> None:
        self._commands = commands
        self._change = Script.load("change")

    async def load(self) -> dict[str, bytes]:
        pairs = await self._guarded(self._commands.do("HGETALL", CONTENT_KEY))
        return {name.decode(): content for name, content in zip(pairs[::2], pairs[1::2], strict=True)}

    async def version(self) -> int:
        return int(await self._guarded(self._commands.do("GET", VERSION_KEY)) or 0)

    async def change(self, name: str, content: bytes | None, expected: bytes | None) -> bool:
        arguments: list[bytes] = [name.encode()]
        arguments += [b"-", b""] if expected is None else [b"=", expected]
        arguments += [b"d", b""] if content is None else [b"w", content]
        answer = await self._guarded(self._change.run(self._commands, [CONTENT_KEY, VERSION_KEY], arguments))
        return bool(answer[0] == 1)

    async def _guarded(self, asked: Awaitable[Any]) -> Any:
        try:
            return await asked
        except LedgerUnreachable as cause:
            raise LedgerUnavailable(may_have_run=cause.may_have_run) from cause
