"""The ledger on Redis: one script compares and swaps, every rule stays in `gateway.core.step` (4.15)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gateway.adapters import ledger_codec as codec
from gateway.adapters.ledger_keys import BUCKETS, Bucket
from gateway.adapters.redis_commands import Commands, LedgerUnreachable
from gateway.adapters.redis_scripts import Script
from gateway.core.conversation import CallSlot, Event, View, Where, Writes
from gateway.core.errors import LedgerUnavailable
from gateway.core.granting import MAX_LIVE
from gateway.core.ports import Line, LoggedEvent, Page, Swap
from gateway.core.record import UNENDING, Effect, Status

_log = logging.getLogger("oncegate.ledger")

Name = tuple[str, bytes]
_UNCHANGED: Final = (b"=", b"", b"")
_DUE, _UNKNOWN, _LIVE = 3, 4, 1  # key numbers in swap.lua
_CHUNK: Final = 256
MOST_LOOKED_AT: Final = 2_000
"""Unknown outcomes, of whatever company, that one page looks at."""
_FOREVER, _KEEP = "ever", "keep"
_INDEXES: Final = ((Status.EXECUTING, _DUE), (Status.INDETERMINATE, _UNKNOWN))


class RedisLedger:
    """Implements `gateway.core.ports.Ledger` over one Redis (or fakeredis). Raises LedgerUnavailable."""

    def __init__(self, commands: Commands, *, nonce: Callable[[], bytes] = lambda: os.urandom(8)) -> None:
        self._commands = commands
        self._nonce = nonce
        self._swap = Script.load("swap")
        self._due = Script.load("due")
        self._unknown = Script.load("unknown")

    async def read(self, where: Where) -> View:
        bucket = Bucket.of(where.conversation)
        names = bucket.read_by(where)
        answer = await self._run(bucket, names, [b"", bucket.records, b"", 0, 0, 0])
        return _view(bucket, names, answer)

    async def swap(self, where: Where, view: View, writes: Writes) -> Swap:
        bucket, version = Bucket.of(where.conversation), self._nonce()
        values = _values(where, writes)
        versions = view.versions
        names = list({**dict.fromkeys(bucket.read_by(where)), **versions, **values})
        operations = _operations(view, writes)
        arguments = [
            version,
            bucket.records,
            b"" if writes.admits is None else MAX_LIVE,
            writes.keep_ms,
            len(operations) // 4,
            *operations,
            len(writes.events),
            *[codec.event_bytes(event) for event in writes.events],
        ]
        for name in names:
            arguments += (versions.get(name, b""), *values.get(name, _UNCHANGED))
        answer = await self._run(bucket, names, arguments)
        if answer[0] == 1:
            return Swap(True, _after(view, writes, values, version, answer[1]))
        return Swap(False, _view(bucket, names, answer))

    async def append(self, conversation: bytes, events: Sequence[Event], keep_ms: int) -> None:
        keys, arguments = self._appending(conversation, events, keep_ms)
        await self._guarded(self._swap.run(self._commands, keys, arguments))

    async def append_each(self, lines: Sequence[Line]) -> None:
        asked = [self._appending(line.conversation, (line.event,), line.keep_ms) for line in lines]
        for start in range(0, len(asked), _CHUNK):
            await self._guarded(self._swap.run_each(self._commands, asked[start : start + _CHUNK]))

    def _appending(self, conversation: bytes, events: Sequence[Event], keep_ms: int) -> tuple[list[Any], list[Any]]:
        """A swap of no values: it writes its events, whatever else has changed."""
        bucket = Bucket.of(conversation)
        keys: list[Any] = [bucket.live, bucket.events, bucket.due, bucket.unknown]
        lines = [codec.event_bytes(event) for event in events]
        return keys, [self._nonce(), bucket.records, b"", keep_ms, 0, len(lines), *lines]

    async def events(self, conversation: bytes, after: int, limit: int) -> list[LoggedEvent]:
        raw = await self._do("LRANGE", Bucket.of(conversation).events, after, after + limit - 1)
        return [codec.event_of(after + 1 + place, line) for place, line in enumerate(raw)]

    async def due(self, limit: int) -> list[Effect]:
        found: list[Effect] = []
        for start in range(0, BUCKETS, _CHUNK):
            numbers = range(start, min(start + _CHUNK, BUCKETS))
            answer = await self._guarded(
                self._due.run(self._commands, [Bucket(n).due for n in numbers], [limit - len(found)])
            )
            pairs = [(numbers[answer[i] - 1], answer[i + 1]) for i in range(0, len(answer), 2)]
            found.extend(e for e in await self._records(pairs) if e is not None)
            if len(found) >= limit:
                break
        return found

    async def unknown(self, company: str | None, cursor: str | None, limit: int) -> Page:
        # The cursor names the last one seen, not how many were: those resolved since move nothing up.
        bucket, _, seen = (cursor or "0:").partition(":")
        at, last = int(bucket), _id_of(seen)
        found: list[Effect] = []
        left = MOST_LOOKED_AT
        while at < BUCKETS:
            numbers = range(at, min(at + _CHUNK, BUCKETS))
            keys = [Bucket(n).unknown for n in numbers]
            most = min(left, 2 * limit)
            answer = await self._guarded(self._unknown.run(self._commands, keys, [most, last]))
            pairs = [(numbers[answer[i] - 1], answer[i + 1]) for i in range(0, len(answer), 2)]
            for (number, member), effect in zip(pairs, await self._records(pairs), strict=True):
                at, last = number, member
                left -= 1
                if (
                    effect is not None
                    and effect.status is Status.INDETERMINATE
                    and (company is None or effect.company == company)
                ):
                    found.append(effect)
                if len(found) == limit or not left:
                    return Page(tuple(found), f"{at}:{last.hex()}")
            if len(pairs) < most:
                at, last = numbers[-1] + 1, b""
        return Page(tuple(found), None)

    async def ready(self) -> None:
        await self._do("SET", Bucket(0).probe, b"1", "PX", 60_000)

    async def _records(self, pairs: Sequence[tuple[int, bytes]]) -> list[Effect | None]:
        raw = await asyncio.gather(*(self._do("GET", Bucket(number).records + id_) for number, id_ in pairs))
        return [_readable(value) for value in raw]

    async def _run(self, bucket: Bucket, names: Sequence[Name], arguments: list[Any]) -> list[Any]:
        keys = [bucket.live, bucket.events, bucket.due, bucket.unknown, *[bucket.key(name) for name in names]]
        try:
            answer: list[Any] = await self._swap.run(self._commands, keys, arguments)
        except LedgerUnreachable as cause:
            raise LedgerUnavailable(may_have_run=cause.may_have_run) from cause
        return answer

    async def _do(self, *arguments: Any) -> Any:
        return await self._guarded(self._commands.do(*arguments))

    async def _guarded(self, asked: Any) -> Any:
        try:
            return await asked
        except LedgerUnreachable as cause:
            raise LedgerUnavailable(may_have_run=cause.may_have_run) from cause


def _id_of(text: str) -> bytes:
    """The id in a cursor. One that was made up is a place in the order like any other."""
    return bytes.fromhex(text[: len(text) // 2 * 2])


def _readable(value: bytes | None) -> Effect | None:
    """A record of a listing. One that a newer gateway wrote is that gateway's to sweep: it is passed over here."""
    try:
        return codec.effect_of(codec.opened(value)) if value else None
    except codec.UnknownFormat as unknown:
        _log.error("a record was passed over: %s", unknown)
        return None


