"""A request's body: plain JSON, bounded in bytes, depth and time, read before anyone acts on it (9.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from gateway.core.errors import EncodingRefused, Malformed, TooLarge
from gateway.core.ports import Clock
from gateway.core.strict_json import Json, JsonRefused, parse_bytes
from gateway.web.head import CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, Head

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

MOST_DISCARDED: Final = 8 * 1024 * 1024
"""Bytes above a limit that are read and thrown away before the 413. A connection that is closed with bytes unread is
reset, and the reset overtakes the answer: a client that sends first and reads then would never see it."""

_JSON: Final = frozenset({b"application/json", b"application/json;charset=utf-8", b'application/json;charset="utf-8"'})


class ClientGone(Exception):
    """The client hung up before its request was whole: nobody is there to answer."""


class BodyLate(Malformed):
    """The body did not arrive in time."""


class BodyTooLarge(TooLarge):
    """`more`: bytes of it may still be on their way."""

    def __init__(self, limit: int, *, more: bool = False) -> None:
        super().__init__(f"the body has more than {limit:,} bytes")
        self.more = more


def check_form(head: Head, limit: int) -> None:
    """Refuse by the headers alone. Raises EncodingRefused for any Content-Encoding and for a type that is not
    JSON (left out, it is taken for JSON), TooLarge for a Content-Length above `limit` where the body is not worth
    reading: its client waits to be asked for it (`Expect`), or it is longer than what is thrown away."""
    if CONTENT_ENCODING in head.fields:
        raise EncodingRefused("Content-Encoding is not accepted: send the body as it is")
    kind = head.fields.get(CONTENT_TYPE, b"application/json")
    if kind != b"application/json" and kind.lower().translate(None, b" \t") not in _JSON:
        raise EncodingRefused("Content-Type must be application/json, in UTF-8")
    length = head.fields.get(CONTENT_LENGTH, b"0")
    most = limit if EXPECT in head.fields else limit + MOST_DISCARDED
    # A length of twenty digits is above any limit; reading it as a number is not worth it.
    if length.isdigit() and (len(length) > 19 or int(length) > most):
        raise BodyTooLarge(limit)


async def read_body(receive: Receive, limit: int) -> bytes:
    """All of the body. Raises TooLarge as soon as `limit` bytes are passed, ClientGone."""
    message = await _part(receive)
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        if len(body) > limit:
            raise BodyTooLarge(limit)
        return body
    parts, size = [body], len(body)
    while size <= limit:
        message = await _part(receive)
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if not message.get("more_body", False):
            if size > limit:
                raise BodyTooLarge(limit)
            return b"".join(parts)
    parts.clear()  # or the error's own trace would keep them while the rest is thrown away
    raise BodyTooLarge(limit, more=True)


async def discard(receive: Receive) -> None:
    """Read what is left of a body and keep none of it, up to MOST_DISCARDED bytes. Raises ClientGone."""
    size, more = 0, True
    while more and size <= MOST_DISCARDED:
        message = await _part(receive)
        size += len(message.get("body", b""))
        more = message.get("more_body", False)


async def _part(receive: Receive) -> MutableMapping[str, Any]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message


def parse_document(body: bytes, depth: int) -> Json:
    """The JSON document. Raises Malformed (2.9)."""
    try:
        return parse_bytes(body, max_depth=depth)
    except JsonRefused as refused:
        raise Malformed(f"the body: {refused}", details={"fields": [{"field": "", "problem": str(refused)}]}) from None


class BodyDeadline:
    """Ends reads that take longer than `limit_s`: one sweep for all of them, since a timer each costs more than
    reading a small body does."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._since: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._armed = False

    async def read(self, receive: Receive, limit: int) -> bytes:
        """`read_body`, and what is left of a body that is too large; raises BodyLate."""
        task = asyncio.current_task()
        if task is None:
            return await read_body(receive, limit)
        self._since[task] = self._clock.monotonic()
        if not self._armed:
            self._arm()
        refused: BodyTooLarge | None = None
        try:
            try:
                return await read_body(receive, limit)
            except BodyTooLarge as error:
                refused = error
            if refused.more:
                await discard(receive)
            raise refused
        except asyncio.CancelledError:
            if task not in self._overdue:
                raise
            task.uncancel()
            raise refused or BodyLate(f"the body did not arrive within {self._limit_s:g} s") from None
        finally:
            self._since.pop(task, None)
            self._overdue.discard(task)

    def sweep(self) -> None:
        """Cancel the reads that are overdue; runs by itself while any read is open."""
        now = self._clock.monotonic()
        for task, since in self._since.items():
            if now - since > self._limit_s and task not in self._overdue:
                self._overdue.add(task)
                task.cancel()

    def end_all(self) -> None:
        """For a stop: bodies that are still on their way are not waited for; nothing of them has been acted on."""
        for task in set(self._since) - self._overdue:
            self._overdue.add(task)
            task.cancel()

    def _arm(self) -> None:
        self._armed = True
        asyncio.get_running_loop().call_later(self._limit_s / 2, self._again)

    def _again(self) -> None:
        self._armed = False
        self.sweep()
        if self._since:
            self._arm()
