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
from gateway.adapters.redis_commands import LedgerUnreachable, ScriptMissing, SendsCommands
from gateway.adapters.redis_errors import served
from gateway.adapters.redis_listings import Listings
from gateway.adapters.redis_scripts import Script
from gateway.core.conversation import CallSlot, Event, PrintSlot, View, Where, Writes
from gateway.core.errors import LedgerUnavailable
from gateway.core.granting import MAX_LIVE
from gateway.core.ports import Line, LoggedEvent, Page, Swap
from gateway.core.record import UNENDING, Effect, Status
from gateway.core.requests import HOLD_MS

Name = tuple[str, bytes]
# Not msgspec: what Redis unpacks with is older than MessagePack's type for bytes.
_pack: Final = msgpack.Packer(use_bin_type=False).pack
_UNCHANGED: Final = (b"=", b"", b"")
_DUE, _UNKNOWN, _LIVE = 3, 4, 1  # key numbers in swap.lua
_CHUNK: Final = 256
"""Appends in one write."""
_FOREVER, _KEEP = "ever", "keep"
_THOUGH_FULL: Final = b"end"
_EMPTIED_MS: Final = 3_600_000
"""How long a slot that was emptied, or was looked into and found empty, differs from one that never was: longer than
any command is under way. A claim that was decided before and arrives after finds it changed (4.11)."""
_NO_PRINTS: Final = PrintSlot()
_PROBED: Final = range(0, BUCKETS, 256)
"""Buckets that are spread over a cluster's servers."""
_INDEXES: Final = (
    (_DUE, (Status.EXECUTING, Status.AWAITING_APPROVAL)),
    (_UNKNOWN, (Status.INDETERMINATE,)),
)


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
        self._listings = Listings(commands)

    async def read(self, where: Where) -> View:
        bucket = Bucket.of(where.conversation)
        names = [*bucket.read_by(where), *self._fence]
        answer = await self._run(bucket, names, [b"", bucket.records, b"", 0, 0, 0])
        return _view(bucket, names, answer)

    async def swap(self, where: Where, view: View, writes: Writes) -> Swap:
        bucket, version = Bucket.of(where.conversation), self._nonce()
        values = _values(where, view, writes)
        versions = view.versions
        names = {**dict.fromkeys((*bucket.read_by(where), *self._fence)), **versions, **values}
        operations = _operations(view, writes)
        arguments = [
            version,
            bucket.records,
            MAX_LIVE if writes.admits is not None else _THOUGH_FULL if writes.though_full else b"",
            writes.keep_ms,
            len(operations) // 4,
            *operations,
            len(writes.events),
            *codec.event_lines(writes.events),
        ]
        for name in names:
            arguments.append(versions.get(name, b""))
            arguments += values.get(name, _UNCHANGED)
        wait = self._wait if self._wait is not None and writes.claims else None
        answer = await self._run(bucket, names, arguments, wait)
        if answer[0] == 1:
            return Swap(True, _after(view, writes, values, version, answer[1]))
        return Swap(False, _view(bucket, list(names), answer))

    async def append(self, conversation: bytes, events: Sequence[Event], keep_ms: int) -> None:
        keys, arguments = self._appending(conversation, events, keep_ms)
        await served(self._swap.run(self._commands, keys, arguments))

    async def append_each(self, lines: Sequence[Line]) -> None:
        asked = [self._appending(line.conversation, (line.event,), line.keep_ms) for line in lines]
        for start in range(0, len(asked), _CHUNK):
            await served(self._swap.run_each(self._commands, asked[start : start + _CHUNK]))

    def _appending(self, conversation: bytes, events: Sequence[Event], keep_ms: int) -> tuple[list[Any], list[Any]]:
        """A swap of no values: it writes its events, whatever else has changed."""
        bucket = Bucket.of(conversation)
        keys: list[Any] = [bucket.live, bucket.events, bucket.due, bucket.unknown, *bucket.keys(self._fence)]
        lines = codec.event_lines(events)
        unchanged = (b"", *_UNCHANGED) * len(self._fence)
        return keys, [self._nonce(), bucket.records, b"", keep_ms, 0, len(lines), *lines, *unchanged]

    async def events(self, conversation: bytes, after: int, limit: int) -> list[LoggedEvent]:
        async def lines(start: int, number: int) -> list[LoggedEvent]:
            asked = self._commands.do("LRANGE", Bucket.of(conversation).events, start, start + number - 1)
            return [codec.event_of(start + 1 + place, line) for place, line in enumerate(await served(asked))]

        return await read_events(lines, after, limit)

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


