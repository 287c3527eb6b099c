"""Listings over all conversations: leases that have lapsed and outcomes that are unknown, a bounded look at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from gateway.adapters import ledger_codec as codec
from gateway.adapters.ledger_keys import BUCKETS, Bucket
from gateway.adapters.redis_commands import Argument, SendsCommands
from gateway.adapters.redis_errors import served
from gateway.adapters.redis_scripts import Script
from gateway.core.ports import Page
from gateway.core.record import Effect, Status

_log = logging.getLogger("oncegate.ledger")

_CHUNK: Final = 256
"""Buckets that are looked into at once."""
_DUE: Final = [Bucket(number).due for number in range(BUCKETS)]
_UNKNOWN: Final = [Bucket(number).unknown for number in range(BUCKETS)]
_UNSEALED: Final = [Bucket(number).unsealed for number in range(BUCKETS)]
MOST_LOOKED_AT: Final = 2_000
"""Unknown outcomes, of whatever company, that one page looks at."""


class Listings:
    """Walks the indexes of all buckets, in their order. Raises LedgerUnavailable."""

    def __init__(self, commands: SendsCommands) -> None:
        self._commands = commands
        self._due = Script.load("due")
        self._unknown = Script.load("unknown")
        self._forget = Script.load("forget")

    async def due(self, limit: int, cursor: str | None) -> Page:
        """As `gateway.core.ports.Ledger.due` says."""
        # The cursor is a bucket and a time, so that what stays due, because nobody can read or end it, is passed once
        # and hides nothing.
        bucket, _, since = (cursor or "0:").partition(":")
        at, after = int(bucket), f"({since}" if since else "-inf"
        found: list[Effect] = []
        seen = 0
        while at < BUCKETS:
            numbers = range(at, min(at + _CHUNK, BUCKETS))
            lapsed = await self._lapsed(numbers, limit - seen, after, _DUE)
            pairs = [(number, id_) for number, id_, _ in lapsed]
            records, gone = await self._looked_up(pairs)
            found += [effect for effect in records if effect is not None]
            for number, id_ in gone:
                await self._drop(number, id_)
            seen += len(lapsed)
            if seen >= limit:
                number, _, when = lapsed[-1]
                return Page(tuple(found), f"{number}:{when.decode()}")
            at, after = numbers[-1] + 1, "-inf"
        return Page(tuple(found), None)

    async def unknown(self, company: str | None, cursor: str | None, limit: int) -> Page:
        """As `gateway.core.ports.Ledger.unknown` says."""
        return await self._listed(_UNKNOWN, Status.INDETERMINATE, company, cursor, limit)

    async def pending(self, company: str, cursor: str | None, limit: int) -> Page:
        """As `gateway.core.ports.Ledger.pending` says: held effects lie where leases do, since both fall due."""
        return await self._listed(_DUE, Status.AWAITING_APPROVAL, company, cursor, limit)

    async def unsealed(self, limit: int, cursor: str | None, after_ms: int) -> tuple[list[bytes], str | None]:
        """About so many logs that have waited `after_ms` to be sealed, as their buckets name them, and the cursor
        behind."""
        bucket, _, since = (cursor or "0:").partition(":")
        at, after = int(bucket), f"({since}" if since else "-inf"
        found: list[bytes] = []
        while at < BUCKETS:
            numbers = range(at, min(at + _CHUNK, BUCKETS))
            lapsed = await self._lapsed(numbers, limit - len(found), after, _UNSEALED, after_ms)
            found += [mark for _, mark, _ in lapsed]
            if len(found) >= limit:
                number, _, when = lapsed[-1]
                return found, f"{number}:{when.decode()}"
            at, after = numbers[-1] + 1, "-inf"
        return found, None

    async def record(self, bucket: int, effect: bytes) -> Effect | None:
        """One record by the first 16 bytes of its effect's id."""
        return (await self._records([(bucket, effect)]))[0]

    async def _listed(
        self, keys: Sequence[bytes], status: Status, company: str | None, cursor: str | None, limit: int
    ) -> Page:
        # The cursor names the last one seen, not how many were: those that ended since move nothing up.
        bucket, _, seen = (cursor or "0:").partition(":")
        at, last = int(bucket), _id_of(seen)
        found: list[Effect] = []
        left = MOST_LOOKED_AT
        while at < BUCKETS:
            numbers = range(at, min(at + _CHUNK, BUCKETS))
            most = min(left, 2 * limit)
            pairs = await self._members(keys, numbers, most, last)
            for (number, member), effect in zip(pairs, await self._records(pairs), strict=True):
                at, last = number, member
                left -= 1
                if effect is not None and effect.status is status and (company is None or effect.company == company):
                    found.append(effect)
                if len(found) == limit or not left:
                    return Page(tuple(found), f"{at}:{last.hex()}")
            if len(pairs) < most:
                at, last = numbers[-1] + 1, b""
        return Page(tuple(found), None)

    async def _lapsed(
        self, numbers: range, limit: int, after: str, keys: Sequence[bytes], overdue_ms: int = 0
    ) -> list[tuple[int, bytes, bytes]]:
        """What has been due for so long in some buckets' sets, in their order: bucket, member, and when it fell due; of
        the first bucket only what fell due `after`."""
        found = await self._look(
            self._due, keys[numbers.start : numbers.stop], limit, after, "-inf", overdue_ms, width=3
        )
        # Where each bucket was asked by itself, the one that reaches the limit may hold more: what is behind it waits.
        last = found[limit - 1][0] if len(found) >= limit else len(numbers)
        return [(numbers[place], id_, when) for place, id_, when in found if place <= last]

    async def _members(self, keys: Sequence[bytes], numbers: range, most: int, last: bytes) -> list[tuple[int, bytes]]:
        """What some buckets' sets hold, in their order: bucket and id; of the first only ids behind `last`."""
        found = await self._look(self._unknown, keys[numbers.start : numbers.stop], most, last, b"", width=2)
        return [(numbers[place], id_) for place, id_ in found[:most]]

    async def _look(
        self,
        script: Script,
        keys: Sequence[Argument],
        limit: int,
        first: Argument,
        others: Argument,
        *more: Argument,
        width: int,
    ) -> list[tuple[Any, ...]]:
        """What a script finds under some keys, `width` values each, the first of them the key's place. Where a script
        may touch one slot only it runs once a key, and `limit` is of each."""
        calls: list[tuple[Sequence[Argument], Sequence[Argument]]] = [(keys, [limit, first, *more])]
        if not self._commands.one_server:
            calls = [([key], [limit, others if place else first, *more]) for place, key in enumerate(keys)]
        answers = await served(script.run_each(self._commands, calls))
        return [
            (before + answer[i] - 1, *answer[i + 1 : i + width])
            for before, answer in enumerate(answers)
            for i in range(0, len(answer), width)
        ]

    async def _drop(self, number: int, id_: bytes) -> None:
        """Nobody swept it while its record stood, and it would be looked for in every pass from now on."""
        bucket = Bucket(number)
        await served(self._forget.run(self._commands, [bucket.due, bucket.records + id_], [id_]))

    async def _records(self, pairs: Sequence[tuple[int, bytes]]) -> list[Effect | None]:
        return (await self._looked_up(pairs))[0]

    async def _looked_up(
        self, pairs: Sequence[tuple[int, bytes]]
    ) -> tuple[list[Effect | None], list[tuple[int, bytes]]]:
        """The records, and the places where there is none."""
        asked = (self._commands.do("GET", Bucket(number).records + id_) for number, id_ in pairs)
        raw = await served(asyncio.gather(*asked))
        found: list[Effect | None] = []
        passed_over: list[codec.UnknownFormat] = []
        for value in raw:
            try:
                found.append(codec.effect_of(codec.opened(value)) if value else None)
            except codec.UnknownFormat as unknown:
                # One that a newer gateway wrote is that gateway's to sweep.
                passed_over.append(unknown)
                found.append(None)
        if passed_over:
            _log.error("%d records were passed over: %s", len(passed_over), passed_over[0])
        return found, [pair for pair, value in zip(pairs, raw, strict=True) if not value]


def _id_of(text: str) -> bytes:
    """The id in a cursor. One that was made up is a place in the order like any other."""
    return bytes.fromhex(text[: len(text) // 2 * 2])
