"""Asking the gateway: one address, one key, and the same bytes sent again where that is safe."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp

from gateway.runtime.errors import OncegateError
from gateway.runtime.exchange import exchange, new_session
from gateway.runtime.reading import after_a_lost_try, read_seen, unreadable
from gateway.runtime.resend import Resend, wait_before_resend

R = TypeVar("R")


class Asking:
    """What `AsyncOncegate` is made of: its session, its bounds, and how it asks. Raises ValueError for an address or
    a key that cannot be used."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_s: float = 30.0,
        session: aiohttp.ClientSession | None = None,
        resend: Resend | None = None,
        headers: Callable[[], Mapping[str, str]] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not timeout_s > 0:
            raise ValueError("timeout_s must be above zero")
        self._url = _checked_url(url)
        self._authorization = f"Bearer {_checked_key(key)}"
        self._timeout_s = timeout_s
        self._session = session
        self._owns_session = session is None
        self._closed = False
        self._resend = resend or Resend()
        self._headers = headers or dict
        self._sleep = sleep
        self._jitter = jitter

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    async def __aenter__(self) -> Self:
        self._open_session()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what this client opened. It cannot be used afterwards."""
        self._closed = True
        if self._owns_session and self._session is not None:
            await self._session.close()

    async def _list(self, path: str, *names: str, exact: bool = True) -> list[dict[str, Any]]:
        document, _ = await self._ask("GET", path, None, identified=True, exact=exact)
        try:
            return rows_of(document, *names)
        except ValueError:
            raise unreadable(200, identified=True) from None

    async def _ask(
        self, method: str, path: str, body: bytes | None, *, identified: bool, exact: bool = True
    ) -> tuple[Any, str]:
        session = self._open_session()
        headers = {**self._headers(), "Authorization": self._authorization}
        if body is not None:
            headers["Content-Type"] = "application/json"
        lost = False
        sent_again = 0
        while True:
            seen = await exchange(
                session, method, self._url + path, headers=headers, body=body, timeout_s=self._timeout_s
            )
            read = read_seen(seen, identified=identified, exact=exact)
            if not isinstance(read, OncegateError):
                return read
            wait = wait_before_resend(
                read, identified=identified, sent_again=sent_again, bounds=self._resend, jitter=self._jitter()
            )
            if wait is None:
                raise after_a_lost_try(read) if lost else read
            lost = lost or read.outcome == "unknown"
            sent_again += 1
            await self._sleep(wait)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("this client is closed")
        if self._session is None:
            self._session = new_session()
        return self._session

    @staticmethod
    def _read(read: Callable[[object], R], document: object) -> R:
        """What `read` makes of a 200. Raises NoAnswer where that is not the gateway's."""
        try:
            return read(document)
        except ValueError:
            raise unreadable(200, identified=True) from None


def rows_of(document: object, *names: str) -> list[dict[str, Any]]:
    """The list in a body: bare, or under the first of `names` that is there."""
    rows: object = document
    if isinstance(document, dict):
        rows = next((document[name] for name in names if name in document), None)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("not a list of objects")
    return rows


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port, (parts.hostname or "").encode("idna")
    except ValueError:
        # Never echoed, as below. What no host can be called would else be a fault of each call.
        raise ValueError("the gateway's address is not one that can be connected to") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the gateway's address must be http:// or https:// with a host")
    if "@" in parts.netloc or parts.query or parts.fragment:
        # Never echo it: what stands there is often a password.
        raise ValueError("the gateway's address must hold no credentials, query or fragment")
    return url.rstrip("/")


def _checked_key(key: str) -> str:
    if not key or not all("!" <= letter <= "~" for letter in key):
        raise ValueError("the key must be visible ASCII text without spaces")
    return key
