"""uvicorn's HTTP protocol with a bound on a head, deaf to upgrades and trailers (9.4), with a short way for calls.

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

from gateway.web.exchange import Exchange

MOST_HEAD_BYTES: Final = 64 * 1024
HEAD_S: Final = 30.0
"""How long a request's head may take to arrive, from the connection or from the end of the request before."""
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_UNUSUAL: Final = frozenset({b"expect", b"transfer-encoding", b"upgrade"})
"""A request that has one of these goes the long way."""


class BoundedHttp(HttpToolsProtocol):
    """Given to uvicorn as its `http`.

    A request that its application's `short_way` may take is kept back until it is whole. If that is by the end of the
    bytes that brought its head, the application is offered it as it is, without a scope, a task and the events of a
    body that is still on its way; in every other case it goes uvicorn's long way, and nothing has happened before.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._usual = True
        self._modern = True
        self._offers = False
        self._bodiless_bytes = 0
        """Read behind a head since the last byte of a body: trailers, and what is said about chunks."""
        self._offered = False
        self._head_began = 0.0
        self._head_timer: asyncio.TimerHandle | None = None
        self._idle_since: float | None = None
        self._short: Any = getattr(self.app, "short_way", None) if self.limit_concurrency is None else None
        self._kept_back: list[bytes] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        self._head_timer = self.loop.call_later(HEAD_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        super().connection_lost(exc)
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def data_received(self, data: bytes) -> None:
        self._idle_since = None
        if self._in_head:
            self._head_bytes += len(data)
        else:
            self._bodiless_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._kept_back = None
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response("Invalid HTTP request received.")
            return
        if self._kept_back is not None:
            self._go_the_long_way()
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

    # What the parser calls.

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._usual = True
        self._offers = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # behind the body it is a trailer: whatever it says, the request was judged by its head
        name = name.lower()
        self.headers.append((name, value))
        if name in _UNUSUAL:
            self._usual = False
            if name == b"upgrade":
                self._offers = True
            elif name == b"expect" and value.strip(b" \t").lower() == b"100-continue":
                self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        self._refuse_ambiguous()
        self._offered = self._offers and self.parser.should_upgrade()
        if self._offered:
            return
        self._in_head = False
        self._bodiless_bytes = 0
        if self._short is not None and self._usual and self._may_take_the_short_way():
            self._kept_back = []
        else:
            self._begin_the_long_way()

    def on_body(self, body: bytes) -> None:
        self._bodiless_bytes = 0
        if self._kept_back is not None:
            self._kept_back.append(body)
        else:
            super().on_body(body)

    def _refuse_ambiguous(self) -> None:
        """Raises HttpParserError for a head that two readers may read as two requests."""
        hosts = [name for name, _ in self.headers].count(b"host")
        self._modern = self.parser.get_http_version() == "1.1"
        if not self._usual:
            codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
            if codings and (codings != [b"chunked"] or not self._modern):
                raise httptools.HttpParserError("a transfer coding that is not read here")
        if hosts > 1 or (self._modern and not hosts):
            raise httptools.HttpParserError("one Host is due")

    def on_message_complete(self) -> None:
        if self._offered:
            return
        if self._kept_back is None or not self._took_the_short_way(self._kept_back):
            super().on_message_complete()
        self._await_head()

    def _may_take_the_short_way(self) -> bool:
        return (
            self.url == self._short.path
            and self.parser.get_method() == b"POST"
            and self._modern
            and self.parser.should_keep_alive()
            and (self.cycle is None or self.cycle.response_complete)  # answers leave in the order of the requests
            and not self.flow.write_paused
            and not self.transport.is_closing()
        )

    def _took_the_short_way(self, parts: list[bytes]) -> bool:
        before = self.cycle
        exchange = Exchange(self, self._short.outbox)
        self.cycle = exchange  # type: ignore[assignment]
        if self._short(self.headers, parts[0] if len(parts) == 1 else b"".join(parts), exchange):
            self._kept_back = None
            return True
        self.cycle = before
        self._go_the_long_way()
        return False

    def _go_the_long_way(self) -> None:
        parts, self._kept_back = self._kept_back or [], None
        self._begin_the_long_way()
        for part in parts:
            super().on_body(part)

    def _begin_the_long_way(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.headers, self.expect_100_continue = url, headers, expects
        self.scope["headers"] = headers
        super().on_headers_complete()

    # Between requests.

    def on_response_complete(self) -> None:
        """uvicorn's, but for the timer: one a connection, which looks again; one a request costs more than it saves."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def timeout_keep_alive_handler(self) -> None:
        """Close if nothing has come since the last answer for as long as that may be."""
        self.timeout_keep_alive_task = None
        if self._idle_since is None or self.transport.is_closing():
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            self.transport.close()

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
