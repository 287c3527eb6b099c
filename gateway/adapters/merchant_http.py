"""One POST to a merchant, and an exact account of what was seen of it (promises 5, 5.2, 9.2, 9.4).

Nothing here retries, follows, decompresses, keeps cookies or reads the environment. The one thing that must
never be wrong is `Seen.sent`: false frees the call to be tried again, so it is false only if no byte of the
request can have left.
"""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp.client import ClientTimeout
from multidict import CIMultiDictProxy
from yarl import URL

from gateway.adapters.addresses import Doorkeeper, Resolve, SystemResolver
from gateway.adapters.merchant_connection import CheckedConnector, Exchange, NotedRequest, TooLate, current
from gateway.core.addresses import AddressRefused, Network
from gateway.core.outcome import RESULT_CAP, Reason, Seen, SeenKind
from gateway.core.ports import MerchantRequest
from gateway.core.reply_body import content_type_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds of the client. Reading a reply stops above `reply_bytes`. `idle_s` must stay below the shortest
    idle time of common servers (5 s): a connection the merchant is just closing makes an outcome unknown."""

    reply_bytes: int = RESULT_CAP
    line_bytes: int = 8_190
    field_bytes: int = 8_190
    fields: int = 100
    connections: int = 1_000
    per_merchant: int = 64
    idle_s: float = 4.0


SESSION_HEADERS: Final[Mapping[str, str]] = {
    "Accept": "application/json, text/plain;q=0.5",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "oncegate",
}
"""Sent unless the request brings its own."""

EXCERPT_BYTES: Final = 16_384
"""Kept of a reply that is too large, for the event log's excerpt."""

LATEST_START: Final = 0.75
"""The part of the deadline after which nothing is begun any more."""
BEFORE_SENDING: Final[tuple[tuple[type[Exception], Reason], ...]] = (
    (TooLate, Reason.TOO_LATE),
    (AddressRefused, Reason.ADDRESS_REFUSED),
    (aiohttp.InvalidURL, Reason.ADDRESS_REFUSED),  # numeric forms of hosts among them
    (aiohttp.ClientConnectorDNSError, Reason.NAME_NOT_RESOLVED),
    (aiohttp.ClientConnectorCertificateError, Reason.CERTIFICATE_INVALID),
    (aiohttp.ClientConnectorSSLError, Reason.TLS_FAILED),
    (aiohttp.ClientConnectorError, Reason.CONNECT_FAILED),
    (ValueError, Reason.REQUEST_REFUSED),
    (Exception, Reason.CONNECT_FAILED),
)
AFTER_SENDING: Final[tuple[tuple[type[Exception], Reason], ...]] = (
    (aiohttp.ClientPayloadError, Reason.REPLY_TRUNCATED),
    (aiohttp.ClientResponseError, Reason.REPLY_NOT_HTTP),
    (Exception, Reason.CONNECTION_LOST),
)
"""What an exception says, by whether a byte may have left: the first class that fits."""

_EXPECTED: Final = (aiohttp.ClientError, OSError, ValueError)
_HANDSHAKE_ERRORS: Final = frozenset({errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, None})


