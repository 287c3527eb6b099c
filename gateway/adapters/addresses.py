"""Names to addresses, every one judged (promise 9.2).

aiohttp asks its resolver for names only and dials IP literals unasked, so `Doorkeeper` stands at both places:
it answers for names, and it makes the socket of every connection, when the address is what will be dialled.
Nothing is looked up between that judgement and the connect, so a name cannot change its answer in between.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any, TypeAlias

from aiohttp import AddrInfoType
from aiohttp.abc import AbstractResolver, ResolveResult

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


class Doorkeeper(AbstractResolver):
    """aiohttp's resolver and socket factory, letting through only what `judge` does.

    `only_allowed` is asked at each judgement: does this exchange need the allow-list (plain http)?
    """

    def __init__(
        self,
        *,
        resolve: Resolve,
        allow: Sequence[Network] = (),
        only_allowed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._resolve = resolve
        self._allow = tuple(allow)
        self._only_allowed = only_allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Every answer for `host`. Raises AddressRefused if any is refused, OSError if there is none: a name
        with one bad address among good ones is not trusted with the good ones."""
        addresses = await resolve_judged(
            host, port, resolve=self._resolve, allow=self._allow, only_allowed=self._only_allowed()
        )
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    def open_socket(self, addr_info: AddrInfoType) -> socket.socket:
        """A socket for exactly this address. Raises AddressRefused."""
        family, kind, protocol, _, where = addr_info
        judge(ip_address(where[0]), self._allow, only_allowed=self._only_allowed())
        return socket.socket(family, kind, protocol)

    async def close(self) -> None:
        """Nothing is held here; whoever gave the resolver closes it."""


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
