"""Effects that whoever asks runs: model calls, local values, tools of the runtime's own (promise 7.2).

Same identity, ledger, policy and events as calls: only who runs it differs, and so does the answer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from gateway.core import decisions as d
from gateway.core.answer import fault_body, fault_of, first_body, iso, raw
from gateway.core.conversation import View
from gateway.core.errors import RateLimited
from gateway.core.identity import Arguments, Kind, Place, Scope
from gateway.core.model import Principal
from gateway.core.ports import Clock
from gateway.core.record import Effect, Mode, Status
from gateway.core.requests import Claim
from gateway.core.rights import Right, may
from gateway.service.answers import approval_body, held_message
from gateway.service.claiming import Claiming
from gateway.service.claims import Claims, Wanted, token_of
from gateway.service.judging import Judging
from gateway.service.refusal_log import RefusalLog, Subject
from gateway.service.refusing import problem_of
from gateway.service.registry import Registry
from gateway.service.replay_notes import ReplayNotes

WAIT_S = 10.0
"""How long a submission waits for another that holds the same effect (4.8)."""


class Submission(msgspec.Struct, frozen=True):
    """A `POST /v1/effects`, its fields checked."""

    company: str
    conversation: str
    turn: str
    attempt: int
    kind: Kind
    target: str
    args: Arguments
    claim_token: str
    idempotency: Mode | None = None
    tool_call_id: str | None = None
    step: int | None = None
    call_id_scope: Scope | None = None


class SubmitEffect:
    """Answers one submission. Raises GatewayError for what is not an answer."""

    def __init__(
        self,
        *,
        registry: Registry,
        judging: Judging,
        claims: Claims,
        claiming: Claiming,
        refusals: RefusalLog,
        notes: ReplayNotes,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._judging = judging
        self._claims = claims
        self._claiming = claiming
        self._refusals = refusals
        self._notes = notes
        self._clock = clock

    async def __call__(self, principal: Principal, asked: Submission) -> dict[str, Any]:
        """`{"effect_id", "decision", "status", …}`. The same token gets the same answer."""
        may(principal, Right.CALL, asked.company)
        await self._registry.refresh()
        company = self._registry.company(asked.company)
        tool = self._registry.tool(asked.company, asked.target) if asked.kind is Kind.TOOL_CALL else None
        side_effecting = self._judging.side_effecting(company, asked.kind, asked.target)
        judged = self._judging.effect(
            company, asked.kind, asked.target, asked.args, side_effecting, asked.step, principal.role
        )
        wanted = Wanted(
            company,
            asked.conversation,
            asked.tool_call_id,
            asked.target,
            asked.args,
            Place(asked.turn, asked.step, asked.attempt),
            asked.call_id_scope or company.call_id_scope,
            asked.kind,
        )
        claim = self._claims.of_submission(
            wanted,
            tool,
            judged,
            token=token_of(asked.claim_token),
            mode=asked.idempotency,
            side_effecting=side_effecting,
        )
        try:
            decision, view, claim, _ = await self._claiming(claim, self._clock.monotonic() + WAIT_S, judged.limits)
        except RateLimited as limited:
            return {"effect_id": None, "decision": "rate_limited", "status": None, "reason": limited.message,
                    "retry_after_s": limited.retry_after_s}  # fmt: skip
        return await self._answer(claim, decision, view)

    async def _answer(self, claim: Claim, decision: d.Decision, view: View) -> dict[str, Any]:
        match decision:
            case d.Granted(effect=effect):
                # What is left of it: the same token may ask long after it was claimed.
                left_ms = effect.lease_ms if view.now_ms is None else max(0, effect.lease_left(view.now_ms))
                return {**_of(effect, "proceed"), "lease_s": left_ms / 1000}
            case d.Replay(effect=effect, matched=matched):
                self._notes.note(effect, matched, claim.terms.retention_ms)
                now_ms = view.now_ms or self._clock.wall_ms()
                first_at = effect.first_at or now_ms
                replay = {"matched": matched, "first_at": iso(first_at), "age_s": max(0, now_ms - first_at) / 1000}
                return {**_of(effect, "replay"), **outcome_body(effect), "replay": replay}
            case d.Blocked(effect=effect, first=first):
                return {
                    **_of(effect, "blocked"),
                    "first": first_body(first) if first is not None else None,
                    "approval": approval_body(effect, claim.terms.hold_ms),
                    "reason": held_message(effect, first),
                }
            case d.Denied(fault=fault, first=first):
                await self._refusals.denied(Subject.of(claim), decision)
                return {
                    "effect_id": None,
                    "decision": "denied",
                    "status": Status.DENIED.value,
                    "error": fault_body(fault),
                    "first": first_body(first) if first is not None else None,
                    "reason": fault.message,
                }
            case d.Refused():
                # Its tool says what of it nobody may be told, where the gateway knows the tool (9.3).
                raise problem_of(decision, partial(self._registry.tool, claim.company), claim.target)
        raise AssertionError(f"a submission was answered {decision}")


def _of(effect: Effect, decision: str) -> dict[str, Any]:
    return {"effect_id": effect.hex, "decision": decision, "status": effect.status.value}


def outcome_body(effect: Effect) -> dict[str, Any]:
    """The `result` or the `error` of an effect, as an answer shows it; a result as it was sent, digit for digit."""
    fault = fault_of(effect)
    if fault is not None:
        return {"error": fault_body(fault)}
    return {"result": raw(effect.outcome.result) if effect.outcome is not None else None}
