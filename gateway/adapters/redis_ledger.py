"""The ledger on Redis: one script compares and swaps, every rule stays in `gateway.core.step` (4.15)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgpack

from gateway.adapters import ledger_codec as codec
from gateway.adapters.claim_wait import ClaimWait, replies
from gateway.adapters.ledger_events import read_events
from gateway.adapters.ledger_keys import BUCKETS, FENCE, Bucket, bucket_of
from gateway.adapters.ledger_writes import Name, log_of, operations_of, values_of
from gateway.adapters.redis_commands import LedgerUnreachable, ScriptMissing, SendsCommands
from gateway.adapters.redis_errors import served
from gateway.adapters.redis_listings import Listings
from gateway.adapters.redis_scripts import Script
from gateway.adapters.redis_seals import mark_of
from gateway.core.conversation import CallSlot, Event, EventLog, PrintSlot, View, Where, Writes
from gateway.core.errors import LedgerUnavailable
from gateway.core.granting import MAX_LIVE
from gateway.core.ports import Line, LoggedEvent, Page, Swap
from gateway.core.record import Effect

# Not msgspec: what Redis unpacks with is older than MessagePack's type for bytes.
_pack: Final = msgpack.Packer(use_bin_type=False).pack
_UNCHANGED: Final = (b"=", b"", b"")
_CHUNK: Final = 256
"""Appends in one write."""
_THOUGH_FULL: Final = b"end"
_NO_PRINTS: Final = PrintSlot()
_PROBED: Final = range(0, BUCKETS, 256)
"""Buckets that are spread over a cluster's servers."""


class RedisLedger:
    """Implements `gateway.core.ports.Ledger` over one Redis (or fakeredis). Raises LedgerUnavailable."""

    def __init__(
        self,
        commands: SendsCommands,
        *,
        nonce: Callable[[], bytes] = lambda: os.urandom(8),
        wait: ClaimWait | None = None,
    ) -> None:
        self._commands = commands
        self._fence: list[Name] = [] if commands.one_server else [FENCE]
        self._nonce = nonce
        self._wait = wait
        self._swap = Script.load("swap")
        self._lines = Script.load("lines")
        self._length = Script.load("length")
        self._listings = Listings(commands)
        self.confirms = wait is not None

    async def read(self, where: Where) -> View:
        bucket = Bucket.of(where.conversation)
        names = [*bucket.read_by(where), *self._fence]
        answer = await self._run(bucket, names, [b"", bucket.records, b"", 0, b"", 0, 0])
        return _view(bucket, names, answer)

    async def swap(self, where: Where, view: View, writes: Writes) -> Swap:
        bucket, version = Bucket.of(where.conversation), self._nonce()
        values = values_of(where, view, writes)
        versions = view.versions
        names = {**dict.fromkeys((*bucket.read_by(where), *self._fence)), **versions, **values}
        operations = operations_of(view, writes)
        arguments = [
            version,
            bucket.records,
            MAX_LIVE if writes.admits is not None else _THOUGH_FULL if writes.though_full else b"",
            writes.keep_ms,
            log_of(view, writes),
            len(operations) // 4,
            *operations,
            len(writes.events),
            *codec.event_lines(writes.events),
        ]
        for name in names:
            arguments += (versions.get(name, b""), *values.get(name, _UNCHANGED))
        wait = self._wait if self._wait is not None and writes.claims else None
        answer = await self._run(bucket, names, arguments, wait)
        if answer[0] == 1:
            return Swap(True, _after(view, writes, values, version, answer[1]))
        return Swap(False, _view(bucket, list(names), answer))

    async def append(self, log: EventLog, events: Sequence[Event], keep_ms: int) -> None:
        keys, arguments = self._appending(log, events, keep_ms)
        await served(self._swap.run(self._commands, keys, arguments))

    async def append_each(self, lines: Sequence[Line]) -> None:
        asked = [self._appending(line.log, (line.event,), line.keep_ms) for line in lines]
        for start in range(0, len(asked), _CHUNK):
            await served(self._swap.run_each(self._commands, asked[start : start + _CHUNK]))

    def _appending(self, log: EventLog, events: Sequence[Event], keep_ms: int) -> tuple[list[Any], list[Any]]:
        """A swap of no values: it writes its events, whatever else has changed."""
        bucket = Bucket.of(log.digest)
        keys: list[Any] = [bucket.live, bucket.events, bucket.due, bucket.unknown, *bucket.keys(self._fence)]
        lines = codec.event_lines(events)
        unchanged = (b"", *_UNCHANGED) * len(self._fence)
        return keys, [self._nonce(), bucket.records, b"", keep_ms, mark_of(log), 0, len(lines), *lines, *unchanged]

    async def events(self, conversation: bytes, after: int, limit: int) -> list[LoggedEvent]:
        async def lines(start: int, number: int) -> list[bytes]:
            asked = self._lines.run(self._commands, [Bucket.of(conversation).events], [start, number])
            found: list[bytes] = await served(asked)
            return found

        return await read_events(lines, after, limit)

    async def last_event(self, conversation: bytes) -> int:
        return int(await served(self._length.run(self._commands, [Bucket.of(conversation).events], [])))

    async def due(self, limit: int, cursor: str | None = None) -> Page:
        return await self._listings.due(limit, cursor)

    async def unknown(self, company: str | None, cursor: str | None, limit: int) -> Page:
        return await self._listings.unknown(company, cursor, limit)

    async def pending(self, company: str, cursor: str | None, limit: int) -> Page:
        return await self._listings.pending(company, cursor, limit)

    async def named(self, conversation: bytes, effect: bytes) -> Effect | None:
        return await self._listings.record(bucket_of(conversation), effect)

    async def ready(self) -> None:
        if self._commands.one_server:
            await self._probe(0)
            return
        # One that takes writes is enough: calls to the others are refused one by one, and a gateway that is taken out
        # of service for them serves nobody.
        found = await asyncio.gather(*(self._probe(n) for n in _PROBED), return_exceptions=True)
        if all(isinstance(each, BaseException) for each in found):
            raise next(each for each in found if isinstance(each, BaseException))

    async def _probe(self, bucket: int) -> None:
        write = ("SET", Bucket(bucket).probe, b"1", "PX", 60_000)
        if self._wait is None:
            await served(self._commands.do(*write))
        else:
            _, reply = await replies(self._commands.do_together(write, self._wait.command))
            self._wait.check(reply)

    async def _run(
        self, bucket: Bucket, names: Iterable[Name], arguments: list[Any], wait: ClaimWait | None = None
    ) -> list[Any]:
        keys = [bucket.live, bucket.events, bucket.due, bucket.unknown, *bucket.keys(names)]
        if self._commands.unpacks:
            arguments = [_pack(arguments)]
        if wait is not None:
            waited = self._swap.run_before(self._commands, keys, arguments, [wait.command])
            swapped: list[Any]
            swapped, reply = await replies(waited)
            if swapped[0] == 1:
                wait.check(reply)
            return swapped
        answer: list[Any]
        try:
            # What `Script.run` and `served` do, without a coroutine each: there are two of these a call.
            answer = await self._swap.asked(self._commands, keys, arguments)
        except ScriptMissing:
            answer = await served(self._swap.told(self._commands, keys, arguments))
        except LedgerUnreachable as cause:
            raise LedgerUnavailable(may_have_run=cause.may_have_run) from cause
        return answer


