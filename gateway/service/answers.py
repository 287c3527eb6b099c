"""From a decision to what the runtime is told (section 8)."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.core.answer import (
    DROPPED_FAULT,
    HELD_MESSAGE,
    NEEDS_APPROVAL,
    UNKNOWN_FAULT,
    Answer,
    fault_body,
    fault_of,
    first_body,
    iso,
    message_of,
    raw,
)
from gateway.core.approval_names import approval_name
from gateway.core.record import Effect, Fault, Outcome, Status


class Asked(msgspec.Struct, frozen=True):
    """What of a request every answer repeats."""

    company: str
    conversation: str
    tool_call_id: str | None
    tool: str
    side_effecting: bool = True

    def answer(
        self,
        *,
        effect_id: str | None,
        decision: str,
        status: str | None,
        result: msgspec.Raw | None = None,
        error: dict[str, Any] | None = None,
        replay: dict[str, Any] | None = None,
        first: dict[str, Any] | None = None,
        approval: dict[str, Any] | None = None,
        recorded: bool = True,
        message: str,
    ) -> Answer:
        return Answer(
            effect_id=effect_id,
            company=self.company,
            conversation=self.conversation,
            tool_call_id=self.tool_call_id,
            tool=self.tool,
            decision=decision,
            status=status,
            side_effecting=self.side_effecting,
            result=result,
            error=error,
            replay=replay,
            first=first,
            approval=approval,
            recorded=recorded,
            message=message,
        )


def of_effect(asked: Asked, effect: Effect, *, recorded: bool = True) -> Answer:
    """The answer to the caller whose claim ran the effect."""
    fault = fault_of(effect)
    result = effect.outcome.result if effect.outcome is not None else None
    return asked.answer(
        effect_id=effect.hex,
        decision="proceed",
        status=effect.status.value,
        result=raw(result) if fault is None else None,
        error=fault_body(fault) if fault is not None else None,
        recorded=recorded,
        message=message_of(result, fault),
    )


def of_outcome(asked: Asked, effect: Effect, outcome: Outcome) -> Answer:
    """The real outcome where it could not be recorded (4.11)."""
    fault = DROPPED_FAULT if outcome.dropped else outcome.fault
    return asked.answer(
        effect_id=effect.hex,
        decision="proceed",
        status=outcome.status.value,
        result=raw(outcome.result) if fault is None else None,
        error=fault_body(fault) if fault is not None else None,
        recorded=False,
        message=message_of(outcome.result, fault),
    )


def of_unknown(asked: Asked, effect: Effect) -> Answer:
    """An unknown outcome that could not be recorded yet (4.11)."""
    return asked.answer(
        effect_id=effect.hex,
        decision="proceed",
        status=Status.INDETERMINATE.value,
        error=fault_body(UNKNOWN_FAULT),
        recorded=False,
        message=UNKNOWN_FAULT.message,
    )


def of_replay(asked: Asked, effect: Effect, matched: str, now_ms: int) -> Answer:
    """A stored outcome again, marked in the body, original result and error flag intact (4.10)."""
    fault = fault_of(effect)
    result = effect.outcome.result if effect.outcome is not None else None
    first_at = effect.first_at or now_ms
    said = message_of(result, fault)
    return asked.answer(
        effect_id=effect.hex,
        decision="replay",
        status=effect.status.value,
        result=raw(result) if fault is None else None,
        error=fault_body(fault) if fault is not None else None,
        replay={"matched": matched, "first_at": iso(first_at), "age_s": max(0, now_ms - first_at) / 1000},
        message=said if effect.status is Status.INDETERMINATE else f"{said} (Repeated call: nothing new was done.)",
    )


def of_hold(asked: Asked, effect: Effect, first: Effect | None, hold_ms: int) -> Answer:
    """Blocked: a repeat of `first`, whose outcome is shown in full (4.9), or something that policy holds (7.3)."""
    return asked.answer(
        effect_id=effect.hex,
        decision="blocked",
        status=effect.status.value,
        first=first_body(first) if first is not None else None,
        approval=approval_body(effect, hold_ms),
        message=held_message(effect, first),
    )


def held_message(effect: Effect, first: Effect | None) -> str:
    """What the model is told of a held call."""
    if first is not None:
        return HELD_MESSAGE + message_of(first.outcome.result if first.outcome else None, fault_of(first))
    said = effect.approval.message if effect.approval is not None else None
    return NEEDS_APPROVAL if said is None else f"{NEEDS_APPROVAL} {said}"


def approval_body(effect: Effect, hold_ms: int) -> dict[str, Any] | None:
    """`{"id", "expires_at", "message", "approvers"}`; None for what was held before approvals had names."""
    if effect.approval is None:
        return None
    return {
        "id": approval_name(effect),
        "expires_at": iso(effect.expires_at(hold_ms)),
        "message": effect.approval.message,
        "approvers": list(effect.approval.approvers),
    }


def of_denial(asked: Asked, fault: Fault, first: Effect | None) -> Answer:
    """Denied, nothing stored: a refusal by policy or step, or a prior unknown outcome (4.7)."""
    return asked.answer(
        effect_id=None,
        decision="denied",
        status=Status.DENIED.value,
        error=fault_body(fault),
        first=first_body(first) if first is not None else None,
        recorded=False,
        message=message_of(None, fault),
    )


def of_read(asked: Asked, outcome: Outcome) -> Answer:
    """A read-only call: answered, not recorded (3.6)."""
    fault = DROPPED_FAULT if outcome.dropped else outcome.fault
    return asked.answer(
        effect_id=None,
        decision="proceed",
        status=outcome.status.value,
        result=raw(outcome.result) if fault is None else None,
        error=fault_body(fault) if fault is not None else None,
        recorded=False,
        message=message_of(outcome.result, fault),
    )
