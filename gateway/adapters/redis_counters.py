"""Rate limits in Redis: one key a counter, which lives as long as its window (promise 7.5)."""

from __future__ import annotations

from gateway.adapters.redis_commands import SendsCommands
from gateway.adapters.redis_errors import served
from gateway.adapters.redis_scripts import Script
from gateway.core.ports import Counter, Taken

PREFIX = b"og.limit."


class RedisCounters:
    """Implements `gateway.core.ports.Counters`. Raises LedgerUnavailable."""

    def __init__(self, commands: SendsCommands) -> None:
        self._commands = commands
        self._take = Script.load("take")
        self._give_back = Script.load("give_back")

    async def take(self, counter: Counter) -> Taken:
        asked = self._take.run(self._commands, [_key(counter)], [counter.amount, counter.most, counter.window_ms])
        granted, since, left = await served(asked)
        return Taken(granted == 1, since, left)

    async def give_back(self, counter: Counter, taken: Taken) -> None:
        await served(self._give_back.run(self._commands, [_key(counter)], [counter.amount, taken.since]))


def _key(counter: Counter) -> bytes:
    # Hex: a digest may hold a brace, and what stands between two of them would steer its slot.
    return PREFIX + counter.key.hex().encode()
