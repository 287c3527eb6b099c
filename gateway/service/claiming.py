"""Asks the ledger until it has an answer: waits for another (4.8), for a limit (7.5), for the merchant's word (5.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from gateway.core import decisions as d
from gateway.core.conversation import View
from gateway.core.errors import CallInFlight, LedgerUnavailable
from gateway.core.policy_limits import RateLimit
from gateway.core.ports import Clock
from gateway.core.record import Effect, Status
from gateway.core.requests import Claim
from gateway.service.asking import Asking
from gateway.service.deciding import Decider
from gateway.service.rate_limits import Pass, RateLimits
from gateway.service.recent_ids import RecentIds
from gateway.service.refusal_log import Subject
from gateway.service.waiting import Waiting


class Claimed(NamedTuple):
    """What a claim came to; `at`: this worker's clock when it left, from which a lease counts (4.5)."""

    decision: d.Decision
    view: View
    claim: Claim
    at: float


class Claiming:
    """Raises CallInFlight, LedgerUnavailable and RateLimited."""

    def __init__(
        self,
        *,
        decider: Decider,
        waiting: Waiting,
        asking: Asking,
        rate_limits: RateLimits,
        clock: Clock,
        withdraw: Callable[[Claim], None],
    ) -> None:
        self._decider = decider
        self._waiting = waiting
        self._asking = asking
        self._rate_limits = rate_limits
        self._clock = clock
        self._withdraw = withdraw
        self._recent = RecentIds()

    async def __call__(self, claim: Claim, deadline: float, limits: tuple[RateLimit, ...] = ()) -> Claimed:
        """`deadline` (monotonic): how long it waits for another to end; `limits`: what to ask should it be new."""
        likely_new = claim.refusal is None and not self._recent.known(claim.slot)
        looks, asked_merchant = 0, False
        passed: Pass | None = None
        try:
            while True:
                at = self._clock.monotonic()
                try:
                    decision, view = await self._decider.claim(claim, likely_new=likely_new)
                except LedgerUnavailable as lost:
                    if lost.may_have_run:
                        # It may stand: held, or taken up again later, it would run uncounted (7.5).
                        passed = None
                    if lost.may_have_run and not claim.submitted:
                        # What is submitted has its caller's token, who may have been told meanwhile, by another
                        # gateway, that it holds the effect, and be running it: taken back now, it would be anybody's.
                        # Asked again, it is told so (4.3); never asked again, its lease lapses.
                        self._withdraw(claim)
                    raise
                match decision:
                    case d.Limited():
                        passed = await self._rate_limits.take(limits, Subject.of(claim))
                        claim, likely_new = msgspec.structs.replace(claim, limited=False), True
                    case d.Wait(effect_id=effect_id, repeat_of=kept):
                        claim = msgspec.structs.replace(claim, repeat_of=claim.repeat_of | kept)
                        if not await self._waiting.for_end(effect_id, deadline, looks):
                            raise CallInFlight(retry_after_s=1.0)
                        likely_new, looks = False, looks + 1
                    case d.Replay(effect=Effect() as unknown) | d.Denied(first=Effect() as unknown) if (
                        unknown.status is Status.INDETERMINATE
                        and not asked_merchant
                        and await self._asking.before_answering(unknown, deadline)
                    ):
                        likely_new, asked_merchant = False, True
                    case _:
                        if passed is not None and _began(decision, claim):
                            passed = None
                        return Claimed(decision, view, claim, at)
        except asyncio.CancelledError:
            passed = None  # the claim may have landed, and it would be a way past the limit
            raise
        finally:
            if passed is not None:
                await self._rate_limits.give_back(passed)


def _began(decision: d.Decision, claim: Claim) -> bool:
    """Whether this claim made something new of it: then what a limit counted for it stays counted."""
    match decision:
        case d.Granted(new=new):
            return new
        case d.Blocked(effect=effect):
            return effect.approval is not None and effect.approval.id == claim.approval_of(effect.effect_id)
    return False
