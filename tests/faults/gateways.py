"""One gateway process: the real service over simulated wires, which may be ended or put to sleep at any step."""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from gateway.core.errors import GatewayError
from gateway.service.asking import Asking, Pace
from gateway.service.call_request import CallRequest
from gateway.service.claims import CallLimits
from gateway.service.deciding import Decider
from gateway.service.desk import open_desk
from gateway.service.reading import Reading
from gateway.service.replay_notes import ReplayNotes
from gateway.service.resolve_unknown import ResolveUnknown
from gateway.service.running import Running
from gateway.service.sending import Sending, Trace
from gateway.service.settled_answers import SettledAnswers
from gateway.service.status_question import StatusQuestion
from gateway.service.sweep import Sweep
from gateway.service.waiting import Waiting
from tests.faults.callers import Served
from tests.faults.clock import GatewayClock
from tests.faults.counters import CountersWire
from tests.faults.limits import arguments_of
from tests.faults.loop import OWNER, Loop, Step
from tests.faults.merchant_wire import MerchantWire
from tests.faults.network import SERVED, LedgerWire
from tests.faults.plan import COMPANY, Ask
from tests.faults.shop import (
    LEASE_MARGIN_S,
    RETENTION_S,
    RUNTIME,
    SUBMITTED_LEASE_S,
    WAIT_MARGIN_S,
    AnyArguments,
    sign,
)

if TYPE_CHECKING:
    from tests.faults.run import World

_TRACE = Trace("req-1")
RESULT_CAP: Final = 4_096
PACE: Final = Pace(first_s=1.0, longest_s=60.0)


class Process:
    """A gateway from its start to its end. Nothing of it outlives the process but what the ledger has."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.alive = True
        self.asleep_until = 0.0
        self.clock = GatewayClock(world.loop, 100.0 * (number + 1))
        self.serving: dict[Served, None] = {}
        """In the order in which they came: a seed is one history, wherever in memory they are."""
        ledger: Any = LedgerWire(world)
        registry: Any = world.shelf
        waiting, settled = Waiting(self.clock), SettledAnswers(self.clock)
        self.decider = Decider(
            ledger,
            sleep=self.clock.sleep,
            count_conflict=world.watch.alarmed,
            on_unknown=lambda effect: self.asking.became_unknown(effect),
        )
        merchant = MerchantWire(world, self)
        sending = Sending(merchant, sign, self.clock, result_cap=RESULT_CAP)
        self.asking = Asking(
            ledger=ledger,
            registry=registry,
            question=StatusQuestion(
                merchant=merchant,
                sign=sign,
                registry=registry,
                ledger=ledger,
                decider=self.decider,
                clock=self.clock,
                randomness=world.tokens,
                result_cap=RESULT_CAP,
            ),
            clock=self.clock,
            jitter=lambda: world.distance(12) * 100,
            pace=PACE,
        )
        running = Running(
            decider=self.decider,
            sending=sending,
            registry=registry,
            waiting=waiting,
            settled=settled,
            clock=self.clock,
            lease_margin_s=LEASE_MARGIN_S,
            spawn=self.spawn,
        )
        notes = ReplayNotes(ledger, self.clock, self.spawn)
        desk = open_desk(
            registry=registry,
            ledger=ledger,
            counters=CountersWire(world, ledger),
            decider=self.decider,
            running=running,
            reading=Reading(sending, registry, self.clock, world.tokens),
            waiting=waiting,
            asking=self.asking,
            notes=notes,
            settled=settled,
            schemas=AnyArguments(),
            clock=self.clock,
            randomness=world.tokens,
            limits=CallLimits(LEASE_MARGIN_S, WAIT_MARGIN_S, SUBMITTED_LEASE_S),
            result_cap=RESULT_CAP,
        )
        self.desk = desk
        keep_ms = int(RETENTION_S * 1000)
        self.sweep = Sweep(ledger, self.decider, waiting, notes, self.clock, retention_ms=lambda _: keep_ms)
        self.resolve = ResolveUnknown(
            registry=registry, ledger=ledger, decider=self.decider, waiting=waiting, result_cap=RESULT_CAP
        )
        self.ledger = ledger

    @property
    def name(self) -> str:
        return f"gateway {self.number}"

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """In the background, for this process: it ends with it."""
        context = copy_context()
        context.run(OWNER.set, self)
        self.world.loop.create_task(work, context=context)

    def serve(self, served: Served) -> None:
        """A request arrives."""
        context = copy_context()
        context.run(OWNER.set, self)
        context.run(SERVED.set, served)
        self.serving[served] = None
        self.world.loop.create_task(self._serve(served), context=context)

    async def _serve(self, served: Served) -> None:
        ask = served.ask
        served.began = self.world.loop.now
        try:
            answer: Any = await (self._handle(ask) if served.act is None else served.act(self))
        except GatewayError as problem:
            answer = problem
        except Exception as fault:
            self.world.watch.broke("8", f"{ask} ended in {type(fault).__name__}: {fault}")
            return
        self.serving.pop(served, None)
        self.world.watch.answered(served, answer)
        served.hear(answer)

    async def _handle(self, ask: Ask) -> Any:
        request = CallRequest(
            COMPANY, ask.conversation, ask.tool, arguments_of(ask.sku), ask.call, ask.turn, ask.step, ask.attempt
        )
        return await self.desk.handle_call(RUNTIME, request, _TRACE)

    def takes_step(self, loop: Loop, step: Step) -> bool:
        if not self.alive:
            return False
        if loop.now < self.asleep_until:
            loop.put_off(step, self.asleep_until)
            return False
        fault = self.world.meets_at_step(self.number)
        if fault is None:
            return True
        self.world.inject(fault, None)
        if fault.kind == "gateway killed":
            self.end(fault.amount)
        else:
            self.asleep_until = loop.now + fault.amount
            loop.put_off(step, self.asleep_until)
        return False

    def end(self, back_after: float) -> None:
        """Killed: no step of it runs any more. Its callers see a broken connection, and another starts later."""
        self.alive = False
        for served in self.serving:
            served.hear(None)
        self.world.loop.call_later(back_after, self.world.start, self.number, context=self.world.nobody)
