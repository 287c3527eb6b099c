"""Effects that this runtime runs itself, as they are written on the wire and as the gateway answers (7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.runtime.answer import AnswerError, Approval, First, Replay, parts_of


@dataclass(frozen=True, slots=True)
class Effect:
    """What is asked for with `POST /v1/effects`.

    `kind` is `llm_call`, `local` or `tool_call`; `target` the model, the value's name or the tool; `args` what makes
    it this effect and no other. `claim_token` is made by the caller and known to nobody else: the same token is the
    same submission. `idempotency` is `safe_to_retry` or `at_most_once`; None leaves it to the gateway."""

    company: str
    conversation: str
    turn: str
    attempt: int
    kind: str
    target: str
    args: Mapping[str, Any] | str = field(repr=False)
    claim_token: str = field(repr=False)
    idempotency: str | None = None
    tool_call_id: str | None = None
    step: int | None = None
    call_id_scope: str | None = None

    def document(self) -> dict[str, Any]:
        """The JSON object to send; optional fields that are None are left out."""
        stated = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in stated.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Submitted:
    """What the gateway says to a submission.

    `decision` is `proceed` (run it, and report within `lease_s` seconds), `replay` (`result` or `error`, or an
    outcome that nobody knows), `blocked` (`approval`, `first`), `denied` or `rate_limited` (`retry_after_s`); of the
    last three `reason` says why. `effect_id` is None where nothing is recorded."""

    decision: str
    status: str | None = None
    effect_id: str | None = None
    result: Any = field(default=None, repr=False)
    error: AnswerError | None = None
    replay: Replay | None = None
    approval: Approval | None = None
    first: First | None = None
    reason: str | None = None
    lease_s: float | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """How an effect stands after a report on it. `lease_s` comes with `renew`, `result` or `error` with an outcome."""

    effect_id: str
    status: str
    result: Any = field(default=None, repr=False)
    error: AnswerError | None = None
    lease_s: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an approval: `decision` is `granted` or `denied`, `by` the principal under whose name. After a
    grant `status` and `result` or `error` are what the stored call came to; of what a runtime runs itself `status`
    stays `awaiting_approval` until it is submitted again."""

    id: str
    decision: str
    by: str
    effect_id: str
    status: str | None = None
    result: Any = field(default=None, repr=False)
    error: AnswerError | None = None


def read_submitted(document: object) -> Submitted:
    """Raises ValueError where the body is not an answer to a submission."""
    part = parts_of(document, "answer")
    return Submitted(
        decision=part.text("decision"),
        status=part.optional_text("status"),
        effect_id=part.optional_text("effect_id"),
        result=part.body.get("result"),
        error=part.error(),
        replay=part.replay(),
        approval=part.approval(),
        first=part.first(),
        reason=part.optional_text("reason"),
        lease_s=part.seconds("lease_s"),
        retry_after_s=part.seconds("retry_after_s"),
    )


def read_standing(document: object) -> Standing:
    """Raises ValueError where the body does not say how an effect stands."""
    part = parts_of(document, "answer")
    return Standing(
        part.text("effect_id"), part.text("status"), part.body.get("result"), part.error(), part.seconds("lease_s")
    )


def read_verdict(document: object) -> Verdict:
    """Raises ValueError where the body does not say what became of an approval."""
    part = parts_of(document, "answer")
    return Verdict(
        id=part.text("id"),
        decision=part.text("decision"),
        by=part.text("by"),
        effect_id=part.text("effect_id"),
        status=part.optional_text("status"),
        result=part.body.get("result"),
        error=part.error(),
    )
