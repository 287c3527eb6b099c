"""An event loop of virtual time: nothing waits, everything happens in one order that the history alone decides.

Every resumption of a coroutine between two awaits is one step here, and belongs to the process in whose context it
was scheduled. So a process can be ended before exactly the n-th of its steps, or put to sleep there.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, Protocol

MOST_STEPS: Final = 60_000
"""More is a history that never ends: a fault, not a long story."""

NOBODY: Final = Context()
"""The context of what no process does: the network, the ledger, the merchants, the customers."""


class Owner(Protocol):
    """A process as the loop sees it."""

    def takes_step(self, loop: Loop, step: Step) -> bool:
        """Whether the step is run now; if not, it is dropped or was put off."""
        ...


OWNER: Final[ContextVar[Owner | None]] = ContextVar("owner", default=None)


class TooLong(Exception):
    """The history took more steps than any should."""


class Step:
    """One callback, and whose it is. Stands in for asyncio.Handle."""

    __slots__ = ("args", "callback", "context", "owner", "stopped")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.owner = context.get(OWNER)
        self.stopped = False

    def cancel(self) -> None:
        self.stopped = True

    def cancelled(self) -> bool:
        return self.stopped


class Loop(asyncio.AbstractEventLoop):
    """As much of an event loop as coroutines, futures, tasks, events and `asyncio.wait` ask for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self.faults: list[BaseException] = []
        """What tasks raised and nobody took."""
        self.stopped = False
        self._ready: deque[Step] = deque()
        self._timers: list[tuple[float, int, Step]] = []
        self._number = 0
        self._closed = False
        self._tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._closed

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: Any = None, context: Any = None) -> Any:
        task = asyncio.Task(coro, loop=self, name="t", context=context)
        self._tasks.append(task)
        return task

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        step = Step(callback, args, copy_context() if context is None else context)
        if not self._closed:
            self._ready.append(step)
        return step

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        step = Step(callback, args, copy_context() if context is None else context)
        if not self._closed:
            self.put_off(step, when)
        return step

    def put_off(self, step: Step, when: float) -> None:
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, step))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        if fault is not None:
            self.faults.append(fault)

    def drain(self, until: float = float("inf")) -> None:
        """Run until nothing is left to do before `until`, or somebody stops the history."""
        ready, timers = self._ready, self._timers
        while not self.stopped:
            if not ready:
                while timers and timers[0][2].stopped:
                    heapq.heappop(timers)
                if not timers or timers[0][0] > until:
                    return
                self.now = max(self.now, timers[0][0])
                while timers and timers[0][0] <= self.now:
                    ready.append(heapq.heappop(timers)[2])
            step = ready.popleft()
            if step.stopped or (step.owner is not None and not step.owner.takes_step(self, step)):
                continue
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise TooLong(f"more than {MOST_STEPS} steps")
            step.context.run(step.callback, *step.args)

    def close(self) -> None:
        """Let go of all tasks, also of those that a killed process left behind."""
        self._closed = True
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if not task.done():
                # Ends the coroutine without another step of it; its `finally` blocks meet a closed loop.
                task.get_coro().close()  # type: ignore[union-attr]
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()


@contextmanager
def running() -> Generator[Loop]:
    """A loop that is the running one of this thread meanwhile, whatever ran before."""
    loop, before = Loop(), asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield loop
    finally:
        try:
            loop.close()
        finally:
            asyncio._set_running_loop(before)
