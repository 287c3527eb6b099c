"""How a request becomes a claim: who it is, under what terms it would run, and what stands against it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import msgspec

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


class Wanted(msgspec.Struct, frozen=True):
    """What is asked for, whoever runs it."""

    company: Company
    conversation: str
    tool_call_id: str | None
    target: str
    arguments: Arguments
    place: Place
    scope: Scope
    kind: Kind = Kind.TOOL_CALL


class Claims:
    """Makes claims; nothing here waits."""

    def __init__(self, *, registry: Registry, judging: Judging, randomness: Randomness, limits: CallLimits) -> None:
        self._registry = registry
        self._judging = judging
        self._randomness = randomness
        self._limits = limits

    def of_call(self, wanted: Wanted, tool: Tool | None, judged: Judged, *, unrecorded: bool = False) -> Claim:
        """`unrecorded`: of a look-up that must start nothing (3.6)."""
        read_only = tool is not None and not tool.verdict.side_effecting and judged.asks is not None
        timeout_s = tool.timeout_s if tool is not None else DEFAULT_TIMEOUT_S
        terms = _terms(
            wanted.company,
            tool,
            # Not `tool.mode`: one that is read-only by now may still have a hold that ends, and that is no read.
            mode=Mode.SAFE_TO_RETRY if read_only else Mode.AT_MOST_ONCE,
            on_repeat=OnRepeat.RUN if read_only else OnRepeat.HOLD,
            lease_s=timeout_s + self._limits.lease_margin_s,
            endpoint=tool.endpoint if tool is not None else "",
        )
        refusal = d.UNRECORDED if unrecorded else judged.refusal
        return _claim(wanted, terms, self._randomness.token(), judged, refusal)

    def of_submission(
        self,
        wanted: Wanted,
        tool: Tool | None,
        judged: Judged,
        *,
        token: bytes,
        mode: Mode | None,
        side_effecting: bool | None,
    ) -> Claim:
        """Of an effect that whoever asks runs (7.2). Only what changes state at a merchant is a repeat (4.9)."""
        changes = wanted.kind is Kind.TOOL_CALL and side_effecting is not False
        terms = _terms(
            wanted.company,
            tool,
            mode=Mode.AT_MOST_ONCE if changes else Mode.SAFE_TO_RETRY,
            on_repeat=OnRepeat.HOLD if changes else OnRepeat.RUN,
            lease_s=self._limits.submitted_lease_s,
            endpoint="",
        )
        terms = msgspec.structs.replace(
            terms,
            mode=mode or terms.mode,
            on_repeat=terms.on_repeat if changes else OnRepeat.RUN,
            unavailable_means_not_executed=False,
        )
        if wanted.tool_call_id is None:
            # A token names its submission wherever it comes again.
            wanted = msgspec.structs.replace(wanted, scope=Scope.CONVERSATION)
        return _claim(wanted, terms, token, judged, judged.refusal, submitted=True, seed=self._randomness.token())

    def of_held(self, held: Effect) -> Claim:
        """A held call as it would be asked now, to be judged anew (4.9). Limits were asked when it came (7.5)."""
        company = self._registry.company(held.company)
        tool = self._registry.tool(held.company, held.target) if held.kind is Kind.TOOL_CALL else None
        arguments, role = identity.read_arguments(held.arguments or "{}"), Role.RUNTIME
        wanted = Wanted(
            company,
            held.conversation,
            held.tool_call_id,
            held.target,
            arguments,
            held.place,
            Scope.CONVERSATION,
            held.kind,
        )
        if not held.submitted:
            judged = self._judging.call(company, tool, held.target, arguments, held.step, role)
            return self.of_call(wanted, tool, _unlimited(judged))
        side_effecting = self._judging.side_effecting(company, held.kind, held.target)
        judged = self._judging.effect(company, held.kind, held.target, arguments, side_effecting, held.step, role)
        return self.of_submission(
            wanted,
            tool,
            _unlimited(judged),
            token=self._randomness.token(),
            mode=held.mode,
            side_effecting=side_effecting,
        )


def _terms(
    company: Company, tool: Tool | None, *, mode: Mode, on_repeat: OnRepeat, lease_s: float, endpoint: str
) -> Terms:
    """As the tool declares; `mode` and `on_repeat` where it declares nothing."""
    return Terms(
        mode=(tool.idempotency if tool is not None else None) or mode,
        on_repeat=(tool.on_repeat if tool is not None else None) or on_repeat,
        lease_ms=int(lease_s * 1000),
        tool_version=tool.version if tool is not None else 0,
        endpoint=endpoint,
        repeat_window_ms=int(company.repeat_window_s * 1000),
        retention_ms=int(company.retention_s * 1000),
        unavailable_means_not_executed=tool is not None and tool.unavailable_means_not_executed,
        hold_approvers=_AND_CUSTOMER if company.customer_may_approve else _OPERATOR,
    )


def _claim(
    wanted: Wanted,
    terms: Terms,
    token: bytes,
    judged: Judged,
    refusal: d.Denied | d.Refused | None,
    *,
    submitted: bool = False,
    seed: bytes = b"",
) -> Claim:
    return Claim(
        company=wanted.company.name,
        conversation=wanted.conversation,
        tool_call_id=wanted.tool_call_id,
        kind=wanted.kind,
        target=wanted.target,
        arguments=wanted.arguments,
        fingerprint=identity.fingerprint(wanted.kind, wanted.target, wanted.arguments.canonical),
        place=wanted.place,
        scope=wanted.scope,
        terms=terms,
        token=token,
        refusal=refusal,
        submitted=submitted,
        seed=seed,
        asks=judged.asks,
        ruled=judged.ruled,
        limited=bool(judged.limits),
    )


def token_of(claim_token: str) -> bytes:
    """A caller-made claim token as the ledger keeps it: never what proves the right to an effect itself (9.3)."""
    return hashlib.sha256(b"oncegate.token.1" + claim_token.encode()).digest()[:16]


def _unlimited(judged: Judged) -> Judged:
    return Judged(judged.refusal, judged.asks, judged.ruled)
