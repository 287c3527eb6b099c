"""Connections by merchant: which are idle, how many there may be, and whose turn it is (promises 5.2, 9.4).

Two limits, each with a queue in which whoever came first goes first: exchanges with one merchant, and open
connections in all. An idle connection counts as open, and is closed for whoever needs its place.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from typing import Any, Final, TypeAlias

from gateway.adapters.http_reply import HttpLimits
from gateway.adapters.http_target import Origin
from gateway.adapters.merchant_connection import MerchantConnection
from gateway.adapters.merchant_dial import ConnectFailed, Dialler

_SWEEP_GAP_S: Final = 0.1
"""The least time between two rounds of closing idle connections. None is used once its time is over."""
_CLOSING_S: Final = 2.0


class TooLate(Exception):
    """No connection was free before most of the deadline had passed: sent now, the call would likely be cut off
    half-way and nobody would know how it ended; not sent, it may simply be made again."""


class PoolClosed(ConnectionError):
    """The client was closed while the call waited."""


class PooledConnection(MerchantConnection):
    """A connection of `lane`. `counted`: it takes up one of all places; `in_turn`: and one of its lane's, else it is
    idle, since `idle_since` on the loop's clock."""

    __slots__ = ("counted", "idle_since", "in_turn", "lane")

    def __init__(self, lane: Lane, limits: HttpLimits, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limits, loop)
        self.lane = lane
        self.counted = False
        self.in_turn = False
        self.idle_since = 0.0

    def on_free(self) -> None:
        self.lane.pool.freed(self)

    def on_end(self) -> None:
        self.lane.pool.ended(self)

    def on_lost(self) -> None:
        self.lane.pool.lost(self)


Turn: TypeAlias = asyncio.Future[PooledConnection | None]
"""With the connection that came free, or without one."""


class Lane:
    """One company's connections to one origin. `busy` counts the turns taken: exchanges, and calls on their way to one.

    A reply that comes too late on a connection is taken for the next request's: what one company's shop leaves behind
    must not be read as the answer of another's (9.1).
    """

    __slots__ = ("__weakref__", "busy", "idle", "origin", "pool", "waiting")

    def __init__(self, pool: MerchantPool, origin: Origin) -> None:
        self.pool = pool
        self.origin = origin
        self.busy = 0
        self.idle: list[PooledConnection] = []  # the one used last is last, and used first
        self.waiting: deque[Turn] = deque()