def _view(bucket: Bucket, names: Sequence[Name], answer: Sequence[Any]) -> View:
    """Read what swap.lua says stands there."""
    _, now_ms, live, *values = answer
    slots: dict[bytes, CallSlot] = {}
    effects: dict[bytes, Effect | None] = {}
    versions: dict[Name, bytes] = {}
    view = View(now_ms=now_ms, slots=slots, effects=effects, live=live, versions=versions)
    identical, highest = view.identical, 0
    for name, value in zip(names, values, strict=False):
        stored = codec.opened(value)
        versions[name] = stored.version
        kind, rest = name
        if kind == "slot":
            slots[rest] = codec.slot_of(stored)
        elif kind == "identical":
            identical = codec.identical_of(stored)
        elif kind == "turn":
            highest = codec.attempt_of(stored)
        else:
            effects[rest] = codec.effect_of(stored) if value else None
    pointed = {bucket.record(b.effect): b.effect for slot in slots.values() for b in slot.bindings}
    followed = values[len(names) :]
    for key, value in zip(followed[::2], followed[1::2], strict=True):
        stored = codec.opened(value)
        effects[pointed[key]] = codec.effect_of(stored) if value else None
        versions["effect", pointed[key]] = stored.version
    return View(now_ms, slots, identical, effects, highest, live, versions)


def _values(where: Where, writes: Writes) -> dict[Name, tuple[Any, Any, bytes]]:
    """For each value that changes: what to do, how long it may live, and its payload."""
    values: dict[Name, tuple[Any, Any, bytes]] = {}
    for effect_id, effect in writes.effects.items():
        values["effect", effect_id] = (
            (b"d", b"", b"") if effect is None else (b"w", _life(effect, writes), codec.effect_payload(effect))
        )
    for digest, slot in writes.slots.items():
        if not slot.bindings:
            values["slot", digest] = (b"d", b"", b"")
            continue
        life = _FOREVER if any(b.open for b in slot.bindings) else _kept(writes)
        values["slot", digest] = (b"w", life, codec.slot_payload(slot))
    if writes.identical is not None:
        if writes.identical.known or writes.identical.taken:
            unending = any(k.status in UNENDING for k in writes.identical.known)
            payload = codec.identical_payload(writes.identical)
            values["identical", where.fingerprint] = (b"w", _FOREVER if unending else _kept(writes), payload)
        else:
            values["identical", where.fingerprint] = (b"d", b"", b"")
    if writes.attempt_seen is not None and where.turn is not None:
        payload = codec.attempt_payload(writes.attempt_seen)
        values["turn", where.turn.encode()] = (b"w", _kept(writes), payload)
    return values


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
        for status, index in _INDEXES:
            if now is status and after is not None and (was is not status or after.claimed_at is None):
                operations += [index, b"+", member, after.lease_ms if status is Status.EXECUTING else 0]
            elif was is status and now is not status:
                operations += [index, b"-", member, b""]
    return operations


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
