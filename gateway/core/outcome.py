"""What a merchant's answer means: the table of promise 5, as data.

`Seen` is what the adapter saw of one exchange, `Outcome` what it means for the effect. Rows are tried in
order. A status that refuses or postpones stands on its status line, whatever the body; a 2xx is a success
only if its body keeps the contract. Whatever no row names is unknown: nobody can say whether the merchant
did it.

A 2xx over the cap has succeeded with its result dropped (4.12) although its end was never read: the status
was whole, the kept part exceeds the cap, and no ending could bring the result back. One that broke off below
the cap is a broken exchange, so unknown.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from gateway.core.reply_body import Body, declared_body, excerpt_of, read_body
from gateway.core.retry_after import retry_after_s

RESULT_CAP: Final = 1_048_576
"""Bytes of raw JSON kept of a result (4.12)."""
DETAILS_CAP: Final = 65_536
"""Bytes of a refusal's body kept as the reason; above it an excerpt stands in."""


class SeenKind(enum.StrEnum):
    """How one exchange ended."""

    NOT_CONNECTED = "not_connected"  # name, address, connection or TLS: there was no one to send to
    TIMEOUT = "timeout"
    BROKEN = "broken"  # reset, closed, truncated, or not HTTP
    REPLY = "reply"


class Reason(enum.StrEnum):
    """Why, in a word fit for logs, events and error details."""

    NAME_NOT_RESOLVED = "name_not_resolved"
    ADDRESS_REFUSED = "address_refused"
    CONNECT_FAILED = "connect_failed"
    CERTIFICATE_INVALID = "certificate_invalid"
    TLS_FAILED = "tls_failed"
    REQUEST_REFUSED = "request_refused"
    TOO_LATE = "too_late"
    TIMED_OUT = "timed_out"
    CONNECTION_LOST = "connection_lost"
    REPLY_TRUNCATED = "reply_truncated"
    REPLY_NOT_HTTP = "reply_not_http"
    REPLIED = "replied"


