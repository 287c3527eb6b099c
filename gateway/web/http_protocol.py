"""uvicorn's HTTP protocol with a bound on a request's head, and deaf to upgrades and trailers (9.4).

uvicorn reads heads of any length, waits for them for ever, and drops the body of a request that offers an upgrade
(`curl --http2` and some clients' defaults do), since it would answer that as a websocket. It takes what follows a
chunked body for more of the head, as much as comes. And it lets pass how a body ends where a proxy in front may have
read it otherwise: a transfer coding besides chunked, chunks under HTTP/1.0, no Host or two (RFC 9112, 3.2 and 6.1).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES: Final = 64 * 1024
HEAD_S: Final = 30.0
"""How long a request's head may take to arrive, from the connection or from the end of the request before."""
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedHttp(HttpToolsProtocol):
    """Given to uvicorn as its `http`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._bodiless_bytes = 0
        """Read behind a head since the last byte of a body: trailers, and what is said about chunks."""
        self._offered = False
        self._head_began = 0.0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        self._head_timer = self.loop.call_later(HEAD_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._in_head:
            self._head_bytes += len(data)
        else:
            self._bodiless_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response("Invalid HTTP request received.")
            return
        read = self._head_bytes if self._in_head else self._bodiless_bytes
        if read > MOST_HEAD_BYTES:
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if not self._offered:
                    return  # CONNECT: it is answered, and nothing is tunnelled
                # The parser takes what follows for another protocol. A new one gets the head again, without the offer.
                self._offered = False
                data = self._head_without_offer() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _head_without_offer(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % (name, value) for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # behind the body it is a trailer: whatever it says, the request was judged by its head
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._bodiless_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        self._refuse_ambiguous()
        self._offered = any(name == b"upgrade" for name, _ in self.headers) and self.parser.should_upgrade()
        if self._offered:
            return
        self._in_head = False
        self._bodiless_bytes = 0
        super().on_headers_complete()

    def _refuse_ambiguous(self) -> None:
        """Raises HttpParserError for a head that two readers may read as two requests."""
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        hosts = sum(name == b"host" for name, _ in self.headers)
        modern = self.parser.get_http_version() == "1.1"
        if codings and (codings != [b"chunked"] or not modern):
            raise httptools.HttpParserError("a transfer coding that is not read here")
        if hosts > 1 or (modern and not hosts):
            raise httptools.HttpParserError("one Host is due")

    def on_message_complete(self) -> None:
        if self._offered:
            return
        super().on_message_complete()
        self._await_head()

    def _await_head(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._head_began = self.loop.time()

    def _look(self) -> None:
        """Close if a head has been awaited too long. One timer a connection: one a request costs more than it saves."""
        left = self._head_began + HEAD_S - self.loop.time()
        # A call that still runs keeps its connection, whatever is pipelined behind it.
        idle = self.cycle is None or self.cycle.response_complete
        if self._in_head and left <= 0 and idle and not self.transport.is_closing():
            self.transport.close()
        self._head_timer = self.loop.call_later(left if left > 0 else HEAD_S, self._look)
