"""Counters of rate limits: one server's, in plain Python as lua/take.lua and lua/give_back.lua do it, and a gateway's
wire to it, on which each count can be lost before it or after it (7.5). A test holds the server equal to the real one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.core.errors import LedgerUnavailable
from gateway.core.ports import Counter, Taken
from tests.faults.ledger import SimLedger
from tests.faults.ledger_values import put
from tests.faults.network import SERVED, LedgerWire
from tests.faults.plan import On

if TYPE_CHECKING:
    from tests.faults.run import World


class Tally(NamedTuple):
    """What stands: when its window began, how much was counted, and which window of all it is."""

    since: int
    count: int
    window: int
    ends: int


class SimCounters:
    """In the ledger's server, by its clock; a failover loses counts as it loses records."""

    def __init__(self, ledger: SimLedger) -> None:
        self.ledger = ledger
        self.tallies: dict[bytes, Tally] = {}
        self.in_one_step = True
        self.window_ends = True
        self.gives_to_its_window = True
        self._windows = itertools.count(1)

    def look(self, counter: Counter) -> Tally:
        """What stands now; a window that is over, or of a clock that was set back since, is none."""
        now = self.ledger.now_ms()
        found = self._standing(counter)
        if found is not None and self.window_ends:
            over = now >= found.since + counter.window_ms or now < found.since
            found = None if over else found
        return found or Tally(now, 0, next(self._windows), now + counter.window_ms)

    def take(self, counter: Counter, seen: Tally | None = None) -> tuple[Taken, int]:
        """As the port says, and in which window. `seen`: what was looked at in a step of its own."""
        self._needs_room()
        now, found = self.ledger.now_ms(), seen or self.look(counter)
        left = found.since + counter.window_ms - now
        if found.count + counter.amount > counter.most:
            return Taken(False, found.since, left), found.window
        self._put(counter.key, found._replace(count=found.count + counter.amount, ends=now + left))
        return Taken(True, found.since, left), found.window

    def give_back(self, counter: Counter, taken: Taken) -> None:
        self._needs_room()
        found = self._standing(counter)
        if found is None:
            return
        if found.since == taken.since or not self.gives_to_its_window:
            self._put(counter.key, found._replace(count=max(0, found.count - counter.amount)))

    def _standing(self, counter: Counter) -> Tally | None:
        """A key that is looked at after its end is gone, also if the clock is set back behind it."""
        found = self.tallies.get(counter.key)
        if found is not None and self.window_ends and found.ends < self.ledger.now_ms():
            del self.tallies[counter.key]
            return None
        return found

    def _needs_room(self) -> None:
        if self.ledger.full:
            raise LedgerUnavailable("no room", may_have_run=False)

    def _put(self, key: bytes, tally: Tally) -> None:
        undo: list[tuple[Any, Any, Any]] = []
        put(undo, self.tallies, key, tally)
        self.ledger.journal.append((None, undo))


class CountersWire:
    """The `Counters` port of one gateway."""

    def __init__(self, world: World, ledger: LedgerWire) -> None:
        self._world = world
        self._ledger = ledger

    async def take(self, counter: Counter) -> Taken:
        world, served = self._world, SERVED.get()
        assert served is not None, "nobody counts but for a request"
        seen: Tally | None = None
        if not world.counters.in_one_step:
            seen = await self._ledger.ask(On.COUNT, lambda: world.counters.look(counter))

        def count() -> Taken:
            taken, window = world.counters.take(counter, seen)
            world.watch.limits.counted(served, counter, taken, window)
            return taken

        taken: Taken = await self._ledger.ask(On.COUNT, count, world.meets(On.COUNT))
        if taken.granted:
            world.watch.limits.heard(served, counter)
        return taken

    async def give_back(self, counter: Counter, taken: Taken) -> None:
        world, served = self._world, SERVED.get()
        if served is None:
            return  # the history is over, and lets go of what was under way

        def back() -> None:
            world.counters.give_back(counter, taken)
            world.watch.limits.given_back(served, counter)

        try:
            await self._ledger.ask(On.GIVE_BACK, back, world.meets(On.GIVE_BACK))
        except LedgerUnavailable:
            world.watch.limits.cannot_give_back(served)
            raise


FAULTS: Final = (
    "count not sent",
    "count reply lost",
    "count reply slow",
    "give-back not sent",
    "give-back reply lost",
)
