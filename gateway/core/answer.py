"""What the runtime is told (section 8): an `Answer` for every call that ends in something to show the model."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from gateway.core.record import Effect, Fault, Status

UNKNOWN_FAULT: Final = Fault(
    "outcome_unknown",
    "It is not known whether this was done. It will not be tried again by itself. "
    "Tell the customer that it is being checked; do not do it again.",
)
DROPPED_FAULT: Final = Fault("result_dropped", "It was done, but its result was too large to keep.")
HELD_MESSAGE: Final = (
    "Not done: the same call already succeeded. Its result is below. Doing it once more needs approval; "
    "ask the customer only if they clearly want it twice. First result: "
)


NEEDS_APPROVAL: Final = (
    "Not done yet: this needs approval first. Tell the customer that it is waiting for approval, and do not try it "
    "in another way. Once it is approved it is done without being asked for again."
)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The 200 of `POST /v1/calls`. `result`, and what `error` and `first` hold of one, is raw JSON text."""

    effect_id: str | None
    company: str
    conversation: str
    tool_call_id: str | None
    tool: str
    decision: str
    status: str | None
    side_effecting: bool
    result: msgspec.Raw | None = None
    error: dict[str, Any] | None = None
    replay: dict[str, Any] | None = None
    first: dict[str, Any] | None = None
    approval: dict[str, Any] | None = None
    recorded: bool = True
    message: str = ""


_encode: Final = msgspec.json.Encoder().encode


def answer_bytes(answer: Answer) -> bytes:
    """The answer as JSON; a stored result goes in as it was received, digit for digit (2.10)."""
    return _encode(answer)


def raw(text: bytes | None) -> msgspec.Raw | None:
    """Stored JSON text as it goes into an answer; None where there is none."""
    return None if text is None else msgspec.Raw(text)


def fault_body(fault: Fault) -> dict[str, Any]:
    """`{"code", "message", "details"?}`."""
    body: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.details is not None:
        body["details"] = msgspec.Raw(fault.details)
    return body


def first_body(first: Effect) -> dict[str, Any]:
    """What a held or denied repeat shows of the effect it repeats (4.9)."""
    body: dict[str, Any] = {"effect_id": first.hex, "status": first.status.value, "first_at": iso(first.first_at)}
    fault = fault_of(first)
    if first.outcome is not None and first.outcome.result is not None:
        body["result"] = msgspec.Raw(first.outcome.result)
    elif fault is not None:
        body["error"] = fault_body(fault)
    return body


def fault_of(effect: Effect) -> Fault | None:
    """The fault that an effect's answer carries, if any."""
    if effect.status is Status.INDETERMINATE:
        return UNKNOWN_FAULT
    if effect.outcome is None:
        return None
    return DROPPED_FAULT if effect.outcome.dropped else effect.outcome.fault


def message_of(result: bytes | None, fault: Fault | None) -> str:
    """Plain text for the tool message: a text result bare, other results as JSON, faults in words."""
    if fault is not None:
        if fault.details is None:
            return fault.message
        return f"{fault.message} {fault.details.decode()}"
    if result is None or result == b"null":
        return "Done."
    if result.startswith(b'"'):
        text = json.loads(result)
        return text if isinstance(text, str) else result.decode()
    return result.decode()


@lru_cache(maxsize=1_024)
def iso(ms: int | None) -> str | None:
    """RFC 3339 in UTC with milliseconds."""
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
