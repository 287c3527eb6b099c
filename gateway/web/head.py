"""What a request says before its body: read once, kept as bytes, trusted for nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Final

AUTHORIZATION: Final = b"authorization"
CONTENT_TYPE: Final = b"content-type"
CONTENT_LENGTH: Final = b"content-length"
CONTENT_ENCODING: Final = b"content-encoding"
EXPECT: Final = b"expect"
REQUEST_ID: Final = b"request-id"
TRACEPARENT: Final = b"traceparent"
LAST_EVENT_ID: Final = b"last-event-id"

# Forwarding headers are not among them: limits and logs are keyed on what was authenticated (9.5).
_WANTED: Final = frozenset(
    {AUTHORIZATION, CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, EXPECT, REQUEST_ID, TRACEPARENT, LAST_EVENT_ID}
)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
_SANE_ID = re.compile(rb"[!-~]{1,128}")
# W3C Trace Context: version, trace id, parent id, flags; later versions may append fields to version 00's.
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACEPARENT_LATER = re.compile(_TRACEPARENT.pattern + rb"-[!-~]{1,200}")

TWICE: Final = b"\x00twice"
"""Stands for a header that came more than once; no sane value equals it."""


class Head:
    """Method, ids and the few headers that matter. `answered`: a response has begun."""

    __slots__ = ("answered", "fields", "method", "request_id", "route", "traceparent")

    def __init__(self, method: str, fields: dict[bytes, bytes], request_id: str, traceparent: str | None) -> None:
        self.method = method
        self.fields = fields
        self.request_id = request_id
        self.traceparent = traceparent
        self.route = "unmatched"
        self.answered = False


def read_head(scope: MutableMapping[str, Any], new_id: Callable[[], str]) -> Head:
    """Read an ASGI http scope, as `head_of` reads its parts."""
    return head_of(scope["method"], scope["headers"], new_id)


def head_of(method: str, headers: Iterable[tuple[bytes, bytes]], new_id: Callable[[], str]) -> Head:
    """Names of headers are lowercase; white space around a value is not of it (RFC 9110, 5.5).

    A `Request-Id` that is one to 128 visible ASCII characters is kept, any other replaced by `new_id()`; a malformed
    `traceparent` is dropped, as W3C Trace Context wants."""
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _WANTED:
            fields[name] = TWICE if name in fields else value.strip(b" \t")
    sent = fields.get(REQUEST_ID)
    request_id = sent.decode("ascii") if sent is not None and _SANE_ID.fullmatch(sent) else new_id()
    return Head(method if method in _METHODS else "OTHER", fields, request_id, _traceparent(fields.get(TRACEPARENT)))


def _traceparent(sent: bytes | None) -> str | None:
    if sent is None:
        return None
    form = _TRACEPARENT if sent[:2] == b"00" else _TRACEPARENT_LATER
    return sent.decode("ascii") if form.fullmatch(sent) or _TRACEPARENT.fullmatch(sent) else None
