"""The two wires of a gateway, to the ledger and to the merchant: each write can be lost before it or after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from gateway.adapters.claim_wait import ClaimWait
from gateway.core.conversation import Event, EventLog, View, Where, Writes
from gateway.core.errors import LedgerUnavailable
from gateway.core.outcome import Reason, Seen, SeenKind
from gateway.core.ports import Line, LoggedEvent, MerchantRequest, Page, Swap
from gateway.core.record import Effect
from tests.faults.clock import wake
from tests.faults.loop import NOBODY
from tests.faults.merchant import Order, body_of
from tests.faults.plan import Fault, On
from tests.faults.replies import OK, REPLIES, UNAVAILABLE, Reply, Way, Work
from tests.faults.shop import BY_NAME, STATUS
from tests.faults.status import StatusWire

if TYPE_CHECKING:
    from tests.faults.callers import Served
    from tests.faults.gateways import Process
    from tests.faults.run import World

SERVED: Final[ContextVar[Served | None]] = ContextVar("served", default=None)
"""The request that this coroutine serves, where it serves one."""
GIVEN_UP_S: Final = 0.2
"""How long a gateway waits for a reply of the ledger that does not come."""
LATE_S: Final = 6.0
LATEST_START: Final = 0.75
"""The part of its deadline after which the adapter begins nothing any more, looked at once it is connected."""


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

    async def read(self, where: Where) -> View:
        found: View = await self._ask(On.READ, lambda: self._world.ledger.read(where))
        return found

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

        done: Swap = await self._ask(kind, write, fault, writes)
        return done

    async def append(self, log: EventLog, events: Sequence[Event], keep_ms: int) -> None:
        await self._ask(On.READ, lambda: self._world.ledger.append(log.digest, events))

    async def append_each(self, lines: Sequence[Line]) -> None:
        if lines:
            await self._ask(On.READ, lambda: self._world.ledger.append_each(lines))

    async def events(self, conversation: bytes, after: int, limit: int) -> list[LoggedEvent]:
        found: list[LoggedEvent] = await self._ask(
            On.READ, lambda: self._world.ledger.events(conversation, after, limit)
        )
        return found

    async def last_event(self, conversation: bytes) -> int:
        found: int = await self._ask(On.READ, lambda: self._world.ledger.last_event(conversation))
        return found

    async def due(self, limit: int, cursor: str | None = None) -> Page:
        found: Page = await self._ask(On.READ, lambda: self._world.ledger.due(limit, cursor))
        return found

    async def unknown(self, company: str | None, cursor: str | None, limit: int) -> Page:
        found: Page = await self._ask(On.READ, lambda: self._world.ledger.unknown(company, cursor, limit))
        return found

    async def pending(self, company: str, cursor: str | None, limit: int) -> Page:
        found: Page = await self._ask(On.READ, lambda: self._world.ledger.pending(company, cursor, limit))
        return found

    async def named(self, conversation: bytes, effect: bytes) -> Effect | None:
        found: Effect | None = await self._ask(On.READ, lambda: self._world.ledger.named(conversation, effect))
        return found

    async def ready(self) -> None:
        await self._ask(On.READ, lambda: None)

    async def _ask(
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


class MerchantWire:
    """The `Merchant` port of one gateway: the adapter, the network and the merchant's door in one."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._status = StatusWire(world, process)

    async def send(self, request: MerchantRequest, *, deadline_s: float) -> Seen:
        world, loop = self._world, self._world.loop
        if request.url.endswith(STATUS):
            return await self._status.ask(request, deadline_s=deadline_s)
        key = dict(request.headers)["idempotency-key"]
        served = SERVED.get()
        fault = world.meets(On.SEND)
        reply = OK if fault is None else _declared(served, REPLIES[fault.what])
        if fault is None and loop.now < world.silent_until:
            reply = REPLIES["reset before the work"]
        if fault is not None:
            world.inject(fault, served)
        world.watch.sending(self._process, served, key)
        if deadline_s <= 0:
            return self._saw(served, key, Seen(SeenKind.TIMEOUT, Reason.TIMED_OUT, False), reply, None)
        latest_start = loop.now + deadline_s * LATEST_START
        await self._process.clock.sleep(min(world.distance(9), deadline_s))
        if loop.now > latest_start and world.begins_in_time:
            seen = Seen(SeenKind.NOT_CONNECTED, Reason.TOO_LATE, False)
            return self._saw(served, key, seen, REPLIES[Reason.TOO_LATE], None)
        if reply.way is Way.NO_CONNECTION:
            world.say("merchant", f"cannot be reached for {key[:8]}: {reply.name}")
            return self._saw(served, key, Seen(SeenKind.NOT_CONNECTED, Reason(reply.name), False), reply, None)
        heard = loop.create_future()
        left_s = latest_start + deadline_s * (1 - LATEST_START) - loop.now
        world.watch.leaving(self._process, served, key, left_s)
        timer = loop.call_later(max(0.0, left_s), wake, heard, context=NOBODY)
        late = reply.work is Work.LATE
        comes = reply.work is not Work.NOT
        books = world.books
        books.on_the_way[request.url, key] += comes
        travel = world.distance(3) + (deadline_s + LATE_S * world.distance(4) * 100 if late else 0.0)
        loop.call_later(travel, self._arrive, key, request, reply, heard, comes, context=NOBODY)
        if late and reply.way is Way.RESET:
            loop.call_later(0.02, _hear, heard, (reply, None), context=NOBODY)
        try:
            answer = await heard
        finally:
            timer.cancel()
        if answer is None:
            return self._saw(served, key, Seen(SeenKind.TIMEOUT, Reason.TIMED_OUT, True), reply, None)
        return self._saw(served, key, _seen(*answer), *answer)

    def _arrive(self, key: str, request: MerchantRequest, planned: Reply, heard: Any, comes: bool) -> None:
        world, body = self._world, request.body
        reply = world.books.begin(request.url, key, body, planned)
        world.books.working[request.url, key] += 1
        work = world.distance(5) + (1.2 if reply.slow else 0.0)
        world.loop.call_later(work, self._finish, request.url, key, body, reply, heard, comes, context=NOBODY)

    def _finish(self, shop: str, key: str, body: bytes, reply: Reply, heard: Any, comes: bool) -> None:
        world, before = self._world, len(self._world.books.orders)
        order = world.books.finish(shop, key, body, reply)
        world.books.working[shop, key] -= 1
        world.books.on_the_way[shop, key] -= comes
        done = f"books order O-{order.number}" if len(world.books.orders) > before and order else "books nothing"
        world.say("merchant", f"has {key[:8]}, {done}, answers: {reply.name}")
        if len(world.books.orders) > before and order is not None:
            world.watch.booked(order)
        if reply.way is Way.SILENCE or (reply.work is Work.LATE and reply.way is Way.RESET):
            return
        world.loop.call_later(world.distance(6), _hear, heard, (reply, order), context=NOBODY)

    def _saw(self, served: Served | None, key: str, seen: Seen, reply: Reply, order: Order | None) -> Seen:
        self._world.watch.saw(self._process, served, key, seen, reply, order)
        return seen


def _declared(served: Served | None, reply: Reply) -> Reply:
    """A merchant that declares what its 503 and 409 mean keeps to it (5.1)."""
    declares = served is not None and BY_NAME[served.ask.tool].unavailable_means_not_executed
    return reply._replace(work=Work.NOT) if declares and reply.status in UNAVAILABLE else reply


def _hear(heard: Any, answer: tuple[Reply, Order | None]) -> None:
    if not heard.done():
        heard.set_result(answer)


def _seen(reply: Reply, order: Order | None) -> Seen:
    """What an adapter that does its job makes of it."""
    if reply.way is Way.RESET:
        return Seen(SeenKind.BROKEN, Reason.CONNECTION_LOST, True)
    if reply.way is Way.TRUNCATED:
        return Seen(SeenKind.BROKEN, Reason.REPLY_TRUNCATED, True, reply.status)
    return Seen(
        SeenKind.REPLY,
        Reason.REPLIED,
        True,
        reply.status,
        reply.content_type,
        reply.charset,
        reply.encoding,
        body_of(reply, order),
        reply.too_large,
    )
