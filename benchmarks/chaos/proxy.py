"""A TCP proxy that misbehaves: bytes come late, half, or not at all, and connections break in the middle."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from benchmarks.processes import LOOPBACK, free_port

_CHUNK: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Odds:
    """How often a chunk meets what, in either direction; the rest passes. Seconds."""

    slow: float = 0.0
    late: float = 0.0
    cut: float = 0.0
    half: float = 0.0
    slow_s: tuple[float, float] = (0.005, 0.08)
    late_s: tuple[float, float] = (0.6, 1.3)
    """Longer than whoever waits for them has patience; they arrive all the same."""


class Link:
    """Listens on a port of its own for one upstream port. `calm`: everything passes."""

    def __init__(self, name: str, upstream: int, odds: Odds, seed: int) -> None:
        self.name = name
        self.port = free_port()
        self.calm = True
        self.met: Counter[str] = Counter()
        self._upstream = upstream
        self._odds = odds
        self._rng = random.Random(f"{seed}/link/{name}")
        self._requests_pass, self._replies_pass = asyncio.Event(), asyncio.Event()
        self.let_go()
        self._server: asyncio.Server | None = None
        self._pairs: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accepted, LOOPBACK, self.port)

    def refuse(self) -> None:
        """New connections are refused until it listens again; those that stand go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def hold(self, *, replies_only: bool = False) -> None:
        """No byte moves until `let_go`; then all that was held arrives."""
        self._replies_pass.clear()
        if not replies_only:
            self._requests_pass.clear()

    def let_go(self) -> None:
        self._requests_pass.set()
        self._replies_pass.set()

    def cut_all(self) -> None:
        """Break every connection, as a crashing router does."""
        for writer in list(self._writers):
            _reset(writer)

    async def close(self) -> None:
        self.refuse()
        self.let_go()
        self.cut_all()
        for task in self._pairs:
            task.cancel()
        await asyncio.gather(*self._pairs, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs.add(task)
        self._writers.add(writer)
        try:
            await self._requests_pass.wait()
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._upstream)
        except (OSError, asyncio.CancelledError):
            _reset(writer)
            self._writers.discard(writer)
            self._pairs.discard(task)
            return
        self._writers.add(far_writer)
        ways = (
            self._pump(reader, far_writer, writer, self._requests_pass),
            self._pump(far_reader, writer, far_writer, self._replies_pass),
        )
        try:
            await asyncio.gather(*ways)
        except asyncio.CancelledError:
            pass
        finally:
            for each in (writer, far_writer):
                self._writers.discard(each)
                each.close()
            self._pairs.discard(task)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        other: asyncio.StreamWriter,
        passes: asyncio.Event,
    ) -> None:
        with suppress(OSError, RuntimeError):  # one that is closed already says so in its own way
            while data := await reader.read(_CHUNK):
                await passes.wait()
                # Whoever sent this may be gone by the time it is passed on: that is the point of being late.
                fate = self._fate()
                if fate in ("cut", "half"):
                    if fate == "half":
                        writer.write(data[: len(data) // 2])
                        await writer.drain()
                    _reset(other)
                    if fate == "cut":
                        _reset(writer)
                    break
                if fate in ("slow", "late"):
                    low, high = self._odds.slow_s if fate == "slow" else self._odds.late_s
                    await asyncio.sleep(self._rng.uniform(low, high))
                writer.write(data)
                await writer.drain()
        with suppress(OSError, RuntimeError):
            writer.close()

    def _fate(self) -> str:
        if self.calm:
            return "passed"
        drawn, odds = self._rng.random(), self._odds
        for name, chance in (("slow", odds.slow), ("late", odds.late), ("cut", odds.cut), ("half", odds.half)):
            if drawn < chance:
                self.met[name] += 1
                return name
            drawn -= chance
        return "passed"


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a RST; one that the other side has closed meanwhile has no socket any more."""
    plain: socket.socket | None = writer.get_extra_info("socket")
    with suppress(OSError):
        if plain is not None and plain.fileno() >= 0:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
