"""A gateway's wire to the ledger: each write can be lost before it or after it, and be late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from gateway.adapters.claim_wait import ClaimWait
from gateway.core.conversation import Event, EventLog, View, Where, Writes
from gateway.core.errors import LedgerUnavailable
from gateway.core.ports import Line, LoggedEvent, Page, Swap
from gateway.core.record import Effect
from tests.faults.loop import NOBODY
from tests.faults.plan import Fault, On

if TYPE_CHECKING:
    from tests.faults.callers import Served
    from tests.faults.run import World

SERVED: Final[ContextVar[Served | None]] = ContextVar("served", default=None)
"""The request that this coroutine serves, where it serves one."""
GIVEN_UP_S: Final = 0.2
"""How long a gateway waits for a reply of the ledger that does not come."""


def kind_of(writes: Writes) -> On:
    """What a swap is for; one of a slot alone takes a claim back (4.11)."""
    types = [event.type for event in writes.events]
    if "approval.granted" in types or "approval.denied" in types:
        return On.DECIDE
    if "effect.executing" in types:
        return On.CLAIM
    if "effect.renewed" in types:
        return On.REPORT
    if not types:
        return On.BIND if writes.slots or writes.effects or writes.attempt_seen else On.END
    return On.BIND if "approval.requested" in types else On.END


class LedgerWire:
    """The `Ledger` port of one gateway. NOSCRIPT is answered below this port, by sending the script again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._wait = ClaimWait(replicas=1, fsync=world.plan.seed % 2 == 1, timeout_s=0.1) if world.plan.waits else None

    @property
    def confirms(self) -> bool:
        return self._wait is not None

    async def read(self, where: Where) -> View:
        try:
            found: View = await self.ask(On.READ, lambda: self._world.ledger.read(where))
        except LedgerUnavailable as lost:
            self._unheard(lost)
            raise
        return found

    def _unheard(self, lost: LedgerUnavailable) -> None:
        """What comes of it is not known to whoever asked."""
        served = SERVED.get()
        if served is not None and lost.may_have_run:
            served.unheard = True

    async def swap(self, where: Where, view: View, writes: Writes) -> Swap:
        kind = kind_of(writes)
        fault = self._world.meets(kind)
        if fault is None and kind is On.DECIDE and writes.claims:
            fault = self._world.meets(On.CLAIM)  # a grant is a claim as well
        served = SERVED.get()
        if fault is None and kind in (On.END, On.CLAIM) and served is not None and served.claim_token:
            fault = self._world.meets(On.REPORT)
        if fault is not None and fault.kind == "too few replicas" and self._wait is None:
            fault = None
        short = fault is not None and fault.kind == "too few replicas"

        def write() -> Swap:
            self._world.watch.writer = served
            swap = self._world.ledger.swap(where, view, writes)
            self._world.watch.writer = None
            if self._wait is not None and swap.applied and writes.claims:
                if not short:
                    self._world.ledger.acknowledged()
                # As the adapter does with what the server answers to WAIT or WAITAOF.
                self._wait.check([1, int(not short)] if self._wait.fsync else int(not short))
            return swap

        try:
            done: Swap = await self.ask(kind, write, fault, writes)
        except LedgerUnavailable as lost:
            self._unheard(lost)
            raise
        return done

    async def append(self, log: EventLog, events: Sequence[Event], keep_ms: int) -> None:
        await self.ask(On.READ, lambda: self._world.ledger.append(log.digest, events))

    async def append_each(self, lines: Sequence[Line]) -> None:
        if lines:
            await self.ask(On.READ, lambda: self._world.ledger.append_each(lines))

    async def events(self, conversation: bytes, after: int, limit: int) -> list[LoggedEvent]:
        found: list[LoggedEvent] = await self.ask(
            On.READ, lambda: self._world.ledger.events(conversation, after, limit)
        )
        return found

    async def last_event(self, conversation: bytes) -> int:
        found: int = await self._ask(On.READ, lambda: self._world.ledger.last_event(conversation))
        return found

    async def due(self, limit: int, cursor: str | None = None) -> Page:
        found: Page = await self.ask(On.READ, lambda: self._world.ledger.due(limit, cursor))
        return found

    async def unknown(self, company: str | None, cursor: str | None, limit: int) -> Page:
        found: Page = await self.ask(On.READ, lambda: self._world.ledger.unknown(company, cursor, limit))
        return found

    async def pending(self, company: str, cursor: str | None, limit: int) -> Page:
        found: Page = await self.ask(On.READ, lambda: self._world.ledger.pending(company, cursor, limit))
        return found

    async def named(self, conversation: bytes, effect: bytes) -> Effect | None:
        found: Effect | None = await self.ask(On.READ, lambda: self._world.ledger.named(conversation, effect))
        return found

    async def ready(self) -> None:
        await self.ask(On.READ, lambda: None)

    async def ask(
        self, kind: On, run: Callable[[], Any], fault: Fault | None = None, writes: Writes | None = None
    ) -> Any:
        world, loop = self._world, self._world.loop
        if kind is On.READ:
            fault = world.meets(kind)
        name = "" if fault is None else fault.kind
        there, back = world.distance(1), world.distance(2)
        if writes is not None and name == "out of memory at settle" and fault is not None:
            world.ledger.full = True
            loop.call_later(fault.amount, world.ledger_has_room, context=NOBODY)
        if fault is not None:
            world.inject(fault, SERVED.get())
        heard = loop.create_future()
        if world.ledger_down or name.endswith("not sent"):
            loop.call_later(there, _fail, heard, False, context=NOBODY)
        elif "delivered after" in name and fault is not None:
            loop.call_later(GIVEN_UP_S, _fail, heard, True, context=NOBODY)
            loop.call_later(GIVEN_UP_S + fault.amount, self._deliver_late, run, context=NOBODY)
        else:
            loop.call_later(
                there, self._deliver, run, heard, back, fault, writes if kind is On.END else None, context=NOBODY
            )
        return await heard

    def _deliver(
        self, run: Callable[[], Any], heard: Any, back: float, fault: Fault | None, ends: Writes | None = None
    ) -> None:
        world, loop = self._world, self._world.loop
        if world.ledger_down:
            loop.call_later(back, _fail, heard, True, context=NOBODY)
            return
        try:
            answer = run()
        except LedgerUnavailable as unavailable:
            if world.ledger.full and ends is not None:
                world.watch.refused_for_room.update(id_.hex() for id_ in ends.effects)
            loop.call_later(back, _fail, heard, unavailable.may_have_run, context=NOBODY)
            return
        name = "" if fault is None else fault.kind
        if name.endswith("lost"):
            loop.call_later(GIVEN_UP_S, _fail, heard, True, context=NOBODY)
            return
        if fault is not None and name.endswith("slow"):
            back += fault.amount
        loop.call_later(back, self._reply, heard, answer, world.outages, context=NOBODY)

    def _reply(self, heard: Any, answer: Any, outages: int) -> None:
        if self._world.outages != outages:
            _fail(heard, True)  # the connection went down under the reply
        elif not heard.done():
            heard.set_result(answer)

    def _deliver_late(self, run: Callable[[], Any]) -> None:
        if not self._world.ledger_down:
            self._world.say("ledger", "a claim arrives that its sender gave up long ago")
            try:
                run()
            except LedgerUnavailable:
                return


def _fail(heard: Any, may_have_run: bool) -> None:
    if not heard.done():
        heard.set_exception(LedgerUnavailable(may_have_run=may_have_run))
