"""What a merchant and the network in front of it may do with one request, and what section 5 says that it means.

This table is written from the words of the semantics, not from gateway/core/outcome.py: it is what that is held to.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Meaning(StrEnum):
    """What somebody who sees only the answer may conclude."""

    DONE = "done"
    REFUSED = "refused"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


class Work(StrEnum):
    """What the merchant really did with the request."""

    DONE = "done"
    NOT = "not done"
    LATE = "done long after everybody gave up"


class Way(StrEnum):
    """What of the exchange reaches the gateway."""

    REPLY = "a reply"
    TRUNCATED = "half a reply"
    RESET = "a reset"
    SILENCE = "nothing"
    NO_CONNECTION = "no connection"


class Reply(NamedTuple):
    """One behaviour. `body`: "order" (the order, as JSON), or bytes as they are."""

    name: str
    meaning: Meaning
    work: Work
    way: Way = Way.REPLY
    status: int = 200
    content_type: str = "application/json"
    body: bytes | None = None
    encoding: str = ""
    charset: str | None = None
    too_large: bool = False
    slow: bool = False


M, W = Meaning, Work
OK: Final = Reply("order", M.DONE, W.DONE)
SLOW: Final = Reply("slow order", M.DONE, W.DONE, slow=True)
REFUSALS: Final = (400, 402, *range(404, 408), *range(410, 425), 426, 428, 431, 451)
NOT_READY: Final = (401, 403, 425, 429)
UNKNOWN_STATUSES: Final = (408, 409, 500, 502, 503, 504, 599, 300, 301, 302, 303, 307, 308, 427, 430, 499, 600, 199)
UNAVAILABLE: Final = (503, 409)
"""What a merchant that declares `unavailable_means_not_executed` never answers once it has done it (5.1)."""
NO_CONNECTIONS: Final = ("name_not_resolved", "connect_failed", "tls_failed", "certificate_invalid", "too_late")

_UNREADABLE: Final = {
    "html page": {"content_type": "text/html", "body": b"<html><body>Please log in</body></html>"},
    "unannounced html": {"content_type": "text/plain", "body": b"<!doctype html><p>Busy"},
    "xml": {"content_type": "text/xml", "body": b"<ok/>"},
    "pdf": {"content_type": "application/pdf", "body": b"%PDF-1.7"},
    "broken json": {"body": b'{"order": "O-'},
    "wrong charset": {"content_type": "application/json", "body": b'{"order": "\xff\xfe"}'},
    "compressed": {"body": b"\x1f\x8b\x08", "encoding": "gzip"},
    "deep json": {"body": b"[" * 80 + b"]" * 80},
}


def _both(name: str, **fields: object) -> list[Reply]:
    """An answer that tells nothing, from a merchant that did it and from one that did not."""
    return [
        Reply(f"{name} after the work", M.UNKNOWN, W.DONE, **fields),  # type: ignore[arg-type]
        Reply(f"{name} before the work", M.UNKNOWN, W.NOT, **fields),  # type: ignore[arg-type]
    ]


def _table() -> dict[str, Reply]:
    rows = [
        OK,
        SLOW,
        Reply("text", M.DONE, W.DONE, content_type="text/plain"),
        Reply("problem json type", M.DONE, W.DONE, content_type="application/vnd.shop+json"),
        Reply("created", M.DONE, W.DONE, status=201),
        Reply("empty", M.DONE, W.DONE, status=204, body=b""),
        Reply("too large", M.DONE, W.DONE, too_large=True),
        *(Reply(f"HTTP {s}", M.REFUSED, W.NOT, status=s, body=b'{"error": "no"}') for s in REFUSALS),
        *(Reply(f"HTTP {s}", M.NOT_DONE, W.NOT, status=s, body=b"") for s in NOT_READY),
        *(Reply(n, M.NOT_DONE, W.NOT, Way.NO_CONNECTION) for n in NO_CONNECTIONS),
        *(reply for s in UNKNOWN_STATUSES for reply in _both(f"HTTP {s}", status=s, body=b"")),
        *(reply for n, fields in _UNREADABLE.items() for reply in _both(n, **fields)),
        *_both("timeout", way=Way.SILENCE),
        *_both("reset", way=Way.RESET),
        *_both("truncated", way=Way.TRUNCATED),
        Reply("timeout, arriving late", M.UNKNOWN, W.LATE, Way.SILENCE),
        Reply("reset, arriving late", M.UNKNOWN, W.LATE, Way.RESET),
    ]
    return {row.name: row for row in rows}


REPLIES: Final = _table()
GONE: Final = Reply("HTTP 410, voided", M.REFUSED, W.NOT, status=410, body=b'{"error": "voided"}')

FAULTS: Final = {
    "merchant timeout before the work": ("timeout before the work",),
    "merchant timeout after the work": ("timeout after the work",),
    "merchant 5xx after the work": tuple(f"HTTP {s} after the work" for s in UNKNOWN_STATUSES if s >= 500),
    "merchant 5xx before the work": tuple(f"HTTP {s} before the work" for s in UNKNOWN_STATUSES if s >= 500),
    "truncated body": ("truncated after the work", "truncated before the work"),
    "connection reset before the work": ("reset before the work",),
    "connection reset after the work": ("reset after the work",),
    "not connected": NO_CONNECTIONS,
    "request arrives late": ("timeout, arriving late", "reset, arriving late"),
    "merchant refuses": tuple(f"HTTP {s}" for s in REFUSALS),
    "merchant not ready": tuple(f"HTTP {s}" for s in NOT_READY),
    "other status": tuple(
        f"HTTP {s} {when} the work" for s in UNKNOWN_STATUSES if s < 500 for when in ("before", "after")
    ),
    "unreadable reply": tuple(f"{n} {when} the work" for n in _UNREADABLE for when in ("before", "after")),
    "other success": ("text", "problem json type", "created", "empty", "too large"),
    "slow merchant": ("slow order",),
}
"""Faults of the merchant's side by kind: which behaviours each may draw."""
