"""Callers who never give up, and a merchant who counts: what must hold however the ledger moves."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from gateway.adapters.redis_ledger import RedisLedger
from gateway.core import decisions as d
from gateway.core import identity
from gateway.core.errors import LedgerUnavailable
from gateway.core.identity import Kind, Place, Scope
from gateway.core.record import Effect, Mode, Outcome, Status
from gateway.core.requests import HOLD_MS, Claim, OnRepeat, Settle, Terms
from gateway.service.deciding import Decider

DAY_MS = 86_400_000
PAUSE_S = 0.02
BOUND_S = 60.0


class Desk:
    """Places orders through the real decider and ledger, as the gateway does, and keeps what came of them."""

    def __init__(self, ledger: RedisLedger) -> None:
        self.decider = Decider(ledger)
        self.ledger = ledger
        self.sent: Counter[tuple[str, str]] = Counter()
        self.outcomes: dict[tuple[str, str], Outcome] = {}
        self.forgotten: set[tuple[str, str]] = set()
        """What was settled, and is running again as far as the ledger knows: no settle waits for replicas (4.14)."""
        self.refused: list[float] = []
        """When the ledger was unavailable."""
        self.served: list[float] = []
        """When it was not."""
        self._withdrawing: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    def claim(self, conversation: str, call: str) -> Claim:
        read = identity.read_arguments({"order": call})
        return Claim(
            company="acme",
            conversation=conversation,
            tool_call_id=call,
            kind=Kind.TOOL_CALL,
            target="place_order",
            arguments=read,
            fingerprint=identity.fingerprint(Kind.TOOL_CALL, "place_order", read.canonical),
            place=Place(None, None, None),
            scope=Scope.AUTO,
            terms=Terms(
                *(Mode.AT_MOST_ONCE, OnRepeat.HOLD, 600_000, 1, "https://shop.example/tools"),
                *(60_000, 30 * DAY_MS, HOLD_MS),
            ),
            token=os.urandom(16),
        )

    async def once(self, conversation: str, call: str) -> d.Decision:
        """Ask once. Raises LedgerUnavailable; what may have landed is being taken back then (4.11)."""
        request = self.claim(conversation, call)
        try:
            decision, _ = await self.decider.claim(request)
        except LedgerUnavailable as away:
            self.refused.append(time.monotonic())
            if away.may_have_run:
                task = asyncio.create_task(self._withdraw(request))
                self._withdrawing.add(task)
                task.add_done_callback(self._withdrawing.discard)
            raise
        self.served.append(time.monotonic())
        return decision

    async def order(self, conversation: str, call: str) -> Outcome:
        """The same call until it is answered; what was granted is sent, settled and, from then on, replayed."""
        deadline = time.monotonic() + BOUND_S
        while True:
            assert time.monotonic() < deadline, f"{call} in {conversation} was never answered"
            settled = (conversation, call) in self.outcomes
            with suppress(LedgerUnavailable):
                match await self.once(conversation, call):
                    case d.Wait() if settled:
                        self.forgotten.add((conversation, call))
                        return self.outcomes[conversation, call]
                    case d.Granted(effect=effect):
                        return await self._run(conversation, call, effect)
                    case d.Replay(effect=Effect(outcome=Outcome() as outcome)):
                        return outcome
            await asyncio.sleep(PAUSE_S)

    async def replay(self, conversation: str, call: str) -> None:
        """It is answered with what it was answered with before; nothing is granted again."""
        deadline = time.monotonic() + BOUND_S
        while True:
            assert time.monotonic() < deadline, f"{call} in {conversation} was never answered"
            with suppress(LedgerUnavailable):
                decision = await self.once(conversation, call)
                if isinstance(decision, d.Wait):
                    self.forgotten.add((conversation, call))
                    return
                assert isinstance(decision, d.Replay), decision
                assert decision.effect.status is Status.SUCCEEDED
                assert decision.effect.outcome == self.outcomes[conversation, call]
                return
            await asyncio.sleep(PAUSE_S)

    async def check(self) -> None:
        """Every order that was placed replays, but for `forgotten`, and the merchant got none of them twice."""
        await self.idle()
        for conversation, call in list(self.outcomes):
            await self.replay(conversation, call)
        print(
            f"{len(self.outcomes)} orders, {self.gap_s():.1f} s without an answer, {len(self.refused)} refused,",
            end=" ",
        )
        print(f"{len(self.forgotten)} settles forgotten")
        assert set(self.sent.values()) <= {1}, self.sent.most_common(3)
        assert set(self.sent) == set(self.outcomes)

    async def idle(self) -> None:
        while self._withdrawing:
            await asyncio.wait(set(self._withdrawing))

    @asynccontextmanager
    async def busy(self, conversations: list[str], callers: int = 4) -> AsyncIterator[None]:
        """Meanwhile new orders are placed in these conversations, and old ones asked for again."""
        stop = asyncio.Event()

        async def caller(number: int) -> None:
            mine = conversations[number::callers] or conversations
            for turn in itertools.count():
                if stop.is_set():
                    return
                conversation, call = mine[turn % len(mine)], f"call-{number}-{turn}"
                first, second = await asyncio.gather(
                    self.order(conversation, call), self.order(conversation, call), return_exceptions=False
                )
                assert first == second == self.outcomes[conversation, call]
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(caller(number)) for number in range(callers)]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*tasks)

    def gap_s(self) -> float:
        """The longest time without an answer, in seconds."""
        times = sorted(self.served)
        return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)

    async def _run(self, conversation: str, call: str, effect: Effect) -> Outcome:
        self.sent[conversation, call] += 1
        outcome = Outcome(Status.SUCCEEDED, b'"O-%d"' % next(self._numbers))
        request = Settle(effect.effect_id, effect.tokens[-1], outcome, 30 * DAY_MS)
        deadline = time.monotonic() + BOUND_S
        while True:
            assert time.monotonic() < deadline, f"{call} in {conversation} was never settled"
            try:
                decision, _ = await self.decider.end(request, effect)
            except LedgerUnavailable:
                self.refused.append(time.monotonic())
                await asyncio.sleep(PAUSE_S)
                continue
            standing = getattr(decision, "effect", None)
            assert isinstance(decision, d.Settled | d.Late), decision
            assert isinstance(standing, Effect)
            assert standing.outcome == outcome, decision
            self.outcomes[conversation, call] = outcome
            return outcome

    async def _withdraw(self, request: Claim) -> None:
        while True:
            try:
                await self.decider.withdraw(request)
                return
            except LedgerUnavailable:
                await asyncio.sleep(PAUSE_S)
