"""uvicorn's HTTP protocol with a bound on a request's head, and deaf to upgrades (9.4).

uvicorn reads heads of any length, waits for them for ever, and drops the body of a request that offers an upgrade
(`curl --http2` and some clients' defaults do), since it would answer that as a websocket.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES: Final = 64 * 1024
HEAD_S: Final = 30.0
"""How long a request's head may take to arrive, from the connection or from the end of the request before."""
_UPGRADE: Final = re.compile(rb"(\r\n)upgrade(?=[ \t]*:)", re.IGNORECASE)
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedHttp(HttpToolsProtocol):
    """Given to uvicorn as its `http`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            if b"pgrade" in data or b"PGRADE" in data:
                # Renamed to the same length, the offer is no offer: the request is answered as it stands.
                head, end, rest = data.partition(b"\r\n\r\n")
                data = _UPGRADE.sub(rb"\1x-grade", head) + end + rest
        super().data_received(data)
        if self._in_head and self._head_bytes > MOST_HEAD_BYTES:
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._await_head()

    def _await_head(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._stop_timer()
        self._head_timer = self.loop.call_later(HEAD_S, self._late)

    def _late(self) -> None:
        # Between requests a kept connection is uvicorn's to end; a call that still runs keeps its connection.
        if self._in_head and not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
