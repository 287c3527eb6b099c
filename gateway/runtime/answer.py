"""The gateway's 200: something to show the model (semantics 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

UNKNOWN_CODES = frozenset({"outcome_unknown", "prior_outcome_unknown"})


@dataclass(frozen=True, slots=True)
class AnswerError:
    """Why there is no result, or no whole one: `merchant_refused`, `outcome_unknown`, `policy_denied`, ...
    `details` is what the gateway added, such as the merchant's status and body."""

    code: str
    message: str
    details: Any = None


@dataclass(frozen=True, slots=True)
class Replay:
    """The outcome is an earlier one (4.10). `matched` is `tool_call_id`, `effect` or `repeat`; `first_at`
    an RFC 3339 time, `age_s` seconds."""

    matched: str
    first_at: str | None = None
    age_s: Any = None


@dataclass(frozen=True, slots=True)
class Approval:
    """What a blocked call waits for (7.4)."""

    id: str
    expires_at: str | None = None
    message: str | None = None
    approvers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class First:
    """On a held repeat: the identical effect that came first, with its outcome in full (4.9)."""

    effect_id: str
    status: str
    result: Any = None
    error: AnswerError | None = None
    first_at: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered call.

    `message` is the plain text for the model's tool message. `result` is decoded with integers exact and
    other numbers as Decimal, so money keeps its digits; `raw` is the JSON text of the whole answer (for
    an entry of a batch, written again digit for digit). `effect_id` is None and `recorded` False for
    read-only calls (3.6); `recorded` False on a side-effecting call means that the result is real but the
    ledger was lost (4.11)."""

    decision: str
    status: str | None
    message: str
    effect_id: str | None = None
    company: str | None = None
    conversation: str | None = None
    tool_call_id: str | None = None
    tool: str | None = None
    side_effecting: bool | None = None
    result: Any = field(default=None, repr=False)
    error: AnswerError | None = None
    replay: Replay | None = None
    approval: Approval | None = None
    first: First | None = None
    recorded: bool = False
    raw: str = field(default="", repr=False, compare=False)

    @property
    def succeeded(self) -> bool:
        """The effect happened. Its result may still be missing: `error.code == "result_dropped"` (4.12)."""
        return self.status == "succeeded"

    @property
    def blocked(self) -> bool:
        """Waits for an approval, or is held as a repeat; `approval` and `first` say more."""
        return self.decision == "blocked"

    @property
    def outcome_unknown(self) -> bool:
        """Nobody can say yet whether it, or an identical call before it, happened. Tell the customer; do
        not call again."""
        return self.status == "indeterminate" or (self.error is not None and self.error.code in UNKNOWN_CODES)


def read_answer(document: object, raw: str) -> Answer:
    """The `Answer` in a decoded body. Unknown fields are let be, so that an older client reads a newer
    gateway.

    Raises ValueError where the body is not an answer: no `decision`, no `message`, a part of the wrong shape.
    """
    body = _object(document, "answer")
    return Answer(
        decision=_text(body, "decision"),
        status=_optional_text(body, "status"),
        message=_text(body, "message"),
        effect_id=_optional_text(body, "effect_id"),
        company=_optional_text(body, "company"),
        conversation=_optional_text(body, "conversation"),
        tool_call_id=_optional_text(body, "tool_call_id"),
        tool=_optional_text(body, "tool"),
        side_effecting=_optional_bool(body, "side_effecting"),
        result=body.get("result"),
        error=_error(body.get("error")),
        replay=_replay(body.get("replay")),
        approval=_approval(body.get("approval")),
        first=_first(body.get("first")),
        recorded=body.get("recorded") is True,
        raw=raw,
    )


def _error(part: object) -> AnswerError | None:
    if part is None:
        return None
    body = _object(part, "error")
    return AnswerError(_text(body, "code"), _optional_text(body, "message") or "", body.get("details"))


def _replay(part: object) -> Replay | None:
    if part is None:
        return None
    body = _object(part, "replay")
    return Replay(_text(body, "matched"), _optional_text(body, "first_at"), body.get("age_s"))


def _approval(part: object) -> Approval | None:
    if part is None:
        return None
    body = _object(part, "approval")
    approvers = body.get("approvers")
    named = tuple(str(name) for name in approvers) if isinstance(approvers, list) else ()
    return Approval(_text(body, "id"), _optional_text(body, "expires_at"), _optional_text(body, "message"), named)


def _first(part: object) -> First | None:
    if part is None:
        return None
    body = _object(part, "first")
    return First(
        effect_id=_text(body, "effect_id"),
        status=_text(body, "status"),
        result=body.get("result"),
        error=_error(body.get("error")),
        first_at=_optional_text(body, "first_at"),
    )


def _object(part: object, name: str) -> Mapping[str, Any]:
    if not isinstance(part, dict):
        raise ValueError(f"{name} is not an object")
    return part


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not text")
    return value


def _optional_text(body: Mapping[str, Any], name: str) -> str | None:
    return None if body.get(name) is None else _text(body, name)


def _optional_bool(body: Mapping[str, Any], name: str) -> bool | None:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} is not true or false")
    return value
