"""A gateway's wire to its merchants: the adapter, the network and the merchant's door in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.core.outcome import Reason, Seen, SeenKind
from gateway.core.ports import MerchantRequest
from tests.faults.clock import wake
from tests.faults.loop import NOBODY
from tests.faults.merchant import Begun, Order, body_of
from tests.faults.network import SERVED
from tests.faults.plan import On
from tests.faults.replies import OK, REPLIES, UNAVAILABLE, Reply, Way, Work
from tests.faults.shop import BY_NAME, STATUS
from tests.faults.status import StatusWire

if TYPE_CHECKING:
    from tests.faults.callers import Served
    from tests.faults.gateways import Process
    from tests.faults.run import World

LATE_S: Final = 6.0
WAIT_S: Final = 0.05
"""Between two looks of a request at the key that another holds."""
LATEST_START: Final = 0.75
"""The part of its deadline after which the adapter begins nothing any more, looked at once it is connected."""


class MerchantWire:
    """The `Merchant` port of one gateway."""

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
        begun = world.books.begin(request.url, key, body, planned)
        if begun is None:
            # The loser of a race waits for the winner, and gets its answer.
            world.loop.call_later(WAIT_S, self._arrive, key, request, planned, heard, comes, context=NOBODY)
            return
        world.books.working[request.url, key] += 1
        work = world.distance(5) + (1.2 if begun.reply.slow else 0.0)
        world.loop.call_later(work, self._finish, request.url, key, body, begun, heard, comes, context=NOBODY)

    def _finish(self, shop: str, key: str, body: bytes, begun: Begun, heard: Any, comes: bool) -> None:
        world, before, reply = self._world, len(self._world.books.orders), begun.reply
        order = world.books.finish(shop, key, body, begun)
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
