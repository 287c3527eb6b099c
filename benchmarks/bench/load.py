"""The load: raw connections that send one request after another, cheap enough not to be what is measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from benchmarks.processes import LOOPBACK

_LENGTH: Final = b"content-length:"
_clock = time.perf_counter


class LoadFailed(Exception):
    """An answer was not what this slice has to get: its figures would mean nothing."""


@dataclass(slots=True)
class Tally:
    """What one drive saw; times in seconds."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def requests(self) -> int:
        return len(self.latencies)


class Connection(asyncio.Protocol):
    """One kept-alive connection. `must` has to be in every answer."""

    def __init__(self, must: bytes) -> None:
        self._must = must
        self._buffer = b""
        self._due = 0
        self._source: Iterator[bytes] = iter(())
        self._until = 0.0
        self._sent_at = 0.0
        self._latencies: list[float] = []
        self._done: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass

    def connection_lost(self, error: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(LoadFailed(f"the connection was lost: {error}"))

    def drive(self, source: Iterator[bytes], until: float, latencies: list[float]) -> asyncio.Future[None]:
        """Send from `source` until the time is over or nothing is left; done when the last answer is read."""
        self._source, self._until, self._latencies = source, until, latencies
        self._done = asyncio.get_running_loop().create_future()
        self._next(_clock())
        return self._done

    def close(self) -> None:
        self._done = None
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        if not self._due:
            head = buffer.find(b"\r\n\r\n")
            if head < 0:
                self._buffer = buffer
                return
            self._due = head + 4 + _content_length(buffer[:head])
        if len(buffer) < self._due:
            self._buffer = buffer
            return
        self._buffer, self._due = b"", 0
        now = _clock()
        if buffer[9:12] != b"200" or self._must not in buffer:
            if self._done is not None and not self._done.done():
                self._done.set_exception(LoadFailed(f"{self._must!r} was due, not {buffer[:800]!r}"))
            return
        self._latencies.append(now - self._sent_at)
        self._next(now)

    def _next(self, now: float) -> None:
        request = next(self._source, None) if now < self._until else None
        if request is None:
            if self._done is not None and not self._done.done():
                self._done.set_result(None)
            return
        self._sent_at = now
        self._transport.write(request)


class Load:
    """Some connections to one server."""

    def __init__(self, connections: list[Connection]) -> None:
        self._connections = connections

    @classmethod
    async def connect(cls, port: int, concurrent: int, must: bytes) -> Load:
        loop = asyncio.get_running_loop()
        made = [await loop.create_connection(lambda: Connection(must), LOOPBACK, port) for _ in range(concurrent)]
        return cls([connection for _, connection in made])

    async def drive(self, sources: list[Iterator[bytes]], seconds: float) -> Tally:
        """One source a connection. Raises LoadFailed."""
        tally = Tally()
        started = _clock()
        futures = [
            connection.drive(source, started + seconds, tally.latencies)
            for connection, source in zip(self._connections, sources, strict=True)
        ]
        await asyncio.gather(*futures)
        tally.seconds = _clock() - started
        return tally

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def _content_length(head: bytes) -> int:
    lowered = head.lower()
    at = lowered.find(_LENGTH)
    if at < 0:
        raise LoadFailed(f"an answer without Content-Length: {head!r}")
    end = lowered.find(b"\r\n", at)
    return int(lowered[at + len(_LENGTH) : end if end >= 0 else None])