def _values(where: Where, view: View, writes: Writes) -> dict[Name, tuple[Any, Any, bytes]]:
    """For each value that changes: what to do, how long it may live, and its payload."""
    values: dict[Name, tuple[Any, Any, bytes]] = {}
    for effect_id, effect in writes.effects.items():
        values["effect", effect_id] = (
            (b"d", b"", b"") if effect is None else (b"w", _life(effect, writes), codec.effect_payload(effect))
        )
    records = {**view.effects, **writes.effects}
    for digest, slot in writes.slots.items():
        if not slot.bindings:
            values["slot", digest] = (b"d", b"", b"")
            continue
        life = _FOREVER if _some_open(slot) else _kept(writes)
        values["slot", digest] = (b"w", life, codec.slot_payload(slot, records))
    if writes.identical is not None:
        if writes.identical.known or writes.identical.taken:
            payload = codec.identical_payload(writes.identical)
            life = _FOREVER if _some_unending(writes.identical) else _kept(writes)
            values["identical", where.fingerprint] = (b"w", life, payload)
        else:
            payload = codec.identical_payload(writes.identical)
            values["identical", where.fingerprint] = (b"w", _EMPTIED_MS, payload)
    if writes.attempt_seen is not None and where.turn is not None:
        payload = codec.attempt_payload(writes.attempt_seen)
        values["turn", where.turn.encode()] = (b"w", _kept(writes), payload)
    return values


def _some_open(slot: CallSlot) -> bool:
    # A list, though it may look at more: a generator costs three times as much, and there is mostly one.
    return True in [binding.open for binding in slot.bindings]


def _some_unending(slot: PrintSlot) -> bool:
    return True in [known.status in UNENDING for known in slot.known]


def _life(effect: Effect, writes: Writes) -> int | str:
    if effect.status in UNENDING:
        return _FOREVER
    return _kept(writes) if _begins(effect) else _KEEP


def _begins(effect: Effect) -> bool:
    """Whether its retention starts with this write: a later alias of what is settled or held prolongs nothing."""
    return effect.first_at is None if effect.status is Status.AWAITING_APPROVAL else effect.settled_at is None


def _kept(writes: Writes) -> int:
    # Zero would be a key that is gone at once: a settled call that is run again.
    if writes.keep_ms <= 0:
        raise ValueError("these writes must say how long settled things stay")
    return writes.keep_ms


def _operations(view: View, writes: Writes) -> list[Any]:
    """Index entries: which effects are live, which leases fall due, which outcomes are unknown."""
    operations: list[Any] = []
    for effect_id, after in writes.effects.items():
        before, member = view.effects.get(effect_id), effect_id[:16]
        was = before.status if before is not None else Status.ABSENT
        now = after.status if after is not None else Status.ABSENT
        if now is Status.ABSENT:
            operations += [_LIVE, b"-", member, b""]
        elif now in UNENDING:
            if was not in UNENDING:
                operations += [_LIVE, b"+", member, b"inf"]
        elif after is not None and _begins(after):
            operations += [_LIVE, b"+", member, writes.keep_ms]
        for index, listed in _INDEXES:
            if now in listed and after is not None:
                if was is not now or _starts_anew(after, before):
                    operations += [index, b"+", member, _falls_due(after, view.now_ms or 0)]
            elif was in listed:
                operations += [index, b"-", member, b""]
    return operations


def _starts_anew(effect: Effect, before: Effect | None) -> bool:
    """Whether its time counts from this write, or ends at another moment after it."""
    if effect.status is Status.AWAITING_APPROVAL:
        return effect.approval is not None and effect.approval.at is None
    return effect.claimed_at is None or before is None or effect.lease_ms != before.lease_ms


def _falls_due(effect: Effect, now_ms: int) -> int:
    """In how many ms the sweeper has to look at it; at once for what is unknown, which falls due never."""
    if effect.status is Status.AWAITING_APPROVAL:
        stands = effect.approval.timeout_ms if effect.approval is not None else None
        return HOLD_MS if stands is None else stands
    return max(0, effect.lease_left(now_ms)) if effect.status is Status.EXECUTING else 0


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
