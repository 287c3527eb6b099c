"""The ways a request travels: whole, in pieces, cut off, or with nobody left to hear the answer.

One connection a request, no redirect, no proxy of the environment, no cookie, and nothing is sent twice by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from gateway.commands.merchant_check.exchange import Exchange
from gateway.commands.merchant_check.wire import Headers, Sealed

MOST_BYTES: Final = 1 << 20
"""Read of an answer."""


class Link:
    """The connections of one run. `tell` gets every exchange as it begins; `now` gives seconds."""

    def __init__(self, timeout_s: float, now: Callable[[], float], tell: Callable[[Exchange], None]) -> None:
        self._timeout_s = timeout_s
        self._now = now
        self._tell = tell
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            trust_env=False,
            auto_decompress=False,
        )

    async def close(self) -> None:
        await self._session.close()

    async def post(
        self, what: str, sent: Sealed, *, gate: Callable[[], AsyncIterator[bytes]] | None = None
    ) -> Exchange:
        """Send it whole, or as `gate` gives its body."""
        return await self._ask("POST", what, sent.url, sent.headers, sent.body, sent.key, gate)

    async def get(self, what: str, url: str) -> Exchange:
        return await self._ask("GET", what, url, (), b"", "", None)

    async def _ask(
        self,
        method: str,
        what: str,
        url: str,
        headers: Headers,
        body: bytes,
        key: str,
        gate: Callable[[], AsyncIterator[bytes]] | None,
    ) -> Exchange:
        exchange = self._begin(what, key)
        length = (("Content-Length", str(len(body))),) if method == "POST" else ()
        data = (gate() if gate else body) if method == "POST" else None
        try:
            async with self._session.request(
                method, url, data=data, headers=[*headers, *length], allow_redirects=False
            ) as answer:
                exchange.body = await answer.content.read(MOST_BYTES)
                while len(exchange.body) < MOST_BYTES and (more := await answer.content.read(MOST_BYTES)):
                    exchange.body += more
                exchange.status = answer.status
                exchange.headers = {name.lower(): value for name, value in answer.headers.items()}
        except TimeoutError:
            exchange.how = f"no answer in {self._timeout_s:g} s"
        except aiohttp.ClientConnectorCertificateError as untrusted:
            reason = getattr(untrusted.certificate_error, "verify_message", "")
            exchange.how = f"no connection, since its certificate is not trusted: {reason or 'it cannot be verified'}"
        except aiohttp.ClientConnectorSSLError:
            exchange.how = "no connection, since what listens there speaks no TLS that is understood: is it http://?"
        except aiohttp.ClientConnectorError as gone:
            exchange.how = f"no connection ({gone.strerror or type(gone.os_error).__name__})"
        except (aiohttp.ClientError, OSError, ValueError) as broken:
            exchange.how = f"the connection broke ({type(broken).__name__})"
        exchange.ended_s = self._now()
        return exchange

    async def drop(self, what: str, sent: Sealed, *, share: float = 1.0, head_share: float = 1.0) -> Exchange:
        """Send this part of it and close the connection at once."""
        head = _head(sent)
        part = head[: int(len(head) * head_share)] + sent.body[: int(len(sent.body) * share)]
        exchange = self._begin(what, sent.key)
        with self._noting(exchange):
            async with asyncio.timeout(self._timeout_s), _open(sent.url) as (_, writer):
                writer.write(part)
                await writer.drain()
                exchange.how = "closed by the caller"
        return exchange

    async def lose(self, what: str, sent: Sealed) -> Exchange:
        """Send it whole, close the connection when the answer begins and read nothing of it."""
        exchange = self._begin(what, sent.key)
        with self._noting(exchange):
            async with asyncio.timeout(self._timeout_s), _open(sent.url) as (reader, writer):
                writer.write(_head(sent) + sent.body)
                await writer.drain()
                begun = await reader.read(1)
                exchange.how = "answer begun, then lost" if begun else "closed by the merchant without an answer"
        return exchange

    @contextlib.contextmanager
    def _noting(self, exchange: Exchange) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            exchange.how = f"no answer in {self._timeout_s:g} s"
        except OSError as broken:
            exchange.how = f"the connection broke ({type(broken).__name__})"
        exchange.ended_s = self._now()

    def _begin(self, what: str, key: str) -> Exchange:
        exchange = Exchange(what, key, self._now())
        self._tell(exchange)
        return exchange


def _head(sent: Sealed) -> bytes:
    parts = urlsplit(sent.url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (*sent.headers, ("Content-Length", str(len(sent.body))))]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@contextlib.asynccontextmanager
async def _open(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    parts = urlsplit(url)
    secure = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if secure else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=secure)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
