"""What a turn of the tool loop came to, and its calls as they are recorded and read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.runtime.answer import Answer, Approval, read_answer
from gateway.runtime.errors import BadCall, NoAnswer, OncegateError, Problem
from gateway.runtime.exact_json import decode, encode
from gateway.runtime.replies import Asked

CUSTOMER = "customer"


@dataclass(frozen=True, slots=True)
class TurnCall:
    """One call the model asked for and what became of it. `message` is what the model was shown. Exactly
    one of `answer` and `error` is set if the gateway was asked; neither, if the call was handed back
    unsent (`fault`)."""

    step: int
    tool_call_id: str | None
    tool: str
    arguments: Mapping[str, Any] | str = field(repr=False)
    message: str = field(repr=False)
    answer: Answer | None = None
    error: OncegateError | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class TurnResult:
    """`messages` is the whole conversation, the instruction left out, ready for the next turn. `text` is
    for the customer. `steps` counts the replies that asked for tools or could not be read; at most
    `max_steps`."""

    messages: list[dict[str, Any]]
    text: str
    steps: int
    calls: tuple[TurnCall, ...]

    @property
    def superseded(self) -> bool:
        """A later attempt of this turn has taken over (2.6): its text is the customer's, not this one's."""
        return any(isinstance(call.error, Problem) and call.error.code == "attempt_superseded" for call in self.calls)

    @property
    def awaiting_customer(self) -> tuple[Approval, ...]:
        """Approvals that the customer may give (7.4): show `message`, and if the customer's next message clearly
        says yes, `grant(approval.id, customer_message=…)`. Each once, in the order of the calls."""
        open_ones = {
            call.answer.approval.id: call.answer.approval
            for call in self.calls
            if call.answer is not None and call.answer.blocked and call.answer.approval is not None
        }
        return tuple(each for each in open_ones.values() if CUSTOMER in each.approvers)


def call_document(call: TurnCall) -> dict[str, Any]:
    """`call` as JSON; `read_call` reads it. What the model asked is not in it."""
    return {
        "message": call.message,
        "fault": call.fault,
        "answer": None if call.answer is None else decode(call.answer.raw),
        "error": None if call.error is None else _error_document(call.error),
    }


def read_call(step: int, asked: Asked, document: Mapping[str, Any]) -> TurnCall:
    """Raises ValueError where the document is not one of `call_document`."""
    answer, error = document.get("answer"), document.get("error")
    return TurnCall(
        step=step,
        tool_call_id=asked.tool_call_id,
        tool=asked.tool,
        arguments=asked.arguments,
        message=str(document.get("message")),
        answer=None if answer is None else read_answer(answer, encode(answer)),
        error=None if error is None else _read_error(error),
        fault=document.get("fault"),
    )


def _error_document(error: OncegateError) -> dict[str, Any]:
    said: dict[str, Any] = {
        "kind": type(error).__name__,
        "message": error.message,
        "outcome": error.outcome,
        "retryable": error.retryable,
    }
    match error:
        case Problem():
            said |= {"code": error.code, "status": error.status, "retry_after": error.retry_after, "body": error.body}
        case NoAnswer():
            said |= {"reason": error.reason, "status": error.status}
    return said


def _read_error(said: Mapping[str, Any]) -> OncegateError:
    message, outcome, retryable = said["message"], said["outcome"], said["retryable"]
    match said["kind"]:
        case "Problem":
            after = said["retry_after"]
            return Problem(
                message,
                code=said["code"],
                status=said["status"],
                retryable=retryable,
                outcome=outcome,
                retry_after=None if after is None else float(after),
                body=said["body"],
            )
        case "NoAnswer":
            return NoAnswer(message, reason=said["reason"], outcome=outcome, retryable=retryable, status=said["status"])
        case "BadCall":
            return BadCall(message)
    return OncegateError(message, outcome=outcome, retryable=retryable)
