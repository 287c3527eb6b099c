"""The machine itself: its clocks, its randomness, and work that outlives the request that caused it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Coroutine
from typing import Any

_log = logging.getLogger("oncegate.background")


class SystemClock:
    """The machine's clocks."""

    monotonic = staticmethod(time.monotonic)  # asked nine times a call

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemRandomness:
    """The operating system's, fetched a page at a time."""

    def __init__(self) -> None:
        self._pool = b""
        self._at = 0

    def token(self) -> bytes:
        return self._take(16)

    def nonce(self) -> bytes:
        """8 bytes for a version in the ledger."""
        return self._take(8)

    def _take(self, size: int) -> bytes:
        at, self._at = self._at, self._at + size
        if self._at > len(self._pool):
            self._pool, at, self._at = os.urandom(4_096), 0, size
        return self._pool[at : at + size]


class Background:
    """Work that outlives the request that caused it: settling that goes on, notes, withdrawals."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            # Its text may hold what no log may; unlooked at, the loop would print it with a trace.
            _log.error("background work ended early", extra={"fault": type(fault).__name__})

    async def drain(self, timeout_s: float) -> None:
        """Give it time to finish, then stop it; a claim that it did not settle becomes indeterminate (4.5)."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)
        for task in set(self._tasks):
            task.cancel()
