"""What can go wrong between an assistant runtime and the gateway.

    OncegateError (message, outcome, retryable)
    ├─ Problem    the gateway answered that this request recorded nothing (semantics 8)
    ├─ NoAnswer   no answer that can be read: not connected, lost, timed out, or not the gateway's words
    └─ BadCall    the request has no JSON form; nothing left this process (also a ValueError)

`outcome` says what is known about the call: `not_sent`, `in_flight` or `unknown`. `retryable` says
whether the same request, its ids unchanged, may be sent again later. Denied, blocked and unknown
outcomes that the gateway recorded are answers (`Answer`), not errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
