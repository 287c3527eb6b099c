"""One POST to a merchant, and an exact account of what was seen of it (promises 5, 5.2, 9.2, 9.4).

Nothing here retries, follows, decompresses, keeps cookies or reads the environment. The one thing that must
never be wrong is `Seen.sent`: false frees the call to be tried again, so it is false only if no byte of the
request can have left.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl
from collections.abc import Sequence
from typing import Final

from gateway.adapters.addresses import Resolve, SystemResolver
from gateway.adapters.http_reply import HttpLimits
from gateway.adapters.http_request import request_bytes
from gateway.adapters.http_target import read_target
from gateway.adapters.merchant_dial import CertificateInvalid, Dialler, HandshakeFailed, LookUpFailed
from gateway.adapters.merchant_pool import Lane, MerchantPool, TooLate
from gateway.core.addresses import AddressRefused, Network
from gateway.core.outcome import Reason, Seen, SeenKind
from gateway.core.ports import MerchantRequest

__all__ = ["HttpLimits", "MerchantHttp"]

_log = logging.getLogger(__name__)

LATEST_START: Final = 0.75
"""The part of the deadline after which nothing is begun any more."""

TARGETS: Final = 1_024
"""URLs whose parts are remembered."""

BEFORE_SENDING: Final[tuple[tuple[type[Exception], Reason], ...]] = (
    (TooLate, Reason.TOO_LATE),
    (AddressRefused, Reason.ADDRESS_REFUSED),  # numeric forms of hosts among them
    (LookUpFailed, Reason.NAME_NOT_RESOLVED),
    (CertificateInvalid, Reason.CERTIFICATE_INVALID),
    (HandshakeFailed, Reason.TLS_FAILED),
    (OSError, Reason.CONNECT_FAILED),
    (ValueError, Reason.REQUEST_REFUSED),
    (Exception, Reason.CONNECT_FAILED),
)
"""What an exception says of a request of which no byte can have left: the first class that fits."""

_EXPECTED: Final = (TooLate, OSError, ValueError)


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
        self._allow = tuple(allow)
        self._allow_http = allow_http
        self._limits = limits or HttpLimits()
        self._own_resolver: SystemResolver | None = None
        if resolve is None:
            resolve = self._own_resolver = SystemResolver()
        self._dialler = Dialler(resolve=resolve, allow=self._allow, ssl_context=ssl_context)
        self._pool: MerchantPool | None = None
        self._way = functools.lru_cache(maxsize=TARGETS)(self._find_way)
        self._closed = False

    async def send(self, request: MerchantRequest, *, deadline_s: float) -> Seen:
        """POST once and say what was seen. `deadline_s` bounds the whole exchange by the wall clock, waiting
        for a pooled connection, look-up, connect and TLS included; 0 or less ends at once.

        Never raises for anything a merchant or network does. Cancelled, it closes the connection and leaves
        the caller to treat the outcome as unknown.
        """
        if self._closed:
            raise RuntimeError("the merchant client is closed")
        if deadline_s <= 0:
            return _not_sent(Reason.TIMED_OUT, SeenKind.TIMEOUT)
        loop = asyncio.get_running_loop()
        if self._pool is None:
            self._pool = MerchantPool(self._dialler, self._limits, loop)
        begun = loop.time()
        try:
            start, lane = self._way(request.url, request.company)
            head, rest = request_bytes(start, request.headers, request.body)
            connection = self._pool.take_idle(lane)
            if connection is None:
                async with asyncio.timeout_at(begun + deadline_s):
                    connection = await self._pool.take(lane, latest=begun + deadline_s * LATEST_START)
        except TimeoutError:
            return _not_sent(Reason.TIMED_OUT, SeenKind.TIMEOUT)
        except Exception as error:
            # Whatever went wrong, the record above must be settled or released. The text of the error is not
            # used: it may hold the URL.
            if not isinstance(error, _EXPECTED):
                _log.error("unexpected %s before a request to a merchant", type(error).__name__)
            return _not_sent(next(reason for kind, reason in BEFORE_SENDING if isinstance(error, kind)))
        # No turn of the loop between that look at the connection and this write; after it the request counts as sent.
        waiter = connection.exchange(head, rest, begun + deadline_s)
        try:
            seen = await waiter
        except BaseException:
            connection.abandon(waiter)
            raise
        if seen.kind is not SeenKind.REPLY:
            _log.debug("merchant exchange ended: %s, %s, sent=%s", seen.kind, seen.reason, seen.sent)
        return seen

    async def close(self) -> None:
        """Close every connection; calls under way end as broken. A `send` afterwards raises RuntimeError."""
        self._closed = True
        if self._pool is not None:
            await self._pool.close()
        if self._own_resolver is not None:
            self._own_resolver.close()

    def _find_way(self, url: str, company: str) -> tuple[str, Lane]:
        assert self._pool is not None
        origin, start = read_target(url, allow_http=self._allow_http, allow=self._allow)
        return start, self._pool.lane(origin, company)


def _not_sent(reason: Reason, kind: SeenKind = SeenKind.NOT_CONNECTED) -> Seen:
    _log.debug("merchant exchange ended: %s, %s, sent=False", kind, reason)
    return Seen(kind, reason, False)
