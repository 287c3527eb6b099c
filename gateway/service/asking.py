"""Asking merchants what became of calls whose outcome is not known (promise 5.4): which, when, and how many at once.

Every replica asks, each by itself: an answer is applied by compare and swap, so two that ask at once settle once. What
is kept here, when each effect may be asked about again, is in this process's memory and bounded; what is forgotten is
met again by the walk over the ledger's index and asked about as if for the first time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from gateway.core.errors import LedgerUnavailable
from gateway.core.ports import Clock, Ledger
from gateway.core.record import Effect
from gateway.service.registry import Registry
from gateway.service.status_question import Learnt, StatusQuestion

_log = logging.getLogger("oncegate.asking")

TICK_S: Final = 0.25
"""Between two looks at what became unknown in this process."""
WALK_S: Final = 2.0
"""Between two looks at the ledger's index, which holds everybody's."""
PAGE: Final = 500
MOST_FRESH: Final = 1_000
MOST_KEPT: Final = 10_000
"""Effects whose next question is planned at once; past it the one asked about longest ago is forgotten."""
LONGEST_WAIT_S: Final = 3.0
"""How long a caller is kept waiting for a merchant's status endpoint."""


class Pace(msgspec.Struct, frozen=True):
    """`first_s`: from when an outcome became unknown to the first question; doubled after each that taught nothing, up
    to `longest_s`. `at_once`: questions on their way; a company has a quarter of them at most, so that one whose
    endpoint hangs does not keep the others waiting."""

    first_s: float = 1.0
    longest_s: float = 600.0
    at_once: int = 32

    @property
    def share(self) -> int:
        return max(1, self.at_once // 4)


class _Plan(msgspec.Struct):
    """When an effect may be asked about next, and after how many questions that taught nothing."""

    due: float
    tries: int = 0
    asked: float | None = None


class Asking:
    """Plans the questions of this process."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        registry: Registry,
        question: StatusQuestion,
        clock: Clock,
        jitter: Callable[[], float],
        pace: Pace,
    ) -> None:
        """`jitter` gives a number from 0 to 1, for pauses that do not fall together."""
        self._ledger = ledger
        self._registry = registry
        self._question = question
        self._clock = clock
        self._jitter = jitter
        self._pace = pace
        self._plans: OrderedDict[bytes, _Plan] = OrderedDict()
        self._fresh: dict[bytes, Effect] = {}
        self._asking: dict[bytes, asyncio.Task[bool]] = {}
        self._of_company: Counter[str] = Counter()
        self._cursor: str | None = None
        self._walk_due = 0.0

    def became_unknown(self, effect: Effect) -> None:
        """An outcome became unknown in this process: it is asked about soon, without a look at the index."""
        if self._question.can_ask(effect) and len(self._fresh) < MOST_FRESH:
            self._fresh[effect.effect_id] = effect
            self._plan(effect, _Plan(self._clock.monotonic() + self._spread(self._pace.first_s)))

    async def before_answering(self, effect: Effect, deadline: float) -> bool:
        """Ask while a caller waits for an unknown outcome, until `deadline` (monotonic) and a few seconds at most.
        True if it is no longer unknown: the ledger then says what it is."""
        task = self._asking.get(effect.effect_id)
        if task is None:
            plan, now = self._plans.get(effect.effect_id), self._clock.monotonic()
            if plan is not None and plan.asked is not None and now - plan.asked < self._pace.first_s:
                return False  # a model that repeats itself must not make the gateway do so
            task = self._start(effect)
        left = min(LONGEST_WAIT_S, deadline - self._clock.monotonic())
        if task is None or left <= 0:
            return False
        sleeping = asyncio.ensure_future(self._clock.sleep(left))
        try:
            await asyncio.wait({task, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
        return task.done() and not task.cancelled() and task.result()

    async def once(self) -> None:
        """One pass: start what is due of this process's own, and of a page of the index if its time has come. The
        questions go on behind it. Raises LedgerUnavailable."""
        await self._registry.refresh()
        for effect in list(self._fresh.values()):
            if not self._question.can_ask(effect) or (self._is_due(effect) and self._start(effect) is not None):
                self._fresh.pop(effect.effect_id, None)
        if self._clock.monotonic() < self._walk_due:
            return
        self._walk_due = self._clock.monotonic() + WALK_S
        page = await self._ledger.unknown(None, self._cursor, PAGE)
        self._cursor = page.cursor
        # In no order: where more are due than may be asked about, those at the front must not always be the ones.
        for effect in sorted(page.effects, key=lambda _: self._jitter()):
            if self._is_due(effect):
                self._start(effect)

    async def forever(self) -> None:
        """Pass after pass; an unreachable ledger is waited for. Cancelled, it gives up the questions on their way:
        nothing is lost by that, they are asked again."""
        try:
            while True:
                try:
                    await self.once()
                except LedgerUnavailable:
                    _log.warning("asking: ledger unavailable")
                    await self._clock.sleep(WALK_S)
                except Exception as fault:
                    _log.error("asking: %s", type(fault).__name__)
                    await self._clock.sleep(WALK_S)
                await self._clock.sleep(TICK_S)
        finally:
            for task in list(self._asking.values()):
                task.cancel()
            await asyncio.gather(*self._asking.values(), return_exceptions=True)

    def _is_due(self, effect: Effect) -> bool:
        plan = self._plans.get(effect.effect_id)
        return plan is None or self._clock.monotonic() >= plan.due

    def _start(self, effect: Effect) -> asyncio.Task[bool] | None:
        """The question on its way; None where nobody can be asked or too many are."""
        if effect.effect_id in self._asking or not self._question.can_ask(effect):
            return self._asking.get(effect.effect_id)
        if len(self._asking) >= self._pace.at_once or self._of_company[effect.company] >= self._pace.share:
            return None
        self._of_company[effect.company] += 1
        task = asyncio.ensure_future(self._ask(effect))
        self._asking[effect.effect_id] = task
        task.add_done_callback(lambda _: self._ended(effect))
        return task

    def _ended(self, effect: Effect) -> None:
        self._asking.pop(effect.effect_id, None)
        self._of_company[effect.company] -= 1
        if not self._of_company[effect.company]:
            del self._of_company[effect.company]

    async def _ask(self, effect: Effect) -> bool:
        """Whether the effect is no longer unknown."""
        plan = self._plans.get(effect.effect_id) or _Plan(0.0)
        began = self._clock.monotonic()
        # Planned before it is sent: a question that is cut off counts as one that taught nothing.
        self._plan(effect, self._next(plan, began, None))
        try:
            learnt = await self._question.ask(effect)
        except LedgerUnavailable:
            _log.warning("asking: ledger unavailable")
            return False
        except Exception as fault:
            # One that cannot be asked about must not keep the others unknown.
            _log.error("asking: effect %s was left: %s", effect.hex, type(fault).__name__)
            return False
        if learnt.over:
            self._plans.pop(effect.effect_id, None)
            self._fresh.pop(effect.effect_id, None)
        else:
            self._plan(effect, self._next(plan, self._clock.monotonic(), learnt))
        return learnt.over

    def _next(self, plan: _Plan, now: float, learnt: Learnt | None) -> _Plan:
        wanted = learnt.retry_after_s or 0.0 if learnt is not None else 0.0
        pause = max(wanted, self._pace.first_s * 2.0 ** min(plan.tries + 1, 40))
        return _Plan(now + self._spread(min(self._pace.longest_s, pause)), plan.tries + 1, now)

    def _plan(self, effect: Effect, plan: _Plan) -> None:
        self._plans[effect.effect_id] = plan
        self._plans.move_to_end(effect.effect_id)
        if len(self._plans) > MOST_KEPT:
            forgotten, _ = self._plans.popitem(last=False)
            self._fresh.pop(forgotten, None)

    def _spread(self, pause: float) -> float:
        return pause * (0.75 + 0.5 * self._jitter())
