"""Read-only calls: sent, logged, answered, never recorded (promise 3.6)."""

from __future__ import annotations

import logging

from gateway.core.answer import Answer
from gateway.core.errors import GatewayError, MerchantNotReady, MerchantReplyInvalid, MerchantUnreachable
from gateway.core.identity import Arguments, Place
from gateway.core.model import Tool
from gateway.core.outcome import OutcomeKind
from gateway.core.ports import Clock, Randomness
from gateway.core.record import Mode
from gateway.service import answers
from gateway.service.answers import Asked
from gateway.service.registry import Registry
from gateway.service.sending import Order, Sending, Trace, recorded_outcome, wire_body

_log = logging.getLogger("oncegate.calls")


class Reading:
    """Sends a read-only call; an unknown outcome may be tried again inside the deadline."""

    def __init__(self, sending: Sending, registry: Registry, clock: Clock, randomness: Randomness) -> None:
        self._sending = sending
        self._registry = registry
        self._clock = clock
        self._randomness = randomness

    async def run(
        self,
        tool: Tool,
        tool_call_id: str | None,
        conversation: str,
        arguments: Arguments,
        place: Place,
        asked: Asked,
        trace: Trace,
    ) -> Answer:
        body = wire_body(
            tool=tool.name,
            arguments=arguments.text,
            company=tool.company,
            conversation=conversation,
            turn=place.turn,
            tool_call_id=tool_call_id,
            attempt=place.attempt,
        )
        message_id = f"read_{self._randomness.token().hex()}"
        order = Order(tool.company, tool.endpoint, body, message_id, None, tool.mode is Mode.SAFE_TO_RETRY, False)
        secrets = [secret.value for secret in self._registry.secrets(tool.company)]
        sent = await self._sending.send(order, secrets, trace, deadline=self._clock.monotonic() + tool.timeout_s)
        judged = sent.judged
        _log.info("read tool answered", extra={"outcome": judged.kind.value, "request_id": trace.request_id})
        outcome = recorded_outcome(judged)
        if outcome is not None:
            return answers.of_read(asked, outcome)
        if judged.kind is OutcomeKind.NOT_SENT:
            raise not_sent(judged.code, judged.message, judged.retry_after_s)
        raise MerchantReplyInvalid(judged.message)


def not_sent(code: str | None, message: str, retry_after_s: float | None) -> GatewayError:
    """The 502 for an exchange in which nothing was done (5)."""
    kind = MerchantNotReady if code == MerchantNotReady.code else MerchantUnreachable
    return kind(message, retry_after_s=retry_after_s)
