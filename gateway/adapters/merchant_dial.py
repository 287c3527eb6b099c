"""From an origin to a connection: look up, judge, connect, TLS (promise 9.2). No byte of a request leaves here."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from gateway.adapters.addresses import Resolve, judged_socket, resolve_judged
from gateway.adapters.http_target import Origin
from gateway.adapters.merchant_connection import MerchantConnection
from gateway.core.addresses import Address, Network

C = TypeVar("C", bound=MerchantConnection)

_TLS_END_S: Final = 1.0
"""How long a peer may take to answer the end of a TLS session before the connection is simply closed."""


class LookUpFailed(OSError):
    """The name has no address."""


class ConnectFailed(OSError):
    """Nobody took the connection, or whoever did ended it before anything was sent."""


class HandshakeFailed(OSError):
    """TCP stood, and TLS did not come about."""


class CertificateInvalid(HandshakeFailed):
    """Expired, for another name, or from nobody trusted."""


class Dialler:
    """Tries the addresses of an origin one after another, in the resolver's order."""

    def __init__(self, *, resolve: Resolve, allow: Sequence[Network], ssl_context: ssl.SSLContext) -> None:
        self._resolve = resolve
        self._allow = tuple(allow)
        self._ssl_context = ssl_context

    async def connect(self, origin: Origin, make: Callable[[], C], *, latest: float) -> C:
        """A connection made with `make`. Raises AddressRefused or one of the errors above: that of the address
        tried last.

        The caller bounds the whole. So that a silent address leaves time for those behind it, each but the last
        may take its share of what is left until `latest` (the loop's clock).
        """
        addresses = await self._addresses(origin)
        loop = asyncio.get_running_loop()
        failed: OSError = ConnectFailed()
        for left in range(len(addresses), 0, -1):
            now = loop.time()
            until = None if left == 1 else now + max(0.0, latest - now) / left
            try:
                async with asyncio.timeout_at(until):
                    return await self._to(addresses[-left], origin, make())
            except TimeoutError:
                failed = ConnectFailed()
            except (ConnectFailed, HandshakeFailed) as error:
                failed = error
        raise failed

    async def _addresses(self, origin: Origin) -> Sequence[Address]:
        if origin.address is not None:
            return (origin.address,)
        try:
            return await resolve_judged(
                origin.host, origin.port, resolve=self._resolve, allow=self._allow, only_allowed=origin.only_allowed
            )
        except OSError as error:
            raise LookUpFailed from error

    async def _to(self, address: Address, origin: Origin, connection: C) -> C:
        loop = asyncio.get_running_loop()
        sock = judged_socket(address, self._allow, only_allowed=origin.only_allowed)
        try:
            try:
                await loop.sock_connect(sock, (str(address), origin.port))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                raise ConnectFailed from error
            await self._open(loop, sock, origin, connection)
        except BaseException:
            connection.drop()
            sock.close()
            raise
        return connection

    async def _open(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, origin: Origin, connection: MerchantConnection
    ) -> None:
        if not origin.secure:
            await loop.create_connection(lambda: connection, sock=sock)
            return
        try:
            await loop.create_connection(
                lambda: connection,
                sock=sock,
                ssl=self._ssl_context,
                server_hostname=origin.host,
                ssl_shutdown_timeout=_TLS_END_S,
            )
        except ssl.SSLCertVerificationError as error:
            raise CertificateInvalid from error
        except (OSError, ValueError) as error:  # ValueError: a name that TLS cannot carry
            raise HandshakeFailed from error
