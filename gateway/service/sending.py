"""One call to a merchant: the wire of section 6, sent once, or again only under `safe_to_retry` (4.6, 5.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from gateway import __version__
from gateway.core.outcome import Outcome as Judged
from gateway.core.outcome import OutcomeKind, outcome_of
from gateway.core.ports import Clock, Merchant, MerchantRequest, Signer
from gateway.core.record import Fault, Outcome, Status

_ALWAYS: Final = (("content-type", "application/json"), ("user-agent", f"oncegate/{__version__}"))
FIRST_PAUSE_S: Final = 0.1
"""Before the second try; doubled before each further one, within the deadline."""


class Trace(msgspec.Struct, frozen=True):
    """What ties log lines of several systems together."""

    request_id: str
    traceparent: str | None = None


class Order(msgspec.Struct, frozen=True):
    """What is to be sent. `key` is the merchant's Idempotency-Key, None on read-only calls."""

    company: str
    url: str
    body: bytes
    message_id: str
    key: str | None
    again: bool
    unavailable_means_not_executed: bool


class Sent(msgspec.Struct, frozen=True):
    """How the tries ended. `ever_unknown`: some try before the last may have been carried out."""

    judged: Judged
    ever_unknown: bool


def wire_body(
    *,
    tool: str,
    arguments: str,
    company: str,
    conversation: str,
    turn: str | None,
    tool_call_id: str | None,
    attempt: int | None,
) -> bytes:
    """The JSON a merchant receives (6). `arguments` is JSON text, passed on digit for digit (2.10)."""
    context = {
        "company": company,
        "conversation": conversation,
        "turn": turn,
        "tool_call_id": tool_call_id,
        "attempt": attempt,
    }
    return _json({"tool": tool, "arguments": msgspec.Raw(arguments.encode()), "context": context})


class Sending:
    """Signs and sends, watching one deadline over all tries."""

    def __init__(
        self,
        merchant: Merchant,
        sign: Signer,
        clock: Clock,
        *,
        result_cap: int,
        count: Callable[[OutcomeKind], None] = lambda _: None,
    ) -> None:
        self._merchant = merchant
        self._count = count
        self._sign = sign
        self._clock = clock
        self._result_cap = result_cap

    async def send(self, order: Order, secrets: Sequence[str], trace: Trace, *, deadline: float) -> Sent:
        """Send until the outcome is known, the deadline (monotonic) is near, or trying again is not allowed."""
        unknown, pause = False, FIRST_PAUSE_S
        while True:
            request = self._request(order, secrets, trace)
            seen = await self._merchant.send(request, deadline_s=deadline - self._clock.monotonic())
            judged = outcome_of(
                seen,
                unavailable_means_not_executed=order.unavailable_means_not_executed,
                result_cap=self._result_cap,
                now_s=self._clock.wall_ms() / 1000,
            )
            self._count(judged.kind)
            if not order.again or judged.kind in (OutcomeKind.SUCCEEDED, OutcomeKind.FAILED):
                return Sent(judged, unknown)
            wait = max(pause, judged.retry_after_s or 0.0)
            if self._clock.monotonic() + wait >= deadline:
                return Sent(judged, unknown)
            unknown = unknown or judged.kind is OutcomeKind.UNKNOWN
            await self._clock.sleep(wait)
            pause *= 2

    def _request(self, order: Order, secrets: Sequence[str], trace: Trace) -> MerchantRequest:
        headers = [*_ALWAYS, ("request-id", trace.request_id)]
        if order.key is not None:
            headers.append(("idempotency-key", order.key))
        if trace.traceparent is not None:
            headers.append(("traceparent", trace.traceparent))
        headers += self._sign(secrets, order.message_id, self._clock.wall_ms() // 1000, order.body)
        return MerchantRequest(order.url, tuple(headers), order.body, order.company)


def recorded_outcome(judged: Judged) -> Outcome | None:
    """What the record keeps of a known outcome; None where it is not known or nothing was sent."""
    if judged.kind is OutcomeKind.SUCCEEDED:
        return Outcome(Status.SUCCEEDED, judged.result, judged.dropped)
    if judged.kind is OutcomeKind.FAILED and judged.error is not None:
        return Outcome(Status.FAILED, fault=Fault(judged.error.code, judged.error.message, judged.error.details))
    return None


_json: Final = msgspec.json.Encoder().encode
