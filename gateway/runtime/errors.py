"""What can go wrong between an assistant runtime and the gateway.

    OncegateError (message, outcome, retryable)
    ├─ Problem    the gateway answered that this request recorded nothing (semantics 8)
    ├─ NoAnswer   no answer that can be read: not connected, lost, timed out, or not the gateway's words
    ├─ BadCall    the request has no JSON form; nothing left this process (also a ValueError)
    └─ EffectStopped  an effect that this runtime would have run has no value to go on with (7.2)
       ├─ EffectDenied      policy, the step limit or an approver said no
       ├─ EffectBlocked     it waits for an approval
       ├─ EffectLimited     a rate limit is used up
       ├─ EffectUnknown     it was begun once, and nobody knows what came of it
       ├─ EffectOverruled   it was run here, and another outcome was recorded meanwhile
       └─ NotDone           it was tried, and is certainly not done

`outcome` says what is known about the call: `not_sent`, `in_flight` or `unknown`. `retryable` says
whether the same request, its ids unchanged, may be sent again later. Denied, blocked and unknown
outcomes that the gateway recorded are answers (`Answer`), not errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class OncegateError(Exception):
    """The root of this tree; `str()` never holds the key, an argument value or a result."""

    def __init__(self, message: str, *, outcome: str | None, retryable: bool) -> None:
        super().__init__(message)
        self.message = message
        self.outcome = outcome
        self.retryable = retryable


class Problem(OncegateError):
    """An RFC 9457 problem from the gateway: there is no tool result.

    `code` is one of semantics 8, `status` the HTTP status, `retry_after` whole or broken seconds or
    None, `body` the whole problem as decoded, `fields` what is wrong with which part of the request, each
    a line `pointer: problem` (`/arguments/quantity: is required`). `outcome` is what the gateway said,
    with one exception: after an earlier try of this request was lost on the way, a 503 says nothing about
    that try, and `outcome` is `unknown`.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        retryable: bool,
        outcome: str | None,
        retry_after: float | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, outcome=outcome, retryable=retryable)
        self.code = code
        self.status = status
        self.retry_after = retry_after
        self.body: Mapping[str, Any] = body or {}
        self.fields: tuple[str, ...] = _lines(self.body.get("fields"))

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.message}"


def _lines(fields: object) -> tuple[str, ...]:
    """What has another shape is left out: a problem that cannot be read in full is still a problem."""
    rows = fields if isinstance(fields, list) else []
    pairs = ((row.get("field"), row.get("problem")) for row in rows if isinstance(row, dict))
    return tuple(f"{field}: {said}" for field, said in pairs if isinstance(field, str) and isinstance(said, str))


class NoAnswer(OncegateError):
    """Nothing readable came back. `reason` is `not_connected`, `lost`, `timed_out` or `unreadable`;
    `status` the HTTP status, if one was seen.

    `outcome` is `not_sent` only when no connection was ever made; otherwise `unknown`: the gateway may
    have run the call, and it runs to its end although nobody listens (5.3).
    """

    def __init__(self, message: str, *, reason: str, outcome: str, retryable: bool, status: int | None = None) -> None:
        super().__init__(message, outcome=outcome, retryable=retryable)
        self.reason = reason
        self.status = status


class BadCall(OncegateError, ValueError):
    """The request cannot be written as JSON or as an address: NaN, an object of a foreign type, a key that is
    no text, endless nesting. Nothing was sent; sending it again will not help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, outcome="not_sent", retryable=False)


class EffectStopped(OncegateError):
    """`effect_id` names the effect, None where nothing is recorded; `code` says why in one word. `message` is the
    gateway's, in words fit for a model."""

    known_as: ClassVar[str | None] = "not_sent"
    again: ClassVar[bool] = False

    def __init__(self, message: str, *, code: str, effect_id: str | None = None) -> None:
        super().__init__(message, outcome=self.known_as, retryable=self.again)
        self.code = code
        self.effect_id = effect_id

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class EffectDenied(EffectStopped):
    """It was not run: a rule, the step limit or an approver refused it, or its approval expired."""


class EffectBlocked(EffectStopped):
    """It was not run and waits for `approval`, or is held as a repeat of `first`. Once that is granted, the same
    effect of the same turn runs: run the turn again."""

    again = True

    def __init__(
        self, message: str, *, code: str, effect_id: str | None, approval: object = None, first: object = None
    ) -> None:
        super().__init__(message, code=code, effect_id=effect_id)
        self.approval: Any = approval
        self.first: Any = first


class EffectLimited(EffectStopped):
    """It was not run, and nothing is recorded; `retry_after` in seconds, or None."""

    again = True

    def __init__(self, message: str, *, retry_after: float | None) -> None:
        super().__init__(message, code="rate_limited")
        self.retry_after = retry_after


class EffectUnknown(EffectStopped):
    """An earlier run of it ended in the dark, and it is `at_most_once`: it is not run again until somebody resolves
    it (5.5). Also a success whose result was too large to keep: `code` is then `result_dropped`."""

    known_as = "unknown"


class EffectOverruled(EffectStopped):
    """Another runner of the same effect was first, and what it gave is what stands. What was streamed from here is
    not it. Run the turn again: it goes on with what stands."""

    known_as = None
    again = True


class NotDone(EffectStopped):
    """Raised by what runs an effect, to say that it was tried and is certainly not done: that is recorded, and raised
    wherever the effect comes again. `code` is of letters, digits and `_`; `message` of at most 2,000 characters."""

    def __init__(self, code: str, message: str, *, effect_id: str | None = None) -> None:
        super().__init__(message, code=code, effect_id=effect_id)
