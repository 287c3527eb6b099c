"""9.4: a body that is refused is read to its end, within a bound, so that its sender lives to see why."""

from __future__ import annotations

from typing import Any

import pytest

from merchant_sdk import Shop
from merchant_sdk.endpoint import MOST_DISCARDED

MAX_BODY = 1000
PIECE = 65_536

REFUSED: dict[str, tuple[str, int]] = {"too large": ("POST", 413), "another method": ("PUT", 405)}
BODIES = {"just above the limit": MAX_BODY + 1, "a few pieces": 3 * PIECE, "beyond all patience": 2 * MOST_DISCARDED}


class Sender:
    """Sends `size` bytes in pieces; counts those that were asked for, and fails when asked after the last."""

    def __init__(self, size: int) -> None:
        self.left, self.taken = size, 0

    def read(self, most: int) -> bytes:
        assert self.left, "read past the end, where a server blocks"
        piece = min(most, self.left, PIECE)
        self.left -= piece
        self.taken += piece
        return b" " * piece

    async def receive(self) -> Any:
        return {"type": "http.request", "body": self.read(PIECE), "more_body": self.left > 0}


async def over_asgi(shop: Shop, sender: Sender, method: str, headers: dict[str, str]) -> int:
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await shop.asgi(max_body=MAX_BODY)(
        {"type": "http", "method": method, "path": "/", "headers": raw}, sender.receive, send
    )
    return int(said[0]["status"])


async def over_wsgi(shop: Shop, sender: Sender, method: str, headers: dict[str, str]) -> int:
    said: list[str] = []
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": "/", "wsgi.input": sender}
    environ |= {"CONTENT_LENGTH" if k == "Content-Length" else f"HTTP_{k.upper()}": v for k, v in headers.items()}
    b"".join(shop.wsgi(max_body=MAX_BODY)(environ, lambda status, headers: said.append(status)))
    return int(said[0][:3])


OVER = {"ASGI": over_asgi, "WSGI": over_wsgi}


@pytest.mark.parametrize("over", OVER.values(), ids=OVER)
@pytest.mark.parametrize(("method", "status"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("size", BODIES.values(), ids=BODIES)
async def test_p9_4_a_refused_body_is_read_to_its_end_within_a_bound(
    shop: Shop, over: Any, method: str, status: int, size: int
) -> None:
    """A server that closes on unread bytes resets the connection, and the answer may be lost."""
    sender = Sender(size)
    assert await over(shop, sender, method, {"Content-Length": str(size)}) == status
    assert sender.taken == min(size, MOST_DISCARDED)


async def test_p9_4_a_body_of_unstated_length_is_read_to_its_end_within_a_bound(shop: Shop) -> None:
    """Chunked: it is only known to be too large when it is."""
    for size in BODIES.values():
        sender = Sender(size)
        assert await over_asgi(shop, sender, "POST", {"Transfer-Encoding": "chunked"}) == 413
        assert min(size, MOST_DISCARDED) <= sender.taken <= MOST_DISCARDED + PIECE


@pytest.mark.parametrize("over", OVER.values(), ids=OVER)
async def test_p9_4_a_body_that_waits_to_be_asked_for_is_not_asked_for(shop: Shop, over: Any) -> None:
    """RFC 9110 10.1.1: the refusal is the answer to `Expect: 100-continue`."""
    sender = Sender(1 << 20)
    assert await over(shop, sender, "POST", {"Content-Length": str(1 << 20), "Expect": "100-continue"}) == 413
    assert sender.taken == 0


@pytest.mark.parametrize("over", OVER.values(), ids=OVER)
async def test_p9_4_a_refused_request_without_a_body_is_answered_without_reading(shop: Shop, over: Any) -> None:
    """There is nothing to read, and reading would block."""
    assert await over(shop, Sender(0), "GET", {}) == 405
