"""Bytes by kind of key, and the time of single trips beside a ledger that grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import cycle
from statistics import median
from typing import Any, Final

from benchmarks.ledger_size.calls import CALLS_A_CONVERSATION, Calls, Times, fill, look_again, store
from gateway.adapters.ledger_keys import BUCKETS, Bucket
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_seals import RedisSeals
from gateway.adapters.system import SystemClock
from gateway.core.requests import Claim
from gateway.service.deciding import Decider
from gateway.service.seal_events import SealEvents

BAR_BYTES: Final = 2_000
KINDS: Final = {
    b"e": "records",
    b"i": "ids",
    b"p": "identical calls",
    b"t": "turns",
    b"l": "live calls",
    b"v": "events",
    b"D": "due leases",
    b"U": "unknown outcomes",
    b"Q": "unsealed logs",
    b"F": "feeds",
}
"""By the letter behind the hash tag (docs/architecture.md)."""
SMALL: Final = 1_000
"""Records of the ledger beside the one that grows."""
_SAMPLE: Final = 1_000


@dataclass(slots=True)
class Kind:
    """Keys of one kind. `bytes` as MEMORY USAGE counts them, the key and its overhead included."""

    keys: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    calls: int
    kinds: dict[str, Kind]
    used_memory: int
    """By how much `used_memory` has grown: allocator and tables included."""

    @property
    def total(self) -> int:
        return sum(kind.bytes for kind in self.kinds.values())

    @property
    def a_call(self) -> float:
        return self.total / self.calls

    @property
    def used_a_call(self) -> float:
        return self.used_memory / self.calls


@dataclass(frozen=True, slots=True)
class Trips:
    """Median µs of one trip, one at a time."""

    claim_us: float
    settle_us: float
    replay_us: float


@dataclass(frozen=True, slots=True)
class Speed:
    """Trips with so many records in the ledger, and in the same moments to one that stays at SMALL: a machine that is
    slow for a while is slow for both, so what tells is how they compare."""

    records: int
    grown: Trips
    small: Trips


@dataclass(slots=True)
class Measured:
    size: Size | None = None
    speeds: list[Speed] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        assert self.size is not None
        kinds = {name: asdict(kind) for name, kind in self.size.kinds.items()}
        return {
            "calls": self.size.calls,
            "bytes_a_call": round(self.size.a_call, 1),
            "used_memory_a_call": round(self.size.used_a_call, 1),
            "at_most": BAR_BYTES,
            "kinds": kinds,
            "speeds": [asdict(speed) for speed in self.speeds],
        }


async def used_memory(commands: Commands) -> int:
    text: bytes = await commands.do("INFO", "memory")
    return int(text.partition(b"used_memory:")[2].split(b"\r\n")[0])


async def size(commands: Commands, calls: int, before: int) -> Size:
    """What every key takes, nothing sampled."""
    after = await used_memory(commands)
    kinds = {name: Kind() for name in KINDS.values()}
    cursor = b"0"
    while True:
        cursor, keys = await commands.do("SCAN", cursor, "COUNT", 1_000)
        if keys:
            sizes = await commands.do_together(*[("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys])
            for key, bytes_ in zip(keys, sizes, strict=True):
                kind = kinds[KINDS[key[8:9]]]
                kind.keys += 1
                kind.bytes += bytes_
        if cursor == b"0":
            break
    return Size(calls, {name: kind for name, kind in kinds.items() if kind.keys}, after - before)


async def seal_all(commands: Commands) -> None:
    """Seal every log, as the sweeper does some seconds after its last event: what is kept is measured with it."""
    for number in range(BUCKETS):
        waiting = await commands.do("ZRANGE", Bucket(number).unsealed, 0, -1)
        if waiting:
            await commands.do("ZADD", Bucket(number).unsealed, *[part for mark in waiting for part in (0, mark)])
    sealing = SealEvents(
        RedisLedger(commands), RedisSeals(commands), SystemClock(), retention_ms=lambda _: 30 * 86_400_000
    )
    await sealing.once()


class _Timed:
    """A ledger to which trips are timed: a few hundred calls more than it has, and some that it has again."""

    def __init__(self, decider: Decider, calls: Calls, known: list[Claim]) -> None:
        self._decider = decider
        self._calls = calls
        self._source = calls.conversations()
        self._known = cycle(known)
        self._times = Times()

    async def once(self) -> None:
        conversation = next(self._source)
        await store(self._decider, conversation, [self._calls.result() for _ in conversation], self._times)
        await look_again(self._decider, next(self._known), self._times)

    def trips(self) -> Trips:
        return Trips(*(median(each) * 1e6 for each in (self._times.claim, self._times.settle, self._times.replay)))


async def speed(records: int, grown: _Timed, small: _Timed) -> Speed:
    for _ in range(_SAMPLE // CALLS_A_CONVERSATION):
        await grown.once()
        await small.once()
    return Speed(records, grown.trips(), small.trips())


async def grow(
    commands: Commands,
    decider: Decider,
    beside: Decider,
    sizes: list[int],
    size_at: int,
    say: Callable[[str], None],
) -> Measured:
    """Fill step by step; measure the size once, the speed at each step. `beside` is of another ledger, to compare."""
    measured, calls, there = Measured(), Calls(), 0
    await fill(decider, Calls(seed=0), 4)  # from here on the server knows the script
    await commands.do("FLUSHALL")
    before = await used_memory(commands)
    others = Calls(seed=2)
    known_beside = await fill(beside, others, SMALL)
    for records in sizes:
        say(f"{records:,} records")
        known = await fill(decider, calls, records - there)
        there = records
        if records == size_at:
            await seal_all(commands)
            measured.size = await size(commands, records, before)
        timed = _Timed(decider, calls, known), _Timed(beside, others, known_beside)
        measured.speeds.append(await speed(records, *timed))
        there += _SAMPLE
    return measured
