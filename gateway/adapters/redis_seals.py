"""Seals of event logs and the companies' feeds in Redis (7.6): where they lie, and what they cost.

A seal is the first item of its log's list, so that it lives as long as the events. Logs that have events to be sealed
are in their bucket's sorted set, put there by swap.lua. A feed is a stream in the bucket of the company's own log.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from gateway.adapters.ledger_codec import UnknownFormat
from gateway.adapters.ledger_keys import Bucket
from gateway.adapters.redis_commands import Argument, SendsCommands
from gateway.adapters.redis_errors import served
from gateway.adapters.redis_listings import Listings
from gateway.adapters.redis_scripts import Script
from gateway.core.conversation import EventLog
from gateway.core.ports import Seal, Told

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


@lru_cache(maxsize=8_192)
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
        self._seal = Script.load("seal")
        self._tell = Script.load("tell")

    async def unsealed(self, limit: int, cursor: str | None) -> tuple[list[EventLog], str | None]:
        found, behind = await self._listings.unsealed(limit, cursor, self._after_ms)
        return [_marked(mark) for mark in found], behind

    async def seal(self, conversation: bytes) -> Seal | None:
        first = await served(self._commands.do("LINDEX", Bucket.of(conversation).events, 0))
        return unpacked(first) if first and first[0] == _FIRST else None

    async def put(self, log: EventLog, was: Seal | None, now: Seal | None) -> bool:
        bucket = Bucket.of(log.digest)
        done = 0 if now is None else min(now.sealed, now.told)
        arguments: list[Argument] = [packed(was), packed(now), mark_of(log), done]
        return bool(await served(self._seal.run(self._commands, [bucket.events, bucket.unsealed], arguments)) == 1)

    async def tell(self, log: EventLog, first: int, last: int, keep_ms: int) -> None:
        line = _encode((log.conversation, first, last))
        await served(self._tell.run(self._commands, [_feed(log.company)], [keep_ms, line]))

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


def _feed(company: str) -> bytes:
    return Bucket.of(EventLog(company).digest).feed


def _read(raw: bytes) -> tuple[str, int, int]:
    try:
        return _line(raw)
    except msgspec.MsgspecError as wrong:
        raise UnknownFormat("a line of the feed is not one that this gateway knows", may_have_run=False) from wrong
