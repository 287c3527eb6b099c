"""How a request becomes a claim: who it is, under what terms it would run, and what stands against it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from gateway.core import decisions as d
from gateway.core import identity
from gateway.core.identity import Arguments, Kind, Place, Scope
from gateway.core.model import Company, Role, Tool
from gateway.core.policy import CUSTOMER
from gateway.core.ports import Randomness
from gateway.core.record import Effect, Mode
from gateway.core.requests import Claim, OnRepeat, Terms
from gateway.service.judging import Judged, Judging
from gateway.service.registry import Registry

DEFAULT_TIMEOUT_S: Final = 10.0
_OPERATOR: Final = (Role.OPERATOR.value,)
_AND_CUSTOMER: Final = (Role.OPERATOR.value, CUSTOMER)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Platform settings of calls, in seconds."""

    lease_margin_s: float = 5.0
    """How much longer than its deadline a call may hold its claim (4.5)."""
    wait_margin_s: float = 1.0
    """How much longer than that deadline a concurrent duplicate waits for the answer (4.8)."""
    submitted_lease_s: float = 60.0
    """How long a submitted effect is claimed before it has to be renewed (7.2)."""


class Claims:
    """Makes claims; nothing here waits."""

    def __init__(self, *, registry: Registry, judging: Judging, randomness: Randomness, limits: CallLimits) -> None:
        self._registry = registry
        self._judging = judging
        self._randomness = randomness
        self._limits = limits

    def of_call(
        self,
        company: Company,
        tool: Tool | None,
        conversation: str,
        tool_call_id: str | None,
        name: str,
        arguments: Arguments,
        place: Place,
        scope: Scope,
        judged: Judged,
        *,
        unrecorded: bool = False,
    ) -> Claim:
        """`unrecorded`: of a look-up that must start nothing (3.6)."""
        read_only = tool is not None and not tool.verdict.side_effecting and judged.asks is not None
        timeout_s = tool.timeout_s if tool is not None else DEFAULT_TIMEOUT_S
        terms = Terms(
            # Not `tool.mode`: one that is read-only by now may still have a hold that ends, and that is no read.
            mode=(tool.idempotency if tool is not None else None)
            or (Mode.SAFE_TO_RETRY if read_only else Mode.AT_MOST_ONCE),
            on_repeat=(tool.on_repeat if tool is not None else None) or (OnRepeat.RUN if read_only else OnRepeat.HOLD),
            lease_ms=int((timeout_s + self._limits.lease_margin_s) * 1000),
            tool_version=tool.version if tool is not None else 0,
            endpoint=tool.endpoint if tool is not None else "",
            repeat_window_ms=int(company.repeat_window_s * 1000),
            retention_ms=int(company.retention_s * 1000),
            unavailable_means_not_executed=tool is not None and tool.unavailable_means_not_executed,
            hold_approvers=_hold_approvers(company),
        )
        return Claim(
            company=company.name,
            conversation=conversation,
            tool_call_id=tool_call_id,
            kind=Kind.TOOL_CALL,
            target=name,
            arguments=arguments,
            fingerprint=identity.fingerprint(Kind.TOOL_CALL, name, arguments.canonical),
            place=place,
            scope=scope,
            terms=terms,
            token=self._randomness.token(),
            refusal=d.UNRECORDED if unrecorded else judged.refusal,
            asks=judged.asks,
            ruled=judged.ruled,
            limited=bool(judged.limits),
        )

    def of_submission(
        self,
        company: Company,
        conversation: str,
        tool_call_id: str | None,
        kind: Kind,
        target: str,
        arguments: Arguments,
        place: Place,
        scope: Scope,
        token: bytes,
        mode: Mode | None,
        tool: Tool | None,
        side_effecting: bool | None,
        judged: Judged,
    ) -> Claim:
        """Of an effect that whoever asks runs (7.2). Only what changes state at a merchant is a repeat (4.9)."""
        changes = kind is Kind.TOOL_CALL and side_effecting is not False
        declared = tool.idempotency if tool is not None else None
        terms = Terms(
            mode=mode or declared or (Mode.AT_MOST_ONCE if changes else Mode.SAFE_TO_RETRY),
            on_repeat=((tool.on_repeat if tool is not None else None) or OnRepeat.HOLD) if changes else OnRepeat.RUN,
            lease_ms=int(self._limits.submitted_lease_s * 1000),
            tool_version=tool.version if tool is not None else 0,
            endpoint="",
            repeat_window_ms=int(company.repeat_window_s * 1000),
            retention_ms=int(company.retention_s * 1000),
            hold_approvers=_hold_approvers(company),
        )
        return Claim(
            company=company.name,
            conversation=conversation,
            tool_call_id=tool_call_id,
            kind=kind,
            target=target,
            arguments=arguments,
            fingerprint=identity.fingerprint(kind, target, arguments.canonical),
            place=place,
            # A token names its submission wherever it comes again.
            scope=scope if tool_call_id is not None else Scope.CONVERSATION,
            terms=terms,
            token=token,
            refusal=judged.refusal,
            submitted=True,
            seed=self._randomness.token(),
            asks=judged.asks,
            ruled=judged.ruled,
            limited=bool(judged.limits),
        )

    def of_held(self, held: Effect) -> Claim:
        """A held call as it would be asked now, to be judged anew (4.9). Limits were asked when it came (7.5)."""
        company = self._registry.company(held.company)
        tool = self._registry.tool(held.company, held.target) if held.kind is Kind.TOOL_CALL else None
        arguments = identity.read_arguments(held.arguments or "{}")
        place, role = held.place, Role.RUNTIME
        if held.submitted:
            side_effecting = tool.verdict.side_effecting if tool is not None else None
            judged = self._judging.effect(company, held.kind, held.target, arguments, side_effecting, held.step, role)
            token = self._randomness.token()
            return self.of_submission(
                company, held.conversation, held.tool_call_id, held.kind, held.target, arguments, place,
                Scope.CONVERSATION, token, held.mode, tool, side_effecting, _unlimited(judged),
            )  # fmt: skip
        judged = self._judging.call(company, tool, held.target, arguments, held.step, role)
        return self.of_call(
            company, tool, held.conversation, held.tool_call_id, held.target, arguments, place,
            Scope.CONVERSATION, _unlimited(judged),
        )  # fmt: skip


def token_of(claim_token: str) -> bytes:
    """A caller-made claim token as the ledger keeps it: never what proves the right to an effect itself (9.3)."""
    return hashlib.sha256(b"oncegate.token.1" + claim_token.encode()).digest()[:16]


def _unlimited(judged: Judged) -> Judged:
    return Judged(judged.refusal, judged.asks, judged.ruled)


def _hold_approvers(company: Company) -> tuple[str, ...]:
    return _AND_CUSTOMER if company.customer_may_approve else _OPERATOR
