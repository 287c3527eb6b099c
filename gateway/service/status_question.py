"""One question to a merchant's status endpoint, and what its answer changes (promise 5.4)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from gateway import __version__
from gateway.core.identity import Kind
from gateway.core.model import Tool
from gateway.core.ports import Clock, Ledger, Merchant, MerchantRequest, Randomness, Signer
from gateway.core.record import Effect, Status
from gateway.core.requests import Resolve, where_of
from gateway.core.status_reply import Said, Told, told_by
from gateway.service.deciding import Decider
from gateway.service.registry import Registry

_log = logging.getLogger("oncegate.asking")

BY: Final = "merchant"
"""Whom the event names."""
MOST_NAMED: Final = 1_000
"""Tools whose status endpoint was complained of; past it they are complained of again."""


class Learnt(msgspec.Struct, frozen=True):
    """`over`: the effect is no longer unknown, by this answer or by something else."""

    over: bool
    retry_after_s: float | None = None


class StatusQuestion:
    """Asks about one effect, and settles it if the merchant knows."""

    def __init__(
        self,
        *,
        merchant: Merchant,
        sign: Signer,
        registry: Registry,
        ledger: Ledger,
        decider: Decider,
        clock: Clock,
        randomness: Randomness,
        result_cap: int,
        count: Callable[[Said], None] = lambda _: None,
    ) -> None:
        self._merchant = merchant
        self._sign = sign
        self._registry = registry
        self._ledger = ledger
        self._decider = decider
        self._clock = clock
        self._randomness = randomness
        self._result_cap = result_cap
        self._count = count
        self._named: set[tuple[str, str]] = set()

    def can_ask(self, effect: Effect) -> bool:
        """Whether somebody can be asked about this effect now."""
        return self._tool(effect) is not None

    async def ask(self, effect: Effect) -> Learnt:
        """Ask, unless the effect is no longer unknown, and record what is learnt. Raises LedgerUnavailable; what was
        learnt is then asked for again."""
        tool, secrets = self._tool(effect), [secret.value for secret in self._registry.secrets(effect.company)]
        if tool is None or tool.status_endpoint is None:
            return Learnt(False)
        view = await self._ledger.read(where_of(effect))
        stands = view.effects.get(effect.effect_id)
        if stands is None or stands.status is not Status.INDETERMINATE:
            return Learnt(True)
        message_id = f"status_{self._randomness.token().hex()}"
        body = question_body(stands)
        headers = [
            ("content-type", "application/json"),
            ("user-agent", f"oncegate/{__version__}"),
            ("request-id", message_id),
            # A message of its own, without Idempotency-Key: a merchant that keeps replies by key must neither answer
            # the call with this one's nor this one with an old answer of its own.
            *self._sign(secrets, message_id, self._clock.wall_ms() // 1000, body),
        ]
        request = MerchantRequest(tool.status_endpoint, tuple(headers), body, effect.company)
        seen = await self._merchant.send(request, deadline_s=tool.timeout_s)
        told = told_by(seen, result_cap=self._result_cap, now_s=self._clock.wall_ms() / 1000)
        self._count(told.said)
        if told.outcome is None:
            self._note(tool, told)
            return Learnt(False, told.retry_after_s)
        self._named.discard((tool.company, tool.name))
        keep_ms = int(self._registry.company(effect.company).retention_s * 1000)
        resolve = Resolve(
            *(effect.effect_id, told.outcome, BY, "", keep_ms), said_by_merchant=True, token=stands.tokens[-1]
        )
        await self._decider.end(resolve, stands)
        _log.info("a status endpoint settled a call", extra={"effect_id": effect.hex, "said": told.said.value})
        return Learnt(True)

    def _tool(self, effect: Effect) -> Tool | None:
        """The tool whose status endpoint knows of the effect. One that is registered at another endpoint by now may be
        another shop, whose `void` would say nothing of what the first one did."""
        tool = self._registry.tool(effect.company, effect.target)
        if effect.kind is not Kind.TOOL_CALL or tool is None or tool.status_endpoint is None:
            return None
        if tool.endpoint != effect.endpoint or not self._registry.secrets(effect.company):
            return None
        return tool

    def _note(self, tool: Tool, told: Told) -> None:
        """Say once that an endpoint does not answer as it should; every answer is in the metrics."""
        name = (tool.company, tool.name)
        if told.said is not Said.NOTHING:
            self._named.discard(name)
        elif name not in self._named:
            if len(self._named) >= MOST_NAMED:
                self._named.clear()
            self._named.add(name)
            _log.warning(
                "a status endpoint does not say what became of a call",
                extra={"company": tool.company, "tool": tool.name, "reason": told.reason},
            )


def question_body(effect: Effect) -> bytes:
    """`{"idempotency_key", "tool", "context", "first_at"}`: the key and the context that the call was sent with (6),
    and whole Unix seconds (ledger's clock) before which it was not sent: a merchant that has pruned its records since
    cannot tell whether it ever came."""
    context = {
        "company": effect.company,
        "conversation": effect.conversation,
        "turn": effect.turn,
        "tool_call_id": effect.tool_call_id,
        "attempt": effect.attempt if effect.turn is not None else None,
    }
    asked: dict[str, object] = {"idempotency_key": effect.hex, "tool": effect.target, "context": context}
    if effect.first_at is not None:
        asked["first_at"] = effect.first_at // 1000
    return _json(asked)


_json: Final = msgspec.json.Encoder().encode
