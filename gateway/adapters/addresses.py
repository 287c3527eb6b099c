"""Names to addresses, every one judged (promise 9.2).

A name's answers are judged together, and every address once more where the socket for it is made. Nothing is looked
up between that judgement and the connect, so a name cannot change its answer in between.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any, TypeAlias

from gateway.core.addresses import Address, AddressRefused, Endpoint, Network, check_url, judge, known_address

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Host name and port to addresses. Raises OSError if there are none."""


class SystemResolver:
    """The operating system's resolver, on threads of its own.

    A look-up cannot be stopped, so hanging ones must neither fill the loop's shared executor nor, where many
    calls wait for one name, more than one thread.
    """

    def __init__(self, *, threads: int = 32) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="oncegate-dns")
        self._running: dict[tuple[str, int], asyncio.Future[list[Any]]] = {}

    async def __call__(self, host: str, port: int) -> list[Address]:
        """Raises OSError (socket.gaierror) if the name has no address, UnicodeError if it is no name."""
        key = (host, port)
        found = self._running.get(key)
        if found is None:
            loop = asyncio.get_running_loop()
            found = loop.run_in_executor(self._executor, _getaddrinfo, host, port)
            self._running[key] = found
            found.add_done_callback(lambda done: self._ended(key, done))
        answers = await asyncio.shield(found)
        return list(dict.fromkeys(ip_address(sockaddr[0]) for *_, sockaddr in answers))

    def close(self) -> None:
        """Start no more look-ups and wait for none."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _ended(self, key: tuple[str, int], done: asyncio.Future[list[Any]]) -> None:
        self._running.pop(key, None)
        if not done.cancelled():
            done.exception()  # seen, even if all who asked have left


def _getaddrinfo(host: str, port: int) -> list[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)


def judged_socket(address: Address, allow: Sequence[Network] = (), *, only_allowed: bool = False) -> socket.socket:
    """A TCP socket for exactly this address, the last thing before the connect. Raises AddressRefused."""
    judge(address, allow, only_allowed=only_allowed)
    sock = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    sock.setblocking(False)
    return sock


async def resolve_judged(
    host: str, port: int, *, resolve: Resolve, allow: Sequence[Network] = (), only_allowed: bool = False
) -> list[Address]:
    """The addresses of `host`, all of them acceptable. Raises AddressRefused, or OSError if there is none."""
    known = known_address(host)
    if known is not None:
        judge(known, allow, only_allowed=only_allowed)
    try:
        addresses = list(await resolve(host, port))
    except UnicodeError as bad:
        raise OSError("not a host name") from bad
    if not addresses:
        raise OSError("no address")
    for address in addresses:
        judge(address, allow, only_allowed=only_allowed)
    return addresses


async def check_endpoint(
    url: str, *, resolve: Resolve, allow_http: bool = False, allow: Sequence[Network] = ()
) -> Endpoint:
    """Judge an endpoint for registration, its name's addresses included. Raises AddressRefused.

    Passing here gives no right to connect: the name is resolved and judged again at every connect.
    """
    endpoint = check_url(url, allow_http=allow_http, allow=allow)
    if endpoint.address is None:
        try:
            await resolve_judged(
                endpoint.host,
                endpoint.port,
                resolve=resolve,
                allow=allow,
                only_allowed=endpoint.only_allowed,
            )
        except OSError:
            raise AddressRefused("unresolved") from None
    return endpoint