class OutcomeKind(enum.StrEnum):
    """What the exchange means for the effect."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"


class Seen(msgspec.Struct, frozen=True):
    """One exchange as the adapter saw it.

    `sent`: whether any byte of the request may have left. `status` and what follows are set for a REPLY,
    `status` also where a broken reply got so far. `content_type` is the media type, lowercase, without
    parameters; `too_large` says that reading stopped above the cap, and `body` is then only
    its beginning.
    """

    kind: SeenKind
    reason: Reason
    sent: bool
    status: int | None = None
    content_type: str = ""
    charset: str | None = None
    content_encoding: str = ""
    body: bytes = b""
    too_large: bool = False
    retry_after: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Seen({self.kind}, {self.reason}, sent={self.sent}, status={self.status})"  # never what was said


@dataclass(frozen=True, slots=True)
class MerchantRefusal:
    """The error of a FAILED outcome. `details` is JSON: `{"status", "body"}`, the body as the merchant sent it
    where that was JSON, else a string; `body_cut` is true where it was too long to keep."""

    code: str
    message: str
    details: bytes = field(repr=False)


class Outcome(msgspec.Struct, frozen=True):
    """What is recorded and shown. `code` is set for NOT_SENT, `result` (raw JSON, UTF-8) for SUCCEEDED unless
    `dropped`, `error` for FAILED, `excerpt` (at most 2 KiB, for the event log) for FAILED and UNKNOWN."""

    kind: OutcomeKind
    message: str
    reason: str
    status: int | None = None
    result: bytes | None = None
    dropped: bool = False
    error: MerchantRefusal | None = None
    excerpt: str = ""
    code: str | None = None
    retry_after_s: float | None = None

    def __repr__(self) -> str:
        return f"Outcome({self.kind}, {self.reason}, status={self.status}, code={self.code})"  # never what was said


class Row(NamedTuple):
    """Statuses and what they mean; `bodies` narrows a row to replies whose body is one of these."""

    statuses: frozenset[int]
    kind: OutcomeKind
    code: str | None = None
    bodies: frozenset[Body] | None = None


_NOT_READY: Final = "merchant_not_ready"
_UNREACHABLE: Final = "merchant_unreachable"

TABLE: Final = (
    Row(
        frozenset(range(200, 300)),
        OutcomeKind.SUCCEEDED,
        bodies=frozenset({Body.EMPTY, Body.JSON, Body.TEXT}),
    ),
    Row(
        frozenset({400, 402, *range(404, 408), *range(410, 425), 426, 428, 431, 451}),
        OutcomeKind.FAILED,
        code="merchant_refused",
    ),
    Row(frozenset({401, 403, 425, 429}), OutcomeKind.NOT_SENT, code=_NOT_READY),
)
DECLARED_UNAVAILABLE: Final = Row(frozenset({503, 409}), OutcomeKind.NOT_SENT, code=_NOT_READY)
"""The row that `unavailable_means_not_executed` puts before the others (5.1)."""

NO_REPLY: Final[Mapping[bool, tuple[OutcomeKind, str | None]]] = {
    False: (OutcomeKind.NOT_SENT, _UNREACHABLE),
    True: (OutcomeKind.UNKNOWN, None),
}
"""An exchange without a whole reply, by whether a byte of the request may have left."""

MESSAGES: Final[Mapping[str, str]] = {
    Reason.NAME_NOT_RESOLVED: "The merchant's host name could not be resolved; nothing was sent.",
    Reason.ADDRESS_REFUSED: "The merchant's address is not one that the gateway may call; nothing was sent.",
    Reason.CONNECT_FAILED: "The merchant could not be reached; nothing was sent.",
    Reason.CERTIFICATE_INVALID: "The merchant's TLS certificate is not valid; nothing was sent.",
    Reason.TLS_FAILED: "The secure connection to the merchant failed; nothing was sent.",
    Reason.TOO_LATE: "The merchant had too many calls to take this one in time; nothing was sent.",
    Reason.REQUEST_REFUSED: "The request could not be written as HTTP; nothing was sent.",
}
"""Why nothing was sent. No address, host or port: an answer must not map the network for its reader (9.2)."""
_NOT_SENT_IN_TIME = "The merchant could not be reached in time; nothing was sent."
_REPLIED_NOT_READY = "The merchant is not taking this call now (HTTP {status}); it was not carried out."
_REFUSED = "The merchant refused the call (HTTP {status})."
_SUCCEEDED = "The merchant carried out the call."
_UNKNOWN_REPLY = "The merchant's answer (HTTP {status}) does not tell whether the call was carried out."
_UNKNOWN_NO_REPLY = "The merchant did not answer in full; whether the call was carried out is not known."


def outcome_of(
    seen: Seen,
    *,
    unavailable_means_not_executed: bool = False,
    result_cap: int = RESULT_CAP,
    now_s: float = 0.0,
) -> Outcome:
    """Judge one exchange. `now_s` is Unix time, used only to read a Retry-After date. Never raises."""
    if seen.kind is not SeenKind.REPLY or seen.status is None:
        return _without_reply(seen)
    status = seen.status
    retry = retry_after_s(seen.retry_after, now_s=now_s) if seen.retry_after else None
    row = _row(status, unavailable_means_not_executed)
    if row is not None and row.kind is OutcomeKind.NOT_SENT:
        message = _REPLIED_NOT_READY.format(status=status)
        return Outcome(row.kind, message, seen.reason, status, code=row.code, retry_after_s=retry)
    if row is not None and row.kind is OutcomeKind.FAILED:
        return _refused(seen, status, row.code or "", retry)
    body, result = _body(seen)
    if row is None or row.bodies is None or body not in row.bodies:
        reason = seen.reason if row is None else body
        excerpt = _excerpt(seen)
        message = _UNKNOWN_REPLY.format(status=status)
        return Outcome(OutcomeKind.UNKNOWN, message, reason, status, excerpt=excerpt, retry_after_s=retry)
    if result is None or len(result) > result_cap:
        return Outcome(OutcomeKind.SUCCEEDED, _SUCCEEDED, seen.reason, status, dropped=True)
    return Outcome(OutcomeKind.SUCCEEDED, _SUCCEEDED, seen.reason, status, result)


def _row(status: int, unavailable_means_not_executed: bool) -> Row | None:
    if unavailable_means_not_executed and status in DECLARED_UNAVAILABLE.statuses:
        return DECLARED_UNAVAILABLE
    return _BY_STATUS.get(status)


_BY_STATUS: Final = {status: row for row in reversed(TABLE) for status in row.statuses}


def _without_reply(seen: Seen) -> Outcome:
    kind, code = NO_REPLY[seen.sent]
    if kind is OutcomeKind.UNKNOWN:
        return Outcome(kind, _UNKNOWN_NO_REPLY, seen.reason, seen.status)
    message = (
        _NOT_SENT_IN_TIME
        if seen.kind is SeenKind.TIMEOUT
        else MESSAGES.get(seen.reason, MESSAGES[Reason.CONNECT_FAILED])
    )
    return Outcome(kind, message, seen.reason, code=code)


def _body(seen: Seen) -> tuple[Body, bytes | None]:
    if seen.too_large:
        return declared_body(seen.content_type, seen.content_encoding), None
    return read_body(seen.body, seen.content_type, seen.charset, seen.content_encoding)


def _refused(seen: Seen, status: int, code: str, retry: float | None) -> Outcome:
    message = _REFUSED.format(status=status)
    excerpt = _excerpt(seen)
    shown: bytes | None = None
    cut = seen.too_large or len(seen.body) > DETAILS_CAP
    if not cut:
        shown = _body(seen)[1]
    if shown is None:
        shown = msgspec.json.encode(excerpt) if excerpt else b"null"
    flag = b',"body_cut":true' if cut else b""
    details = b'{"status":%d,"body":%b%b}' % (status, shown, flag)
    error = MerchantRefusal(code, message, details)
    return Outcome(OutcomeKind.FAILED, message, seen.reason, status, error=error, excerpt=excerpt, retry_after_s=retry)


def _excerpt(seen: Seen) -> str:
    if declared_body("application/json", seen.content_encoding) is Body.ENCODED:
        return ""  # compressed bytes are noise
    return excerpt_of(seen.body, seen.content_type, seen.charset)
