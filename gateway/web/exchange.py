"""One request that came whole, and its answer: what uvicorn's cycle is to the protocol, for the short way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.web.head import Head
from gateway.web.replies import JSON, Reply, header_list

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_CLOSE: Final = (b"connection", b"close")


class _Nobody:
    """Waits for nothing: the body is here."""

    def set(self) -> None: ...


_NOBODY: Final = _Nobody()


class Outbox:
    """Answers that came in one turn of the loop, written one behind the other at its end: whoever reads them is woken
    for the first, and finds the others without being woken again, which costs a writer more than the write."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Exchange, Head, Reply]] = deque()

    def put(self, loop: asyncio.AbstractEventLoop, exchange: Exchange, head: Head, reply: Reply) -> None:
        if not self._waiting:
            loop.call_soon(self._flush, loop)
        self._waiting.append((exchange, head, reply))

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._waiting:
                exchange, head, reply = self._waiting.popleft()
                exchange.write(head, reply)
        finally:
            if self._waiting:  # one could not be written: the others still are
                loop.call_soon(self._flush, loop)


class Exchange:
    """Answered once, in one write. It stands among the server's tasks while it runs, so that a stop waits for it."""

    __slots__ = (
        *("_outbox", "_protocol", "answered", "disconnected", "give_up", "keep_alive", "message_event"),
        "response_complete",
    )

    def __init__(self, protocol: HttpToolsProtocol, outbox: Outbox) -> None:
        self._protocol = protocol
        self._outbox = outbox
        self.answered = False
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = False
        self.message_event = _NOBODY
        self.give_up: Callable[[], None] | None = None
        """Answers in place of a call that runs on."""

    def wait(self, give_up: Callable[[], None]) -> None:
        """The answer comes later."""
        self.give_up = give_up
        self._protocol.tasks.add(self)  # type: ignore[arg-type]

    def cancel(self, msg: object = None) -> None:
        """The server's grace is over. Not at once: it is walking through its tasks."""
        if self.give_up is not None:
            self._protocol.loop.call_soon(self.give_up)

    def answer(self, head: Head, reply: Reply) -> None:
        """It leaves at the end of this turn of the loop, unless another one did."""
        if not self.answered:
            self.answered = True
            self._outbox.put(self._protocol.loop, self, head, reply)

    def write(self, head: Head, reply: Reply) -> None:
        """Write it, unless nobody is there any more."""
        protocol = self._protocol
        if self.give_up is not None:
            self.give_up = None
            protocol.tasks.discard(self)
        if self.disconnected or protocol.transport.is_closing():
            return
        if protocol.flow.write_paused:
            task = protocol.loop.create_task(self._once_writable(head, reply))
            protocol.tasks.add(task)
            task.add_done_callback(protocol.tasks.discard)
            return
        self._write(head, reply)

    async def _once_writable(self, head: Head, reply: Reply) -> None:
        await self._protocol.flow.drain()
        if not self.disconnected and not self._protocol.transport.is_closing():
            self._write(head, reply)

    def _write(self, head: Head, reply: Reply) -> None:
        protocol, self.response_complete = self._protocol, True
        if _CLOSE in reply.headers:
            self.keep_alive = False
        content: list[bytes] = [STATUS_LINE[reply.status]]
        for name, value in protocol.server_state.default_headers:
            content += (name, b": ", value, b"\r\n")
        if reply.media is JSON and not reply.headers:
            content.append(_USUAL % (head.request_id.encode(), len(reply.body)))
        else:
            for name, value in header_list(head, reply):
                content += (name, b": ", value, b"\r\n")
        content.append(b"\r\n" if self.keep_alive or _CLOSE in reply.headers else b"connection: close\r\n\r\n")
        content.append(reply.body)
        protocol.transport.write(b"".join(content))
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()


def _usual_form() -> bytes:
    names = header_list(Head("POST", {}, "%b", None), Reply(200, b""))
    return b"".join(b"%b: %b\r\n" % pair for pair in names).replace(b"content-length: 0", b"content-length: %d")


_USUAL: Final = _usual_form()
"""The headers of a plain JSON answer: its request id and its length are to be filled in."""
