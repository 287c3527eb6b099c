"""Seals of event logs and the companies' feeds in Redis (7.6): where they lie, and what they cost.

A seal is the first item of its log's list, so that it lives as long as the events. Logs that have events to be sealed
are in their bucket's sorted set, put there by swap.lua. A feed is a stream in the bucket of the company's own log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from gateway.adapters.ledger_codec import UnknownFormat
from gateway.adapters.ledger_events import TOGETHER, read_alone
from gateway.adapters.ledger_keys import Bucket
from gateway.adapters.redis_commands import Argument, SendsCommands
from gateway.adapters.redis_errors import served
from gateway.adapters.redis_listings import Listings
from gateway.adapters.redis_scripts import Script
from gateway.core.conversation import EventLog
from gateway.core.ports import Looked, News, Resealing, Seal, Told

_SEAL: Final = struct.Struct(">BBIIQ32s")
_FIRST, _FORMAT = 255, 1
_encode: Final = msgspec.msgpack.Encoder().encode
_line: Final = msgspec.msgpack.Decoder(tuple[str, int, int]).decode


class Named(Protocol):
    """An event log, or an effect of its conversation."""

    @property
    def company(self) -> str: ...
    @property
    def conversation(self) -> str: ...


def mark_of(log: Named) -> bytes:
    """A log as the set of unsealed ones names it: how long the company's name is (2 bytes), and both names."""
    return _mark(log.company, log.conversation)


@lru_cache(maxsize=1_024)
def _mark(company: str, conversation: str) -> bytes:
    name = company.encode()
    return len(name).to_bytes(2, "big") + name + conversation.encode()


def _marked(mark: bytes) -> EventLog:
    behind = 2 + int.from_bytes(mark[:2], "big")
    return EventLog(mark[2:behind].decode(errors="replace"), mark[behind:].decode(errors="replace"))


class RedisSeals:
    """Implements `gateway.core.ports.Seals`. Raises LedgerUnavailable."""

    def __init__(self, commands: SendsCommands, *, after_s: float = 5.0) -> None:
        """`after_s`: how long an event may wait, so that those of a turn are sealed together."""
        self._after_ms = int(after_s * 1000)
        self._commands = commands
        self._listings = Listings(commands)
        self._look = Script.load("look")
        self._seal = Script.load("seal")
        self._tell = Script.load("tell")

    async def unsealed(self, limit: int, cursor: str | None) -> tuple[list[EventLog], str | None]:
        found, behind = await self._listings.unsealed(limit, cursor, self._after_ms)
        return [_marked(mark) for mark in found], behind

    async def seal(self, conversation: bytes) -> Seal | None:
        first = await served(self._commands.do("LINDEX", Bucket.of(conversation).events, 0))
        return unpacked(first) if first and first[0] == _FIRST else None

    async def look(self, logs: Sequence[EventLog], limit: int) -> Iterable[Looked | None]:
        arguments = [limit + 1, TOGETHER]
        asked = [([Bucket.of(log.digest).events], arguments) for log in logs]
        replies = await served(self._look.run_each(self._commands, asked))
        return (_looked(reply, limit) for reply in replies)

    async def put(self, changes: Sequence[Resealing]) -> list[bool]:
        asked: list[tuple[list[Argument], list[Argument]]] = []
        for change in changes:
            bucket, now = Bucket.of(change.log.digest), change.now
            done = 0 if now is None else min(now.sealed, now.told)
            arguments: list[Argument] = [packed(change.was), packed(now), mark_of(change.log), done]
            asked.append(([bucket.events, bucket.unsealed], arguments))
        return [reply == 1 for reply in await served(self._seal.run_each(self._commands, asked))]

    async def tell(self, news: Sequence[News]) -> None:
        told: dict[tuple[str, int], list[Argument]] = {}
        for each in news:
            line = _encode((each.log.conversation, each.first, each.last))
            told.setdefault((each.log.company, each.keep_ms), []).append(line)
        asked = [([_feed(company)], [keep_ms, *lines]) for (company, keep_ms), lines in told.items()]
        await served(self._tell.run_each(self._commands, asked))

    async def told(self, company: str, after: str, limit: int) -> list[Told]:
        lines = await served(self._commands.do("XRANGE", _feed(company), after, "+", "COUNT", limit))
        return [Told(place.decode(), *_read(fields[1])) for place, fields in lines]


def packed(seal: Seal | None) -> bytes:
    """As the list has it; b"" for none."""
    return b"" if seal is None else _SEAL.pack(_FIRST, _FORMAT, seal.sealed, seal.told, seal.at_ms, seal.head)


def unpacked(raw: bytes) -> Seal:
    """Raises UnknownFormat for what no gateway up to this one has written."""
    if len(raw) != _SEAL.size or raw[1] != _FORMAT:
        raise UnknownFormat("the seal of an event log is not one that this gateway knows", may_have_run=False)
    _, _, sealed, told, at_ms, head = _SEAL.unpack(raw)
    return Seal(sealed, told, at_ms, head)


def _looked(reply: Sequence[bytes], limit: int) -> Looked | None:
    if not reply:
        return None
    first, *lines = reply
    try:
        seal = unpacked(first) if first else None
        sealed = seal.sealed if seal is not None else 0
        skipped = min(sealed, TOGETHER)
        events = read_alone(sealed, lines, skipped) if len(lines) - skipped <= limit else None
    except UnknownFormat:
        return None
    return Looked(seal, events) if events is not None else None


def _feed(company: str) -> bytes:
    return Bucket.of(EventLog(company).digest).feed


def _read(raw: bytes) -> tuple[str, int, int]:
    try:
        return _line(raw)
    except msgspec.MsgspecError as wrong:
        raise UnknownFormat("a line of the feed is not one that this gateway knows", may_have_run=False) from wrong