def _view(bucket: Bucket, names: Sequence[Name], answer: Sequence[Any]) -> View:
    """Read what swap.lua says stands there."""
    _, now_ms, live, *values = answer
    slots: dict[bytes, CallSlot] = {}
    effects: dict[bytes, Effect | None] = {}
    versions: dict[Name, bytes] = {}
    identical, highest = _NO_PRINTS, 0
    followed = values[len(names) :]
    records: dict[bytes, Effect | None] = {}
    looked_into: list[tuple[bytes, codec.Stored]] = []
    for name, value in zip(names, values, strict=False):
        if name == FENCE:
            continue
        stored = codec.opened(value)
        versions[name] = stored.version
        kind, rest = name
        if kind == "slot":
            looked_into.append((rest, stored))
        elif kind == "identical":
            identical = codec.identical_of(stored)
        elif kind == "turn":
            highest = codec.attempt_of(stored)
        else:
            effects[rest] = records[rest[:16]] = codec.effect_of(stored) if value else None
    at = len(bucket.records)
    for key, value in zip(followed[::2], followed[1::2], strict=True):
        stored = codec.opened(value)
        effect = records[key[at:]] = codec.effect_of(stored) if value else None
        if effect is not None:
            effects[effect.effect_id] = effect
            versions["effect", effect.effect_id] = stored.version
    for digest, stored in looked_into:
        slot = slots[digest] = codec.slot_of(stored, records)
        for gone in [b.effect for b in slot.bindings if b.effect not in effects and b.effect[:16] in records]:
            effects[gone], versions["effect", gone] = None, b""
    return View(now_ms, slots, identical, effects, highest, live, versions)


def _after(
    view: View, writes: Writes, values: Mapping[Name, tuple[Any, Any, bytes]], version: bytes, now_ms: int
) -> View:
    """What stands once the swap was applied."""
    versions = dict(view.versions)
    for name, (action, _, _) in values.items():
        versions[name] = b"" if action == b"d" else version
    effects = dict(view.effects)
    for effect_id, effect in writes.effects.items():
        effects[effect_id] = codec.stamped(effect, now_ms) if effect is not None else None
    return View(
        now_ms,
        {**view.slots, **writes.slots},
        codec.identical_stamped(writes.identical if writes.identical is not None else view.identical, now_ms),
        effects,
        writes.attempt_seen or view.highest_attempt,
        view.live,
        versions,
    )
