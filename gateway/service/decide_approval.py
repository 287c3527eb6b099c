"""Approvals: who may decide them, what granting runs, what is pending (promises 4.9, 7.4)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.core import decisions as d
from gateway.core.answer import iso
from gateway.core.approval_names import read_approval_name
from gateway.core.approving import APPROVAL_DENIED
from gateway.core.conversation import View
from gateway.core.errors import (
    ApprovalDecided,
    ApprovalOutdated,
    CallInFlight,
    Forbidden,
    GrantRefused,
    LedgerUnavailable,
    Malformed,
    NotFound,
)
from gateway.core.model import Principal, Role
from gateway.core.policy import CUSTOMER, may_approve
from gateway.core.ports import Clock, Ledger
from gateway.core.record import Effect, OpenApproval, Status
from gateway.core.requests import HOLD_MS, Grant, Refuse
from gateway.core.rights import Right, allowed, may
from gateway.service.answers import Asked, approval_body
from gateway.service.claims import Claims
from gateway.service.deciding import Decider
from gateway.service.registry import Registry
from gateway.service.running import Running
from gateway.service.sending import Trace
from gateway.service.shown_arguments import shown_arguments
from gateway.service.submit_effect import outcome_body
from gateway.service.waiting import Waiting

_log = logging.getLogger("oncegate.calls")

TRIES: Final = 3
"""Of a grant whose answer the ledger owes: the same token is told that it is the holder (4.3)."""


class Verdict(msgspec.Struct, frozen=True):
    """What a decision says beside yes or no, for the event log. `customer_message`: the customer's own words, which
    a runtime that speaks for the customer has to give."""

    rationale: str | None = None
    customer_message: str | None = None


class DecideApproval:
    """An approval is single-use; the principal is the key's, whatever a body says (7.4)."""

    def __init__(
        self,
        *,
        registry: Registry,
        ledger: Ledger,
        decider: Decider,
        claims: Claims,
        running: Running,
        waiting: Waiting,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._decider = decider
        self._claims = claims
        self._running = running
        self._waiting = waiting
        self._clock = clock

    async def grant(self, principal: Principal, name: str, said: Verdict, trace: Trace) -> dict[str, Any]:
        """The stored call is run, once, and its outcome answered; what a runtime runs itself waits for it.

        Raises Forbidden, NotFound, ApprovalDecided, ApprovalOutdated, GrantRefused, CallInFlight, LedgerUnavailable,
        and what a call raises that did not reach its merchant.
        """
        effect, approval, by = await self._may_decide(principal, name, said)
        # Who may decide a call need not be one who may read what it came to (9.1).
        results = allowed(principal, Right.READ_RESULTS, effect.company)
        claim = self._claims.of_held(effect)
        request = Grant(effect.effect_id, approval, by, claim, _said(principal, said))
        at = self._clock.monotonic()
        decision, view = await self._granted(request, effect)
        match decision:
            case d.Granted(effect=runs):
                _log.info("an approval was granted", extra={"effect_id": effect.hex, "by": by})
                asked = Asked(effect.company, effect.conversation, effect.tool_call_id, effect.target)
                answer = await self._running.run(claim, runs, view, asked, trace, at)
                shown = _outcome(answer.result, answer.error, results)
                return {**_given(name, "granted", effect, by, answer.status), **shown}
            case d.Approved(effect=stands):
                self._waiting.ended(effect.effect_id)
                came = outcome_body(stands) if stands.status in (Status.SUCCEEDED, Status.FAILED) else None
                shown = {} if came is None else _outcome(came.get("result"), came.get("error"), results)
                return {**_given(name, "granted", effect, by, stands.status.value), **shown}
            case d.Reopened(effect=anew):
                details = {"approval": approval_body(anew, HOLD_MS)}
                raise ApprovalOutdated(
                    "The tool or its rule has changed since; decide the new approval.", details=details
                )
            case d.Wait():
                raise CallInFlight("an identical call is running; decide again once it has ended", retry_after_s=1.0)
            case d.Denied(fault=fault):
                raise GrantRefused(fault.message, details={"refused": fault.code})
            case d.Refused(code=code, message=message):
                raise GrantRefused(message, details={"refused": code})
        raise _decided(decision, approval)

    async def deny(self, principal: Principal, name: str, said: Verdict) -> dict[str, Any]:
        """It is not done, and its ids are told so from now on. Raises as `grant` does."""
        effect, approval, by = await self._may_decide(principal, name, said)
        keep_ms = int(self._registry.company(effect.company).retention_s * 1000)
        request = Refuse(effect.effect_id, approval, by, HOLD_MS, keep_ms, _said(principal, said))
        decision, _ = await self._decider.end(request, effect)
        if isinstance(decision, d.Settled):
            self._waiting.ended(effect.effect_id)
            _log.info("an approval was denied", extra={"effect_id": effect.hex, "by": by})
            return _given(name, "denied", effect, by, Status.DENIED.value)
        raise _decided(decision, approval)

    async def pending(
        self, principal: Principal, company: str, cursor: str | None, limit: int
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A page of a company's open approvals; a page may be short, or empty, before the last."""
        may(principal, Right.READ_CALLS, company)
        page = await self._ledger.pending(company, cursor, limit)
        shown = [self._shown(effect) for effect in page.effects if effect.approval is not None and not effect.granted]
        return shown, page.cursor

    async def get(self, principal: Principal, name: str) -> dict[str, Any]:
        """One approval, with the call it is about. Raises NotFound, also for another company's (9.1)."""
        effect = await self._find(principal, name)
        may(principal, Right.READ_CALLS, effect.company)
        return self._shown(effect)

    async def _granted(self, request: Grant, effect: Effect) -> tuple[d.Decision, View]:
        landed = False
        for left in reversed(range(TRIES)):
            try:
                return await self._decider.grant(request, effect)
            except LedgerUnavailable as lost:
                # A later try that was not sent says nothing of an earlier one that may stand.
                landed = landed or lost.may_have_run
                if not landed:
                    raise
                if not left:
                    self._running.withdraw(request.claim)
                    raise
        raise AssertionError("unreachable")

    async def _find(self, principal: Principal, name: str) -> Effect:
        await self._registry.refresh()
        read = read_approval_name(name)
        found = await self._ledger.named(read.conversation, read.effect) if read is not None else None
        if read is None or found is None or found.approval is None or not principal.may_see(found.company):
            raise NotFound("There is no such approval.")
        if found.approval.id != read.approval:
            if found.status is not Status.AWAITING_APPROVAL:
                raise NotFound("There is no such approval.")
            raise _replaced(found)
        return found

    async def _may_decide(self, principal: Principal, name: str, said: Verdict) -> tuple[Effect, bytes, str]:
        effect = await self._find(principal, name)
        assert effect.approval is not None
        return effect, effect.approval.id, decider_of(effect.approval, principal, said)

    def _shown(self, effect: Effect) -> dict[str, Any]:
        approval = effect.approval
        assert approval is not None
        return {
            **(approval_body(effect, HOLD_MS) or {}),
            "status": _status(effect),
            "because": approval.because.value,
            "rule": approval.rule,
            "bundle_version": approval.bundle or None,
            "requested_at": iso(approval.at),
            "by": approval.decided_by,
            "company": effect.company,
            "conversation": effect.conversation,
            "turn": effect.turn,
            "step": effect.step,
            "effect_id": effect.hex,
            "kind": effect.kind.value,
            "tool": effect.target,
            "tool_version": effect.tool_version,
            "tool_call_id": effect.tool_call_id,
            "arguments": shown_arguments(effect, self._registry.tool(effect.company, effect.target)),
            "repeat_of": [each.hex() for each in effect.repeat_of],
        }


def _outcome(result: Any, error: Mapping[str, Any] | None, results: bool) -> dict[str, Any]:
    if results:
        return {"result": result, "error": error}
    return {"result": None, "error": None if error is None else {name: error[name] for name in ("code", "message")}}


def decider_of(approval: OpenApproval, principal: Principal, said: Verdict) -> str:
    """Under what name a principal decides: its own, or the customer's, for whom a runtime speaks where the approval
    names the customer. Raises Forbidden and Malformed."""
    if may_approve(approval.approvers, principal):
        return principal.name
    if principal.role is Role.RUNTIME and CUSTOMER in approval.approvers:
        if said.customer_message is None:
            raise Malformed(
                "a runtime decides for the customer only with the customer's own words",
                details={"fields": [{"field": "/customer_message", "problem": "is required of a runtime key"}]},
            )
        return CUSTOMER
    raise Forbidden(f"This key may not decide this approval; it is for: {', '.join(approval.approvers)}.")


def _given(name: str, decision: str, effect: Effect, by: str, status: str | None) -> dict[str, Any]:
    return {"id": name, "decision": decision, "effect_id": effect.hex, "by": by, "status": status}


def _replaced(effect: Effect) -> ApprovalOutdated:
    details = {"approval": approval_body(effect, HOLD_MS)}
    return ApprovalOutdated("Another approval is open in its place.", details=details)


def _status(effect: Effect) -> str:
    """`pending`, `granted` (and not used yet), or how the effect stands."""
    if effect.status is not Status.AWAITING_APPROVAL:
        return effect.status.value
    return "granted" if effect.granted else "pending"


def _said(principal: Principal, said: Verdict) -> dict[str, str]:
    told = {"rationale": said.rationale, "customer_message": said.customer_message}
    if principal.role is Role.RUNTIME:
        told["via"] = principal.name
    return {name: words for name, words in told.items() if words is not None}


def _decided(decision: d.Decision, approval: bytes) -> Exception:
    stands = decision.effect if isinstance(decision, d.Late) else None
    if stands is None or stands.approval is None:
        return NotFound("There is no such approval.")
    if stands.status is Status.AWAITING_APPROVAL and stands.approval.id != approval:
        return _replaced(stands)
    by, code = (
        stands.approval.decided_by,
        stands.outcome.fault.code if stands.outcome and stands.outcome.fault else None,
    )
    details = {"stands": {"status": stands.status.value, "by": by}}
    lapsed = stands.status is Status.DENIED and code != APPROVAL_DENIED.code
    said = "it lapsed" if lapsed else f"it stands as {stands.status.value}"
    if by is not None and not lapsed:
        said = f"{'denied' if stands.status is Status.DENIED else 'granted'} by {by}"
    if by is not None and stands.status is Status.ABSENT:
        said = f"{said}, and not done"
    return ApprovalDecided(f"It is no longer open: {said}. Nothing was changed.", details=details)