class MerchantHttp:
    """The gateway's HTTP client. Made anywhere, opened on first use inside the loop, closed with `close`.

    `allow` opens networks that are refused by default; `allow_http` permits plain http beyond them (`--dev`).
    `ssl_context` may add trusted authorities; one that does not verify is refused with ValueError.
    `resolve` turns names into addresses; left out, the operating system's resolver.
    """

    def __init__(
        self,
        *,
        allow: Sequence[Network] = (),
        allow_http: bool = False,
        limits: HttpLimits | None = None,
        ssl_context: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        if ssl_context is None:
            ssl_context = ssl.create_default_context()
        if ssl_context.verify_mode is not ssl.CERT_REQUIRED or not ssl_context.check_hostname:
            raise ValueError("the TLS context must verify certificates and host names")
        ssl_context.set_alpn_protocols(["http/1.1"])
        self._ssl_context = ssl_context
        self._limits = limits or HttpLimits()
        self._allow = tuple(allow)
        self._allow_http = allow_http
        self._own_resolver: SystemResolver | None = None
        if resolve is None:
            resolve = self._own_resolver = SystemResolver()
        self._resolve: Resolve = resolve
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(self, request: MerchantRequest, *, deadline_s: float) -> Seen:
        """POST once and say what was seen. `deadline_s` bounds the whole exchange by the wall clock, waiting
        for a pooled connection, look-up, connect and TLS included; 0 or less ends at once.

        Never raises for anything a merchant or network does. Cancelled, it closes the connection and leaves
        the caller to treat the outcome as unknown.
        """
        if self._closed:
            raise RuntimeError("the merchant client is closed")
        secure = request.url[:6].lower() == "https:"
        exchange = Exchange(
            only_allowed=not secure and not self._allow_http,
            latest_start=asyncio.get_running_loop().time() + deadline_s * LATEST_START,
        )
        token = current.set(exchange)
        try:
            async with asyncio.timeout(deadline_s):
                return await self._post(request, exchange)
        except TimeoutError:
            return self._ended(SeenKind.TIMEOUT, Reason.TIMED_OUT, exchange)
        except Exception as error:
            # Whatever went wrong, the record above must be settled or released. The text of the error is not
            # used: it may hold the URL.
            if not isinstance(error, _EXPECTED):
                _log.error("unexpected %s while calling a merchant", type(error).__name__)
            if exchange.sent:
                return self._ended(SeenKind.BROKEN, _first(AFTER_SENDING, error), exchange)
            reason = _first(BEFORE_SENDING, error)
            if secure and reason is Reason.CONNECT_FAILED and _in_handshake(error):
                reason = Reason.TLS_FAILED
            return self._ended(SeenKind.NOT_CONNECTED, reason, exchange)
        finally:
            current.reset(token)

    async def close(self) -> None:
        """Close every connection. A `send` afterwards raises RuntimeError."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        if self._own_resolver is not None:
            self._own_resolver.close()

    async def _post(self, request: MerchantRequest, exchange: Exchange) -> Seen:
        session = self._session or self._open()
        body = request.body
        response = await session.post(
            URL(request.url),
            data=body if len(body) <= aiohttp.payload.TOO_LARGE_BYTES_BODY else io.BytesIO(body),
            headers=request.headers,
            allow_redirects=False,
        )
        exchange.status = response.status
        try:
            data, too_large = await _read(response.content, self._limits.reply_bytes)
        except BaseException:
            response.close()
            raise
        if not response.closed:  # at its end it has closed itself and gone back to the pool
            response.close()
        headers = response.headers
        content_type, charset = content_type_of(headers.get("Content-Type"))
        _log.debug("merchant replied with HTTP %d", response.status)
        return Seen(
            SeenKind.REPLY,
            Reason.REPLIED,
            True,
            response.status,
            content_type,
            charset,
            _content_encoding(headers),
            data,
            too_large,
            tuple(headers.getall("Retry-After", ())),
        )

    def _open(self) -> aiohttp.ClientSession:
        limits = self._limits
        door = Doorkeeper(resolve=self._resolve, allow=self._allow, only_allowed=lambda: current.get().only_allowed)

        def open_socket(addr_info: aiohttp.AddrInfoType) -> socket.socket:
            current.get().dialled = True
            return door.open_socket(addr_info)

        connector = CheckedConnector(
            ssl=self._ssl_context,
            resolver=door,
            socket_factory=open_socket,
            use_dns_cache=False,  # a cached answer would be an answer judged for someone else
            limit=limits.connections,
            limit_per_host=limits.per_merchant,
            keepalive_timeout=limits.idle_s,
            timeout_ceil_threshold=float("inf"),
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            request_class=NotedRequest,
            headers=SESSION_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            # The deadline is kept in `send`; aiohttp's own would round it up to whole seconds.
            timeout=ClientTimeout(total=None),
            auto_decompress=False,
            trust_env=False,
            max_line_size=limits.line_bytes,
            max_field_size=limits.field_bytes,
            max_headers=limits.fields,
        )
        return self._session

    def _ended(self, kind: SeenKind, reason: Reason, exchange: Exchange) -> Seen:
        _log.debug("merchant exchange ended: %s, %s, sent=%s", kind, reason, exchange.sent)
        return Seen(kind, reason, exchange.sent, exchange.status)


async def _read(content: aiohttp.StreamReader, limit: int) -> tuple[bytes, bool]:
    """The body, or its beginning and True if it is over `limit`. The declared length is not believed: over
    the limit means that more than `limit` bytes came."""
    chunks: list[bytes] = []
    size = 0
    while chunk := await content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            return b"".join(chunks)[:EXCERPT_BYTES], True
        if content.at_eof():
            break
    return chunks[0] if len(chunks) == 1 else b"".join(chunks), False


def _content_encoding(headers: CIMultiDictProxy[str]) -> str:
    """The codings between the bytes read and the body. aiohttp undoes `chunked` and nothing else."""
    codings = headers.getall("Content-Encoding", [])
    transfer = headers.get("Transfer-Encoding")
    if transfer is not None and transfer.strip().lower() != "chunked":
        codings = [*codings, transfer]
    return ", ".join(codings)


def _first(table: tuple[tuple[type[Exception], Reason], ...], error: Exception) -> Reason:
    return next(reason for kind, reason in table if isinstance(error, kind))


def _in_handshake(error: Exception) -> bool:
    """A refused or unanswered connect has other error numbers: these come once TCP stood."""
    return isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno in _HANDSHAKE_ERRORS
