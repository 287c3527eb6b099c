"""One history: a world made from a plan, run to its end, and what was found wrong in it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.core.errors import LedgerUnavailable
from gateway.core.record import Effect, Status
from gateway.core.requests import HOLD_MS
from gateway.service.asking import Asking
from tests.faults.approvers import approver
from tests.faults.callers import Served, caller
from tests.faults.clock import Chance, LedgerClock, Tokens, pause
from tests.faults.counters import SimCounters
from tests.faults.gateways import PACE, Process
from tests.faults.invariants import Watch
from tests.faults.ledger import SimLedger
from tests.faults.loop import NOBODY, Loop, TooLong, running
from tests.faults.merchant import Books
from tests.faults.plan import Fault, On, Plan
from tests.faults.resolvers import resolver
from tests.faults.runtimes import runtime
from tests.faults.shop import HONOURS_KEYS, RETENTION_S, Shelf

SWEEP_S = 2.0
_FALLS_DUE = ("effect.executing", "effect.renewed", "effect.awaiting_approval", "approval.granted")
ASKED_S = (1.3, 4.0, 15.0)
"""When merchants are asked about what became unknown, each gateway by itself."""
HOURS_S = 4 * 3_600.0
PASSES = 6
"""Of asking merchants at the end, over pages that are small."""


@dataclass
class Result:
    """What came of one history. `broken`: promise and what happened, the first that broke first."""

    plan: Plan
    broken: list[tuple[str, str]]
    faults: Counter[str]
    answers: Counter[str]
    excused: Counter[str]
    story: list[str] = field(default_factory=list)


class World:
    """Everything in a history, and how its parts reach each other."""

    def __init__(self, plan: Plan, loop: Loop, *, telling: bool = False) -> None:
        self.plan = plan
        self.loop = loop
        self.nobody = NOBODY
        self.telling = telling
        self.lines: list[str] = []
        self.faults: Counter[str] = Counter()
        self.touched: set[tuple[str, str, str] | None] = set()
        """Groups of calls that a fault has met; None: all of them."""
        self.begins_in_time = True
        self.outages = 0
        self.silent_until = 0.0
        """Until then merchants break every connection before they have done anything."""
        self.shelf = Shelf(status=plan.status, policy=plan.policy)
        self.moved_at: float | None = None
        """When every tool was registered anew."""
        self.served: list[Served] = []
        self.tokens = Tokens()
        self.books = Books(HONOURS_KEYS, lambda: loop.now)
        self.clock = LedgerClock(loop)
        self.watch = Watch(self)
        self.ledger = SimLedger(self.clock, self._written)
        self.counters = SimCounters(self.ledger)
        self._chance = Chance(plan.seed)
        self._asked: Counter[int] = Counter()
        self._met: Counter[On] = Counter()
        self._steps: Counter[int] = Counter()
        self._down_until = 0.0
        self._waiting = {
            (fault.on, int(fault.at)): fault for fault in plan.faults if fault.on not in (On.TIME, On.STEP)
        }
        self._at_step = {(f.gateway, int(f.at)): f for f in plan.faults if f.on is On.STEP}
        self.processes = [Process(self, number) for number in range(plan.gateways)]

    # what its parts ask

    def distance(self, what: int) -> float:
        """Seconds that something takes."""
        self._asked[what] += 1
        return self._chance.between(0.001, 0.01, what, self._asked[what])

    def meets(self, on: On) -> Fault | None:
        """The fault that waits for this one, if any."""
        self._met[on] += 1
        return self._waiting.get((on, self._met[on]))

    def meets_at_step(self, gateway: int) -> Fault | None:
        self._steps[gateway] += 1
        return self._at_step.get((gateway, self._steps[gateway]))

    def inject(self, fault: Fault, served: Served | None) -> None:
        lasting = fault.kind == "out of memory at settle"
        self.touched.add(None if served is None or lasting else served.ask.group)
        self.count(fault.kind)
        self.say("FAULT", str(fault))

    def count(self, kind: str) -> None:
        self.faults[kind] += 1

    def say(self, who: str, what: str) -> None:
        if self.telling:
            self.lines.append(f"{self.loop.now:10.3f}s  {who:<10} {what}")

    @property
    def ledger_down(self) -> bool:
        return self.loop.now < self._down_until

    @property
    def has_outlived_records(self) -> bool:
        """Whether the retention time may have ended a record by now (4.13)."""
        return self.loop.now + abs(self.clock.skew_ms) / 1000 > RETENTION_S

    def start(self, number: int) -> None:
        """A new process in the place of one that ended."""
        if not self.processes[number].alive:
            self.processes[number] = Process(self, number)
            self.say(f"gateway {number}", "starts")

    def living(self, number: int = 0) -> Process:
        alive = [p for p in self.processes if p.alive]
        if not alive:
            self.start(0)
            alive = [self.processes[0]]
        awake = [p for p in alive if p.asleep_until <= self.loop.now] or alive
        return awake[number % len(awake)]

    # what befalls it

    def _befall(self, fault: Fault) -> None:
        acts: dict[str, Callable[[Fault], None]] = {
            "ledger restart": self._restart,
            "ledger failover": self._fail_over,
            "gateway clock jumps": self._gateway_jumps,
            "ledger clock jumps": self._ledger_jumps,
            "merchant away": self._merchant_leaves,
            "tools registered elsewhere": self._move,
            "policy changes": self._change_policy,
        }
        if fault.kind in acts:
            self.inject(fault, None)
            acts[fault.kind](fault)
            return
        self.inject(fault, None)
        process = self.living(fault.gateway)
        process.spawn(resolver(self, process, fault))

    def _restart(self, fault: Fault) -> None:
        self.outages += 1
        self._down_until = self.loop.now + fault.amount

    def _fail_over(self, fault: Fault) -> None:
        self._restart(Fault(fault.kind, fault.on, fault.at, amount=0.5))
        counts = dict(self.counters.tallies)
        lost = self.ledger.fail_over(round(fault.amount))
        self.watch.forgot(lost)
        self.watch.limits.forgot({key for key, tally in counts.items() if self.counters.tallies.get(key) != tally})
        kinds = [event.type for writes in lost for event in writes.events]
        self.say("ledger", f"fails over and has lost: {', '.join(kinds) or f'{len(lost)} writes'}")

    def ledger_has_room(self) -> None:
        self.ledger.full = False

    def _merchant_leaves(self, fault: Fault) -> None:
        self.silent_until = self.loop.now + fault.amount

    def _move(self, fault: Fault) -> None:
        self.shelf.moved = True
        if self.moved_at is None:
            self.moved_at = self.loop.now

    def _change_policy(self, fault: Fault) -> None:
        self.shelf.phases.change(self.loop.now, fault.what)

    def _gateway_jumps(self, fault: Fault) -> None:
        self.processes[fault.gateway % self.plan.gateways].clock.skew_ms += int(fault.amount)

    def _ledger_jumps(self, fault: Fault) -> None:
        self.watch.latest_ms = max(self.watch.latest_ms, self.clock())
        self.clock.skew_ms += int(fault.amount)
        self.watch.ledger_jumped = True

    def _written(self, before: Any, writes: Any, now_ms: int) -> None:
        self.watch.written(before, writes, now_ms)
        if any(event.type in _FALLS_DUE for event in writes.events):
            falls = max((_falls_due_s(effect) for effect in writes.effects.values() if effect is not None), default=0.0)
            lapse = falls + self._chance.between(0, SWEEP_S, 8, len(self.ledger.journal))
            self.loop.call_later(lapse, self._sweep, 0, context=NOBODY)
        if self.plan.status and any(event.type == "effect.indeterminate" for event in writes.events):
            for after in ASKED_S:
                self.loop.call_later(after, self._ask_merchants, context=NOBODY)

    def _ask_merchants(self) -> None:
        """The next pass of every gateway; its pauses are left out."""
        for process in self.processes:
            if process.alive:
                process.spawn(_once(process.asking))

    def _sweep(self, tries: int) -> None:
        """The sweeper's next pass over what then is due; its pauses are left out, since nothing happens in them."""
        process = self.living(self._met[On.READ])

        async def once() -> None:
            try:
                await process.sweep.once()
            except LedgerUnavailable:
                if tries < 5:
                    self.loop.call_later(SWEEP_S, self._sweep, tries + 1, context=NOBODY)

        if self.ledger.due(1).effects:
            process.spawn(once())

    # from start to end

    def run(self) -> Result:
        for fault in self.plan.faults:
            if fault.on is On.TIME:
                self.loop.call_later(fault.at, self._befall, fault, context=NOBODY)
        for ask in self.plan.asks:
            self.loop.create_task(caller(self, ask), context=NOBODY.copy())
        for job in self.plan.jobs:
            self.loop.create_task(runtime(self, job), context=NOBODY.copy())
        for one in self.plan.approvers:
            self.loop.create_task(approver(self, one), context=NOBODY.copy())
        try:
            self.loop.drain()
            self._heal()
            self.loop.drain()
            self.watch.ended()
        except TooLong as endless:
            self.watch.broke("9.4", str(endless))
        for fault in self.loop.faults:
            self.watch.broke("8", f"background work ended in {type(fault).__name__}: {fault}")
        self.faults.update({str(one.how): 1 for one in (*self.plan.asks, *self.plan.jobs)})
        return Result(self.plan, self.watch.broken, self.faults, self.watch.answers, self.watch.excused, self.lines)

    def _heal(self) -> None:
        """Everything works again and time goes by: what now is still running will run for ever."""
        self.say("world", "every fault is over; four hours pass; the sweeper comes by")
        self._at_step.clear()
        self._waiting.clear()
        self.silent_until = self._down_until = 0.0
        self.ledger_has_room()

        async def sweep() -> None:
            await pause(self.loop, HOURS_S)
            process = self.living()
            await process.sweep.once()
            for _ in range(PASSES if self.plan.status else 0):
                await process.asking.once()
                await pause(self.loop, 2 * PACE.longest_s)

        self.living().spawn(sweep())


def _falls_due_s(effect: Effect) -> float:
    if effect.status is Status.AWAITING_APPROVAL:
        stands_ms = None if effect.approval is None else effect.approval.timeout_ms
        return (HOLD_MS if stands_ms is None else stands_ms) / 1000
    return effect.lease_ms / 1000


async def _once(asking: Asking) -> None:
    try:
        await asking.once()
    except LedgerUnavailable:
        return  # the next pass is its remedy


def run(plan: Plan, *, telling: bool = False, change: Callable[[World], object] | None = None) -> Result:
    """Run a history. `change` may take something out of the world first (see guards)."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with running() as loop:
            world = World(plan, loop, telling=telling)
            if change is not None:
                change(world)
            return world.run()
    finally:
        logging.disable(before)
