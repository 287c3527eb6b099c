"""What the runner of a submitted effect says of it: complete, fail, renew, release (promises 4.3, 4.4, 7.2)."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.core import decisions as d
from gateway.core.answer import iso
from gateway.core.errors import ClaimLost, OutcomeConflict
from gateway.core.model import Principal
from gateway.core.ports import Ledger
from gateway.core.record import Effect, Fault, Outcome, Status
from gateway.core.requests import End, Release, Renew, Settle
from gateway.core.rights import Right, may
from gateway.service.claims import token_of
from gateway.service.deciding import Decider
from gateway.service.find_effect import find_effect, nothing_recorded
from gateway.service.registry import Registry
from gateway.service.submit_effect import outcome_body
from gateway.service.waiting import Waiting


class Report(msgspec.Struct, frozen=True):
    """Who reports on what. `result` is JSON text as it was sent; of `complete` and `fail` only what is theirs."""

    company: str
    conversation: str
    claim_token: str
    result: bytes | None = None
    fault: Fault | None = None


class ReportEffect:
    """Each says what it changed, or what stands instead. Said again with the same token it changes nothing (4.3)."""

    def __init__(
        self,
        *,
        registry: Registry,
        ledger: Ledger,
        decider: Decider,
        waiting: Waiting,
        result_cap: int,
        lease_s: float,
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._decider = decider
        self._waiting = waiting
        self._result_cap = result_cap
        self._lease_ms = int(lease_s * 1000)

    async def complete(self, principal: Principal, effect_id: str, said: Report) -> dict[str, Any]:
        """It succeeded. Raises Forbidden, NotFound, ClaimLost, OutcomeConflict, LedgerUnavailable."""
        dropped = said.result is not None and len(said.result) > self._result_cap
        return await self._settle(
            principal, effect_id, said, Outcome(Status.SUCCEEDED, None if dropped else said.result, dropped)
        )

    async def fail(self, principal: Principal, effect_id: str, said: Report) -> dict[str, Any]:
        """It was tried, and it is certain that it was not done."""
        return await self._settle(principal, effect_id, said, Outcome(Status.FAILED, fault=said.fault))

    async def renew(self, principal: Principal, effect_id: str, said: Report) -> dict[str, Any]:
        """Its runner is still at work: the lease counts anew."""
        effect = await self._find(principal, effect_id, said)
        decision = await self._end(Renew(effect.effect_id, token_of(said.claim_token), self._lease_ms), effect)
        if isinstance(decision, d.Renewed):
            return {**_shown(decision.effect), "lease_s": self._lease_ms / 1000}
        raise _lost(decision)

    async def release(self, principal: Principal, effect_id: str, said: Report) -> dict[str, Any]:
        """It was not run at all: its number is free again (2.4)."""
        effect = await self._find(principal, effect_id, said)
        keep_ms = self._keep_ms(said.company)
        request = Release(effect.effect_id, token_of(said.claim_token), "released by its runner", keep_ms)
        decision = await self._end(request, effect)
        if isinstance(decision, d.Gone):
            return {"effect_id": effect.hex, "status": Status.ABSENT.value}
        stands = decision.effect if isinstance(decision, d.Late) else None
        if stands is not None and stands.status is Status.INDETERMINATE and request.token not in stands.tokens:
            return _shown(stands)  # given back, and as unknown as it was before (4.1)
        raise _lost(decision)

    async def _settle(self, principal: Principal, effect_id: str, said: Report, outcome: Outcome) -> dict[str, Any]:
        effect = await self._find(principal, effect_id, said)
        if token_of(said.claim_token) not in effect.tokens:
            raise _lost(d.Late(effect))  # a stranger's word is no late success, and raises no alarm (4.4)
        request = Settle(effect.effect_id, token_of(said.claim_token), outcome, self._keep_ms(said.company))
        decision = await self._end(request, effect)
        match decision:
            case d.Settled(effect=after):
                return {**_shown(after), **outcome_body(after)}
            case d.Conflicting(effect=stands):
                raise OutcomeConflict(
                    "Another outcome is recorded; this one is kept in the event log.", details=_stands(stands)
                )
        raise _lost(decision)

    async def _find(self, principal: Principal, effect_id: str, said: Report) -> Effect:
        may(principal, Right.CALL, said.company)
        await self._registry.refresh()
        return await find_effect(self._ledger, said.company, said.conversation, effect_id)

    async def _end(self, request: End, effect: Effect) -> d.Decision:
        decision, _ = await self._decider.end(request, effect)
        self._waiting.ended(effect.effect_id)
        return decision

    def _keep_ms(self, company: str) -> int:
        return int(self._registry.company(company).retention_s * 1000)


def _shown(effect: Effect) -> dict[str, Any]:
    return {"effect_id": effect.hex, "status": effect.status.value}


def _lost(decision: d.Decision) -> Exception:
    stands = decision.effect if isinstance(decision, d.Late) else None
    if stands is None:
        return nothing_recorded()
    return ClaimLost(
        f"This token does not hold the effect, which stands as {stands.status.value}. Nothing was changed.",
        details=_stands(stands),
    )


def _stands(effect: Effect) -> dict[str, Any]:
    return {"stands": {"status": effect.status.value, "settled_at": iso(effect.settled_at)}}
