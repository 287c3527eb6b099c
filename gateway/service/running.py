"""Running what was granted: send while the lease covers it, settle, only then answer (promises 4.2, 4.5, 4.11)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gateway.core import decisions as d
from gateway.core.answer import Answer
from gateway.core.conversation import View
from gateway.core.errors import CallInFlight, LedgerUnavailable, MerchantNotReady
from gateway.core.outcome import OutcomeKind
from gateway.core.ports import Clock
from gateway.core.record import Effect, Mode, Outcome, Status
from gateway.core.requests import Claim, End, Lose, Release, Settle
from gateway.service import answers
from gateway.service.answers import Asked
from gateway.service.deciding import Decider
from gateway.service.reading import not_sent
from gateway.service.registry import Registry
from gateway.service.sending import Order, Sending, Sent, Trace, recorded_outcome, wire_body
from gateway.service.settled_answers import Key, SettledAnswers
from gateway.service.waiting import Waiting

_log = logging.getLogger("oncegate.calls")

SETTLE_TRIES: Final = 2
"""Before the caller gets the real result unrecorded; the worker goes on trying behind it (4.11)."""
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0


class Running:
    """The holder of a claim."""

    def __init__(
        self,
        *,
        decider: Decider,
        sending: Sending,
        registry: Registry,
        waiting: Waiting,
        settled: SettledAnswers,
        clock: Clock,
        lease_margin_s: float,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._decider = decider
        self._sending = sending
        self._registry = registry
        self._waiting = waiting
        self._answers = settled
        self._clock = clock
        self._lease_margin_s = lease_margin_s
        self._spawn = spawn

    async def run(
        self,
        claim: Claim,
        effect: Effect,
        view: View,
        asked: Asked,
        trace: Trace,
        claimed: float,
        key: Key | None = None,
    ) -> Answer:
        """Send and settle. `claimed`: this worker's clock when the claim left, from which its lease counts; `key`:
        what its repeats may be answered under without asking the ledger."""
        timeout_s = effect.lease_ms / 1000 - self._lease_margin_s
        deadline = self._clock.monotonic() + timeout_s
        if claimed + effect.lease_ms / 1000 < deadline:
            # The claim took so long to land that the lease would lapse, and another judge the call, mid-send.
            await self._end(
                Release(effect.effect_id, claim.token, "lease too short", claim.terms.retention_ms), effect, view
            )
            raise CallInFlight("the ledger was too slow to start this call; nothing was sent", retry_after_s=1.0)
        secrets = [secret.value for secret in self._registry.secrets(effect.company)]
        if not secrets:
            await self._end(Release(effect.effect_id, claim.token, "no secret", claim.terms.retention_ms), effect, view)
            raise MerchantNotReady(f"{effect.company} has no signing secret; add one first")
        try:
            sent = await self._sending.send(_order(claim, effect), secrets, trace, deadline=deadline)
        except Exception:
            # A fault of ours behind a claim: nobody can say what was sent, and a claim that nobody ends holds up
            # every repeat until its lease lapses.
            await self._end(Lose(effect.effect_id, claim.token, "gateway fault"), effect, view)
            raise
        outcome = recorded_outcome(sent.judged)
        if outcome is not None:
            return await self._settled(claim, effect, view, asked, outcome, key)
        if sent.judged.kind is OutcomeKind.NOT_SENT and not sent.ever_unknown:
            judged = sent.judged
            decision = await self._end(
                Release(effect.effect_id, claim.token, judged.reason, claim.terms.retention_ms), effect, view
            )
            stands = _standing(asked, claim, effect, decision)
            if stands is None:
                raise not_sent(judged.code, judged.message, judged.retry_after_s)
            return stands
        return await self._unknown(claim, effect, view, asked, sent)

    def withdraw(self, claim: Claim) -> None:
        """A claim may have landed though nobody said so: take it back, for as long as it takes (4.11)."""
        self._spawn(self._withdraw(claim))

    async def _settled(
        self, claim: Claim, effect: Effect, view: View, asked: Asked, outcome: Outcome, key: Key | None
    ) -> Answer:
        request = Settle(effect.effect_id, claim.token, outcome, claim.terms.retention_ms)
        decision = await self._end(request, effect, view)
        match decision:
            case d.Settled(effect=after):
                if claim.slot in after.slots:  # an id that is not bound to it may come to mean something else
                    self._answers.put(key, after, after.settled_at or 0)
                return answers.of_effect(asked, after)
        # Not recorded, or against what stands: what happened is still what happened.
        return _standing(asked, claim, effect, decision) or answers.of_outcome(asked, effect, outcome)

    async def _unknown(self, claim: Claim, effect: Effect, view: View, asked: Asked, sent: Sent) -> Answer:
        judged = sent.judged
        request = Lose(effect.effect_id, claim.token, judged.reason, judged.excerpt, judged.status)
        decision = await self._end(request, effect, view)
        return _standing(asked, claim, effect, decision) or answers.of_unknown(asked, effect)

    async def _end(self, request: End, effect: Effect, view: View) -> d.Decision | None:
        """Write how it ended; None where the ledger could not be reached, and the worker goes on trying."""
        seen: View | None = view
        for _ in range(SETTLE_TRIES):
            try:
                decision, _ = await self._decider.end(request, effect, seen)
            except Exception as fault:
                # Whatever it is, the merchant has answered: what is known must not be lost to it. What was seen may
                # be stale by now; the token makes a second try harmless (4.3).
                seen = None
                if not isinstance(fault, LedgerUnavailable):
                    _log.error("an outcome could not be recorded", extra={"fault": type(fault).__name__})
                continue
            self._waiting.ended(effect.effect_id)
            return decision
        _log.error("outcome not recorded yet", extra={"effect_id": effect.hex})
        self._spawn(self._keep_ending(request, effect))
        return None

    async def _keep_ending(self, request: End, effect: Effect) -> None:
        pause = FIRST_PAUSE_S
        while True:
            await self._clock.sleep(pause)
            pause = min(LONGEST_PAUSE_S, pause * 2)
            try:
                await self._decider.end(request, effect)
            except Exception as fault:
                if not isinstance(fault, LedgerUnavailable):
                    _log.error("an outcome could not be recorded", extra={"fault": type(fault).__name__})
                continue
            self._waiting.ended(effect.effect_id)
            return

    async def _withdraw(self, claim: Claim) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                view = await self._decider.withdraw(claim)
            except Exception as fault:
                if not isinstance(fault, LedgerUnavailable):
                    _log.error("a claim could not be withdrawn", extra={"fault": type(fault).__name__})
                await self._clock.sleep(pause)
                pause = min(LONGEST_PAUSE_S, pause * 2)
                continue
            for effect_id in view.effects:
                self._waiting.ended(effect_id)
            return


def _standing(asked: Asked, claim: Claim, effect: Effect, decision: d.Decision | None) -> Answer | None:
    """What stands where this worker came too late, if it is still an outcome of this call; another one's send that
    still runs is no answer yet.

    Nothing was done that could be told where it was resolved as absent, or is held since; and released, or resolved
    so, its number may be another call's by now (2.4): shown as the outcome of this one, that would tell of two orders
    where there is one. Then only this worker's own word is left.
    """
    after = decision.effect if isinstance(decision, d.Late) else None
    if after is None or after.status in (Status.ABSENT, Status.AWAITING_APPROVAL):
        return None
    same = claim.token in after.tokens and after.first_at == effect.first_at
    if not same and claim.slot is not None and claim.slot not in after.slots:
        return None
    if after.status is Status.EXECUTING:
        raise CallInFlight(retry_after_s=1.0)
    return answers.of_effect(asked, after)


def _order(claim: Claim, effect: Effect) -> Order:
    key = effect.hex
    body = wire_body(
        tool=effect.target,
        # The first form, so that the bytes are the same on every try (6, 2.10).
        arguments=effect.arguments if effect.arguments is not None else claim.arguments.text,
        company=effect.company,
        conversation=effect.conversation,
        turn=effect.turn,
        tool_call_id=effect.tool_call_id,
        attempt=effect.attempt if effect.turn is not None else None,
    )
    return Order(
        company=effect.company,
        url=effect.endpoint,
        body=body,
        message_id=key,
        key=key,
        again=effect.mode is Mode.SAFE_TO_RETRY,
        unavailable_means_not_executed=effect.unavailable_means_not_executed,
    )