class MerchantPool:
    """Hands out connections on which nothing has happened. What it hands out comes back by itself, free or ended."""

    def __init__(self, dialler: Dialler, limits: HttpLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._dialler = dialler
        self._limits = limits
        self._loop = loop
        # A lane lives as long as a call or a connection holds it, so that no company ever has two of one origin.
        self._lanes: weakref.WeakValueDictionary[tuple[Origin, str], Lane] = weakref.WeakValueDictionary()
        self._places = limits.connections
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweeping: asyncio.TimerHandle | None = None
        self._emptied = asyncio.Event()
        self._connections: set[PooledConnection] = set()
        self._closed = False

    def lane(self, origin: Origin, company: str) -> Lane:
        """Always the same one while anybody holds it."""
        lane = self._lanes.get((origin, company))
        if lane is None:
            lane = self._lanes[origin, company] = Lane(self, origin)
        return lane

    def take_idle(self, lane: Lane) -> PooledConnection | None:
        """An idle connection to be used at once, or None."""
        while lane.idle and lane.busy < self._limits.per_merchant:
            connection = lane.idle.pop()
            if self._is_usable(connection):
                lane.busy += 1
                connection.in_turn = True
                return connection
            connection.drop()
        return None

    async def take(self, lane: Lane, *, latest: float) -> PooledConnection:
        """Wait for a turn, then for a connection, to be used at once.

        Raises TooLate if that took until after `latest` (the loop's clock), PoolClosed, and what `Dialler.connect`
        raises.
        """
        connection = await self._turn(lane)
        try:
            while True:
                if self._closed:
                    raise PoolClosed
                if self._loop.time() > latest:
                    raise TooLate
                if connection is None:
                    connection = lane.idle.pop() if lane.idle else await self._dialled(lane, latest)
                elif self._is_usable(connection):
                    connection.in_turn = True
                    return connection
                else:
                    connection.drop()
                    connection = None
        except BaseException:
            self._give_back(lane, connection)
            raise

    async def close(self) -> None:
        """End every connection, running exchanges included, and wait a moment for their sockets to close."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        waiting: list[asyncio.Future[Any]] = [*self._waiting]
        for lane in list(self._lanes.values()):
            waiting += lane.waiting
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(PoolClosed())
        for connection in list(self._connections):
            connection.drop()
        if self._connections:
            try:
                async with asyncio.timeout(_CLOSING_S):
                    await self._emptied.wait()
            except TimeoutError:
                pass

    # What its connections call.

    def freed(self, connection: PooledConnection) -> None:
        """Pass it on: to whoever waits for it; or, closed, its place to whoever waits for that; or keep it."""
        self._drop_done(self._waiting)
        if self._waiting or self._closed:
            connection.drop(gently=True)
            return
        connection.watch_socket()
        lane = connection.lane
        connection.in_turn = False
        connection.idle_since = self._loop.time()
        if lane.waiting and self._wake(lane, connection):
            return
        lane.busy -= 1
        lane.idle.append(connection)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(self._limits.idle_s, self._sweep)

    def ended(self, connection: PooledConnection) -> None:
        """Give up its places."""
        lane = connection.lane
        if connection.in_turn:
            connection.in_turn = False
            self._leave(lane)
        elif connection in lane.idle:
            lane.idle.remove(connection)
        if connection.counted:
            connection.counted = False
            self._give_place()

    def lost(self, connection: PooledConnection) -> None:
        """Its socket is closed."""
        self._connections.discard(connection)
        if self._closed and not self._connections:
            self._emptied.set()

    # Turns.

    async def _turn(self, lane: Lane) -> PooledConnection | None:
        if lane.busy < self._limits.per_merchant:
            lane.busy += 1
            return None
        turn: Turn = self._loop.create_future()
        lane.waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._give_back(lane, turn.result())
            raise

    def _wake(self, lane: Lane, connection: PooledConnection | None) -> bool:
        """Hand a turn to the first in the lane's queue."""
        self._drop_done(lane.waiting)
        if not lane.waiting:
            return False
        lane.waiting.popleft().set_result(connection)
        return True

    def _leave(self, lane: Lane) -> None:
        if not self._wake(lane, None):
            lane.busy -= 1

    def _give_back(self, lane: Lane, connection: PooledConnection | None) -> None:
        """Of a turn that is not used, and the connection that came with it."""
        if connection is not None and connection.open:
            connection.in_turn = True
            self.freed(connection)
        else:
            self._leave(lane)

    # Places.

    async def _dialled(self, lane: Lane, latest: float) -> PooledConnection:
        await self._place()
        try:
            if self._loop.time() > latest:
                raise TooLate
            connection = await self._dialler.connect(
                lane.origin, lambda: PooledConnection(lane, self._limits, self._loop), latest=latest
            )
        except BaseException:
            self._give_place()
            raise
        if not lane.origin.secure:
            connection.watch_socket()
        if not connection.is_untouched():
            connection.drop()
            self._give_place()
            raise ConnectFailed
        connection.counted = True
        connection.idle_since = self._loop.time()
        self._connections.add(connection)
        return connection

    async def _place(self) -> None:
        if not self._places:
            self._close_an_idle_one()
        if self._places:
            self._places -= 1
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give_place()
            raise

    def _give_place(self) -> None:
        self._drop_done(self._waiting)
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._places += 1

    # Idle ones.

    def _is_usable(self, connection: PooledConnection) -> bool:
        return self._loop.time() - connection.idle_since < self._limits.idle_s and connection.is_untouched()

    def _close_an_idle_one(self) -> None:
        oldest = [lane.idle[0] for lane in list(self._lanes.values()) if lane.idle]
        if oldest:
            min(oldest, key=lambda connection: connection.idle_since).drop(gently=True)

    def _sweep(self) -> None:
        now = self._loop.time()
        idle_s = self._limits.idle_s
        self._sweeping = None
        nearest: float | None = None
        for lane in list(self._lanes.values()):
            while lane.idle and now - lane.idle[0].idle_since >= idle_s:
                lane.idle[0].drop(gently=True)
            if lane.idle and (nearest is None or lane.idle[0].idle_since < nearest):
                nearest = lane.idle[0].idle_since
        if nearest is not None:
            self._sweeping = self._loop.call_at(max(nearest + idle_s, now + _SWEEP_GAP_S), self._sweep)

    @staticmethod
    def _drop_done(queue: deque[Turn] | deque[asyncio.Future[None]]) -> None:
        """Those at the head who have left."""
        while queue and queue[0].done():
            queue.popleft()
