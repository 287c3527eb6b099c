"""The bytes of one POST (RFC 9112), and the fields that it may not hold."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Final

DEFAULT_FIELDS: Final[Mapping[str, str]] = {
    "Accept": "application/json, text/plain;q=0.5",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "oncegate",
}
"""Sent unless the request brings its own."""

OWN_FIELDS: Final = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection"),
        *("upgrade", "expect", "te", "trailer"),
    }
)
"""What says where a request goes and where it ends is the client's alone to write."""

ONE_PIECE_BYTES: Final = 65_536
"""Up to this a body is copied behind its head, so that both leave in one packet; larger ones are not copied."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class RequestRefused(ValueError):
    """A header field that would make another request of this one. Its text names nothing of the field."""


def request_bytes(start: str, fields: Sequence[tuple[str, str]], body: bytes) -> tuple[bytes, bytes]:
    """The request behind `Target.start`, in two pieces of which the second is empty unless the body is large.

    Raises RequestRefused for a name that is no token or is one of OWN_FIELDS, and for a value with a control
    character (CR, LF and NUL among them) or half a surrogate pair; a tab is allowed. Values leave as UTF-8.
    """
    names, values = zip(*fields, strict=True) if fields else ((), ())
    if not "".join(values).isprintable() and any(_CONTROL.search(value) for value in values):
        raise RequestRefused("control character in a header value")
    text = f"{start}{len(body)}\r\n{_field_lines(names) % values}\r\n"
    try:
        head = text.encode()
    except UnicodeEncodeError:
        raise RequestRefused("a header value is not text") from None
    return (head + body, b"") if len(body) <= ONE_PIECE_BYTES else (head, body)


@functools.lru_cache(maxsize=64)
def _field_lines(names: tuple[str, ...]) -> str:
    """The field lines with a place for each value. Callers send few sets of names, always in the same order."""
    for name in names:
        if not _NAME.fullmatch(name) or name.lower() in OWN_FIELDS:
            raise RequestRefused("header name")
    given = {name.lower() for name in names}
    lines = [f"{name}: {value}\r\n" for name, value in DEFAULT_FIELDS.items() if name.lower() not in given]
    return "".join(lines).replace("%", "%%") + "".join(f"{name.replace('%', '%%')}: %s\r\n" for name in names)
