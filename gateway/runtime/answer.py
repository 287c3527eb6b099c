"""The gateway's 200: something to show the model (semantics 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
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
    """What a blocked call waits for (7.4). `approvers` are those who may decide: roles (`operator`, `merchant`), names
    of principals, `customer`."""

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
    part = parts_of(document, "answer")
    return Answer(
        decision=part.text("decision"),
        status=part.optional_text("status"),
        message=part.text("message"),
        effect_id=part.optional_text("effect_id"),
        company=part.optional_text("company"),
        conversation=part.optional_text("conversation"),
        tool_call_id=part.optional_text("tool_call_id"),
        tool=part.optional_text("tool"),
        side_effecting=part.optional_bool("side_effecting"),
        result=part.body.get("result"),
        error=part.error(),
        replay=part.replay(),
        approval=part.approval(),
        first=part.first(),
        recorded=part.body.get("recorded") is True,
        raw=raw,
    )


def parts_of(document: object, name: str) -> Parts:
    """Raises ValueError where `document`, which a message calls `name`, is not an object."""
    if not isinstance(document, dict):
        raise ValueError(f"{name} is not an object")
    return Parts(document)


@dataclass(frozen=True, slots=True)
class Parts:
    """Reads the parts that the gateway's answers share. Every method raises ValueError for a wrong shape."""

    body: Mapping[str, Any]

    def text(self, name: str) -> str:
        value = self.body.get(name)
        if not isinstance(value, str):
            raise ValueError(f"{name} is not text")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.body.get(name) is None else self.text(name)

    def optional_bool(self, name: str) -> bool | None:
        value = self.body.get(name)
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"{name} is not true or false")
        return value

    def seconds(self, name: str) -> float | None:
        value = self.body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float | Decimal)):
            raise ValueError(f"{name} is not a number")
        return None if value is None else float(value)

    def error(self) -> AnswerError | None:
        if (part := self._part("error")) is None:
            return None
        return AnswerError(part.text("code"), part.optional_text("message") or "", part.body.get("details"))

    def replay(self) -> Replay | None:
        if (part := self._part("replay")) is None:
            return None
        return Replay(part.text("matched"), part.optional_text("first_at"), part.body.get("age_s"))

    def approval(self) -> Approval | None:
        if (part := self._part("approval")) is None:
            return None
        approvers = part.body.get("approvers")
        named = tuple(str(name) for name in approvers) if isinstance(approvers, list) else ()
        return Approval(part.text("id"), part.optional_text("expires_at"), part.optional_text("message"), named)

    def first(self) -> First | None:
        if (part := self._part("first")) is None:
            return None
        return First(
            effect_id=part.text("effect_id"),
            status=part.text("status"),
            result=part.body.get("result"),
            error=part.error(),
            first_at=part.optional_text("first_at"),
        )

    def _part(self, name: str) -> Parts | None:
        part = self.body.get(name)
        return None if part is None else parts_of(part, name)
