"""Rate limits: asked of what is new, before it is claimed; what is limited leaves no claim (promise 7.5)."""

from __future__ import annotations

import hashlib
import logging
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final, NamedTuple

from gateway.core.errors import LedgerUnavailable, RateLimited
from gateway.core.policy_limits import RateLimit, counted
from gateway.core.policy_values import Amount
from gateway.core.ports import Counter, Counters, Taken
from gateway.core.requests import Ruled
from gateway.service.refusal_log import RefusalLog, Subject

_log = logging.getLogger("oncegate.calls")

STEPS: Final = 10_000
"""Counters count sums in ten-thousandths, in whole numbers: an amount of more decimals counts as the next higher."""
MOST: Final = 2**53 - 1
"""What a counter can hold exactly."""
LONGEST_WAIT_S: Final = 3_600.0
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Multiplies without rounding; the default context keeps 28 digits, and what it rounds down would let more through."""


class Pass(NamedTuple):
    """What was counted for one claim."""

    taken: tuple[tuple[Counter, Taken], ...]


class RateLimits:
    """What is refused is in the log of its conversation."""

    def __init__(self, counters: Counters, log: RefusalLog) -> None:
        self._counters = counters
        self._refusals = log

    async def take(self, limits: tuple[RateLimit, ...], subject: Subject) -> Pass:
        """Count it against all limits, or none. Raises RateLimited, which says how long the window lasts."""
        taken: list[tuple[Counter, Taken]] = []
        for limit in limits:
            counter = counter_of(limit, subject)
            if counter is None:
                if limit.on_error == "deny":
                    await self._refuse(limit, subject, taken, None)
                continue
            try:
                got = await self._counters.take(counter)
            except LedgerUnavailable:
                if limit.on_error == "deny":
                    await self.give_back(Pass(tuple(taken)))
                    raise
                _log.warning("a rate limit could not be counted and lets pass", extra={"rule": limit.rule_id})
                continue
            if not got.granted:
                await self._refuse(limit, subject, taken, got.wait_ms / 1000)
            taken.append((counter, got))
        return Pass(tuple(taken))

    async def give_back(self, passed: Pass) -> None:
        """It came to nothing new after all. What cannot be given back stays counted until its window ends."""
        for counter, taken in passed.taken:
            try:
                await self._counters.give_back(counter, taken)
            except LedgerUnavailable:
                return

    async def _refuse(
        self, limit: RateLimit, subject: Subject, taken: list[tuple[Counter, Taken]], wait_s: float | None
    ) -> None:
        await self.give_back(Pass(tuple(taken)))
        ruled = Ruled(limit.bundle or (subject.ruled.bundle if subject.ruled is not None else ""), limit.rule_id)
        await self._refusals.rate_limited(subject, ruled, "not countable" if wait_s is None else None)
        if wait_s is None:
            raise RateLimited("This call does not state what its limit counts, so it is not made.")
        wait_s = min(max(wait_s, 1.0), LONGEST_WAIT_S)
        raise RateLimited("Too many such calls for now; nothing was done.", retry_after_s=wait_s)


def counter_of(limit: RateLimit, subject: Subject) -> Counter | None:
    """The counter that a call is counted in, and how much it counts; None where it does not say."""
    found = counted(limit, subject.company, subject.conversation, subject.turn, subject.arguments.value)
    if found is None:
        return None
    digest = hashlib.sha256(b"oncegate.limit.1")
    for part in found.bucket:
        text = part.encode()
        digest.update(len(text).to_bytes(8) + text)
    steps = 1 if limit.sum_of is None else STEPS
    # Up for what is counted, down for what there is room for: no rounding ever lets more through.
    # What no counter can hold is over every limit.
    amount = min(_whole(found.amount, steps, up=True), MOST + 1)
    return Counter(digest.digest()[:16], amount, min(_whole(limit.max, steps, up=False), MOST), limit.window_s * 1000)


def _whole(amount: Amount, steps: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount * steps
    if amount and amount.adjusted() > 20:
        return MOST + 1
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return int(_EXACT.multiply(amount, Decimal(steps)).to_integral_value(rounding, _EXACT))
