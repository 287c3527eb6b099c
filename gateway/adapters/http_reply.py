"""One reply, from bytes to what was seen of it (RFC 9112, read by llhttp in its strict mode; promises 5 and 9.4).

The parser tells pieces, and this keeps of them what a judgement needs. Everything is bounded: fields, the head as a
whole, trailers and chunk framing, the body. Where a reply ends is decided here alone, and in doubt it has not ended:
a reply cut short counts as an answer nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import httptools

from gateway.core.outcome import RESULT_CAP, Reason, Seen, SeenKind
from gateway.core.reply_body import content_type_of


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds of the client. Reading a reply stops above `reply_bytes`. `head_bytes` bounds the head with all interim
    replies before it, and what may come between two pieces of a body. `idle_s` must stay below the shortest
    idle time of common servers (5 s): a connection the merchant is just closing makes an outcome unknown."""

    reply_bytes: int = RESULT_CAP
    line_bytes: int = 8_190
    field_bytes: int = 8_190
    fields: int = 100
    connections: int = 1_000
    per_merchant: int = 64
    idle_s: float = 4.0
    head_bytes: int = 65_536


EXCERPT_BYTES: Final = 16_384
"""Kept of a reply that is too large, for the event log's excerpt."""

_KEPT: Final = frozenset({b"content-type", b"content-encoding", b"transfer-encoding", b"retry-after"})
_STATUS_SWITCHING: Final = 101
_FIRST_STATUS: Final = 100
_FIRST_FINAL_STATUS: Final = 200


class _Refused(Exception):
    """Thrown through the parser to stop it; it turns this into an error of its own."""


class ReplyReader:
    """Reads the replies of one connection, one at a time.

    After `begin`, feed it until `seen` is set; `status` is set once the head of the final reply was read. Then
    `reusable` says whether the connection may serve again. A reader that saw a broken reply reads no other.
    """

    __slots__ = (
        "_chunks",
        "_fields",
        "_head_bytes",
        "_kept",
        "_limits",
        "_line_bytes",
        "_parser",
        "_quiet_bytes",
        "_size",
        "_sized",
        "reusable",
        "seen",
        "status",
    )

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._parser: Any = httptools.HttpResponseParser(self)
        # A lone LF at the end of a line, and blanks behind a chunk's size, are common and can mean nothing else.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        self.begin()

    def begin(self) -> None:
        """Expect a reply."""
        self.seen: Seen | None = None
        self.status: int | None = None
        self.reusable = False
        self._chunks: list[bytes] = []
        self._size = 0
        self._quiet_bytes = 0
        self._begin_head()

    def _begin_head(self) -> None:
        self._kept: list[tuple[bytes, bytes]] = []
        self._sized = False
        self._fields = 0
        self._head_bytes = 0
        self._line_bytes = 0

    def feed(self, data: bytes) -> None:
        """Read on. Never raises."""
        size = self._size
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            # Behind a whole reply it is only the end of the connection.
            self.reusable = False
            if self.seen is None and self._size <= self._limits.reply_bytes:
                self.fail(Reason.REPLY_NOT_HTTP)
                return
        if self.seen is not None:
            return
        if self._size > self._limits.reply_bytes:
            self._reply(too_large=True)
        elif self._size == size:
            # The parser holds back a field until its end, in heads and trailers alike.
            self._quiet_bytes += len(data)
            if self._quiet_bytes > self._limits.head_bytes:
                self.fail(Reason.REPLY_NOT_HTTP)
        else:
            self._quiet_bytes = 0

    def end(self) -> Seen:
        """No more bytes will come, and their end was a proper one: a body without a stated length ends here."""
        if self.status is not None and not self._sized and self.seen is None:
            self._reply()
        return self.seen or self.lose()

    def lose(self) -> Seen:
        """The connection broke, or ended where no reply ends."""
        return self.fail(Reason.CONNECTION_LOST if self.status is None else Reason.REPLY_TRUNCATED)

    def fail(self, reason: Reason, kind: SeenKind = SeenKind.BROKEN) -> Seen:
        """Give the reply up, unless it was whole already."""
        self.reusable = False
        if self.seen is None:
            self.seen = Seen(kind, reason, True, self.status)
        return self.seen

    def close(self) -> None:
        """Part from the parser, which holds on to this reader."""
        self._parser = None

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.seen is not None:
            raise _Refused  # a reply that nobody asked for

    def on_status(self, piece: bytes) -> None:
        self._line_bytes += len(piece)
        if self._line_bytes > self._limits.line_bytes:
            raise _Refused

    def on_header(self, name: bytes, value: bytes) -> None:
        size = len(name) + len(value)
        self._fields += 1
        self._head_bytes += size
        limits = self._limits
        if size > limits.field_bytes or self._fields > limits.fields or self._head_bytes > limits.head_bytes:
            raise _Refused
        if self.status is not None:
            return  # a trailer
        name = name.lower()
        if name in _KEPT:
            self._kept.append((name, value))
            if name == b"transfer-encoding" and b"chunked" in value.lower():
                self._sized = True
        elif name == b"content-length":
            self._sized = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= _FIRST_FINAL_STATUS:
            self.status = status
        elif status < _FIRST_STATUS or status == _STATUS_SWITCHING:
            raise _Refused

    def on_body(self, piece: bytes) -> None:
        self._size += len(piece)
        self._chunks.append(piece)
        if self._size > self._limits.reply_bytes:
            raise _Refused

    def on_message_complete(self) -> None:
        if self.status is None:
            self._begin_head()  # an interim reply: of its fields nothing may cling to the final one
            return
        self.reusable = self._parser.should_keep_alive()
        self._reply()

    def _reply(self, *, too_large: bool = False) -> None:
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        content_type: str | None = None
        codings: list[str] = []
        transfer: list[str] = []
        retry_after: list[str] = []
        for name, raw in self._kept:
            value = raw.decode("latin-1").strip()
            if name == b"content-type":
                content_type = value if content_type is None else content_type
            elif name == b"retry-after":
                retry_after.append(value)
            else:
                (codings if name == b"content-encoding" else transfer).append(value)
        # The parser undoes `chunked` and nothing else.
        if transfer and transfer != ["chunked"] and ", ".join(transfer).lower() != "chunked":
            codings += transfer
        self.seen = Seen(
            SeenKind.REPLY,
            Reason.REPLIED,
            True,
            self.status,
            *content_type_of(content_type),
            ", ".join(codings),
            body[:EXCERPT_BYTES] if too_large else body,
            too_large,
            tuple(retry_after),
        )
