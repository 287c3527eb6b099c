"""One connection to a merchant: one exchange at a time, and a record of whether anything else happened on it.

The rule that everything here serves: between the look at a connection and the write the loop does not turn, and
from the write on the request counts as sent, whatever becomes of it.
"""

from __future__ import annotations

import asyncio
import select
from typing import Final, cast

from gateway.adapters.http_reply import HttpLimits, ReplyReader
from gateway.core.outcome import Reason, Seen, SeenKind

_TICK_S: Final = 0.001
"""uvloop's timers count whole milliseconds and may fire that much early."""


class MerchantConnection(asyncio.Protocol):
    """`open`: connected and not ended. Ended means that it is never used again.

    A pool hears of it through `on_free` (after an exchange that left it fit for another), `on_end` (once) and
    `on_lost` (the transport is gone; uvloop leaves that out where connecting was cancelled at its very end).
    """

    __slots__ = ("_deadline", "_large", "_loop", "_poll", "_reader", "_timer", "_transport", "_waiter", "ended", "open")

    def __init__(self, limits: HttpLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reader = ReplyReader(limits)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Seen] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._large = False
        self._poll: select.poll | None = None
        self.ended = False
        self.open = False

    def on_free(self) -> None: ...

    def on_end(self) -> None: ...

    def on_lost(self) -> None: ...

    def watch_socket(self) -> None:
        """From here on unread bytes on the socket count as something that happened. Over TLS not before the first
        reply: servers send session tickets unasked."""
        if self._poll is None and self._transport is not None and hasattr(select, "poll"):
            sock = self._transport.get_extra_info("socket")
            if sock is not None:
                self._poll = select.poll()
                self._poll.register(sock.fileno(), select.POLLIN)

    def is_untouched(self) -> bool:
        """Whether nothing has happened on it: no close, which would make the outcome unknown, and no bytes that
        nobody asked for, which would be taken for the answer to the next request. The socket is asked as well,
        since the loop may not have come round to reading it."""
        if not self.open or cast(asyncio.Transport, self._transport).is_closing():
            return False
        return self._poll is None or not self._poll.poll(0)

    def exchange(self, head: bytes, rest: bytes, deadline: float) -> asyncio.Future[Seen]:
        """Write a request and give the future of its reply; at `deadline` (the loop's clock) it is a timeout.

        Call straight after `is_untouched`: from here on the request counts as sent. What the socket does not take
        waits in the transport, so that no more than the request itself ever waits.
        """
        waiter = self._waiter = self._loop.create_future()
        self._reader.begin()
        self._deadline = deadline
        timer = self._timer
        if timer is None or timer.when() > deadline:
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(deadline, self._tick)
        self._large = bool(rest)
        transport = cast(asyncio.Transport, self._transport)
        try:
            transport.write(head)
            if rest:
                transport.write(rest)
        except Exception:
            self.drop()  # whatever a transport finds wrong so late, some of it may have left
        return waiter

    def abandon(self, waiter: asyncio.Future[Seen]) -> None:
        """Whoever waits leaves. If that exchange still runs, the connection ends with it."""
        if self._waiter is waiter:
            self._waiter = None
            self.drop()

    def drop(self, *, gently: bool = False) -> None:
        """End it at once, also if it is still to be made; `gently` lets TLS say its goodbye first."""
        transport = self._transport
        if transport is not None:
            if gently:
                transport.close()
            else:
                transport.abort()
        self._end()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.ended:
            self._transport.abort()
        else:
            self.open = True

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None:
            self.drop()  # nobody asked
            return
        reader = self._reader
        reader.feed(data)
        if reader.seen is not None:
            self._finish(waiter, reader.seen)

    def eof_received(self) -> None:
        waiter = self._waiter
        if waiter is None:
            self.drop(gently=True)
        else:
            self._finish(waiter, self._reader.end())

    def connection_lost(self, exc: Exception | None) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._finish(waiter, self._reader.lose())
        self._end()
        self._transport = None
        self.on_lost()

    def _tick(self) -> None:
        """One timer serves many exchanges: it is set anew only when it fires, or for a nearer deadline."""
        self._timer = None
        waiter = self._waiter
        if waiter is None:
            return
        if self._loop.time() + _TICK_S < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._tick)
        else:
            self._finish(waiter, self._reader.fail(Reason.TIMED_OUT, SeenKind.TIMEOUT))

    def _finish(self, waiter: asyncio.Future[Seen], seen: Seen) -> None:
        self._waiter = None
        # A reply may come before the request is out; the rest of that request must not follow it, nor be followed.
        transport = cast(asyncio.Transport, self._transport)
        unwritten = transport.get_write_buffer_size() or (self._large and self._is_tls())
        if waiter.done():  # cancelled, and its owner has not come round to `abandon` yet
            self.drop()
            return
        waiter.set_result(seen)
        if self._reader.reusable and not unwritten:
            self.on_free()
        else:
            self.drop(gently=seen.kind is SeenKind.REPLY and not seen.too_large and not unwritten)

    def _is_tls(self) -> bool:
        """Then the transport does not count what its own transport still holds."""
        return self._transport is not None and self._transport.get_extra_info("ssl_object") is not None

    def _end(self) -> None:
        if self.ended:
            return
        self.ended, self.open = True, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():  # dropped by the pool under a running exchange
            waiter.set_result(self._reader.lose())
        self._poll = None
        self._reader.close()
        self.on_end()
