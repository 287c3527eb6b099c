"""`POST /v1/calls` and its batch. A call runs as a task of its own: a client that hangs up changes nothing (5.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from gateway.core.answer import Answer, answer_bytes
from gateway.core.errors import CallInFlight, GatewayError
from gateway.core.model import Principal
from gateway.core.strict_json import Json
from gateway.service.sending import Trace
from gateway.web.call_fields import read_call
from gateway.web.fault_log import internal_fault
from gateway.web.operations import Asked
from gateway.web.problems import problem_bytes
from gateway.web.replies import JSON, Header, Reply
from gateway.web.services import Services

REPLAYED: Final[tuple[Header, ...]] = ((b"idempotent-replayed", b"true"),)

STOPPED: Final = partial(CallInFlight, "this gateway stopped before the call ended; ask again with the same id")

T = TypeVar("T")


def reply_of(answer: Answer) -> Reply:
    """The 200 of a single call."""
    return Reply(200, answer_bytes(answer), JSON, REPLAYED if answer.replay is not None else ())


class Calls:
    """Runs calls detached from whoever asked, and says how many are running."""

    def __init__(self, services: Services) -> None:
        self._handle = services.handle_call
        self._metrics = services.metrics
        self._clock = services.clock
        self._stopping = services.stopping
        self._at_once = services.limits.batch_at_once
        self._running: set[asyncio.Task[Any]] = set()
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """Calls being answered now."""
        return self._in_flight

    async def drain(self, timeout_s: float) -> bool:
        """For a stop: wait for the calls whose clients are gone as well. Whether all ended in time."""
        if not self._running:
            return True
        _, left = await asyncio.wait(set(self._running), timeout=timeout_s)
        return not left

    async def one(self, asked: Asked) -> Reply:
        """The answer to a single call. Raises GatewayError."""
        began = self._clock.monotonic()
        begun = self._handle.begin(asked.caller, asked.body, asked.trace)
        if isinstance(begun, Answer):  # what needs no waiting needs no task either
            answer = begun
            self._metrics.answered(answer, self._clock.monotonic() - began)
        else:
            answer = await self.detached(self._answer(begun, asked.trace))
        return reply_of(answer)

    def start(
        self, begun: Coroutine[Any, Any, Answer], trace: Trace, said: Callable[[Reply | Exception], None]
    ) -> None:
        """Run what `begin` gave, detached, and hand over its answer or what was wrong."""
        task = asyncio.get_running_loop().create_task(self._told(begun, trace, said))
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def batch(self, asked: Asked) -> Reply:
        """All calls side by side, a bounded number at once; an entry each, a problem where one failed."""
        entries = await self.detached(self._entries(asked.caller, asked.body, asked.trace))
        return Reply(200, b'{"answers":[' + b",".join(entries) + b"]}")

    async def detached(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result; the work runs to its end whatever becomes of whoever waits for it (5.3)."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        task = loop.create_task(work)
        # The loop keeps no strong reference to a task: without this set a call could vanish half-way.
        self._running.add(task)
        task.add_done_callback(partial(self._done, ended))
        try:
            await ended  # and not the task itself: whoever cancels this request must not cancel the call
            return task.result()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.done() or current is None or not self._stopping.begun:
                raise
            # The server's grace is over. The call runs on for as long as the process does, and is recorded as started.
            current.uncancel()
            raise STOPPED() from None

    async def _told(
        self, begun: Coroutine[Any, Any, Answer], trace: Trace, said: Callable[[Reply | Exception], None]
    ) -> None:
        reply: Reply | Exception
        try:
            reply = reply_of(await self._answer(begun, trace))
        except Exception as error:
            reply = error
        said(reply)

    def _done(self, ended: asyncio.Future[None], task: asyncio.Task[Any]) -> None:
        if not ended.done():
            ended.set_result(None)
        self._ended(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, or the loop would log a trace when the caller is gone

    async def _answer(self, begun: Awaitable[Answer], trace: Trace) -> Answer:
        began = self._clock.monotonic()
        self._in_flight += 1
        try:
            answer = await begun
        except GatewayError:
            raise
        except Exception as fault:
            raise internal_fault(fault, trace.request_id) from None
        finally:
            self._in_flight -= 1
        self._metrics.answered(answer, self._clock.monotonic() - began)
        return answer

    async def _entries(self, principal: Principal, calls: list[Json], trace: Trace) -> list[bytes]:
        entries = [b""] * len(calls)
        places = iter(enumerate(calls))
        workers = min(self._at_once, len(calls))
        await asyncio.gather(*(self._work(places, entries, principal, trace) for _ in range(workers)))
        return entries

    async def _work(
        self, places: Iterator[tuple[int, Json]], entries: list[bytes], principal: Principal, trace: Trace
    ) -> None:
        for place, call in places:
            try:
                entries[place] = answer_bytes(
                    await self._answer(self._handle(principal, read_call(call), trace), trace)
                )
            except GatewayError as error:
                self._metrics.problem(error.code)
                entries[place] = problem_bytes(error, trace.request_id)
