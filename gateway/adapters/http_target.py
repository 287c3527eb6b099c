"""A registered URL as the parts that an exchange needs: where to connect, and how the request begins.

The URL is judged again each time it is read (9.2): the allow-list may have changed since it was registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from gateway.core.addresses import Address, Network, check_url

DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Where a connection leads. Connections are shared by all URLs of one origin. `host` is lowercase, without a
    trailing dot or brackets; `address` is set if it is a literal; `only_allowed`: plain http outside development."""

    secure: bool
    host: str
    port: int
    only_allowed: bool
    address: Address | None


class Target(NamedTuple):
    """`start` is the head of a request up to the digits of its length."""

    origin: Origin
    start: str


def read_target(url: str, *, allow_http: bool = False, allow: Sequence[Network] = ()) -> Target:
    """Raises AddressRefused for whatever may not be registered either, credentials in the URL among it.

    Path and query go out as they were registered, byte for byte: `check_url` lets no character through that could
    end the request line.
    """
    endpoint = check_url(url, allow_http=allow_http, allow=allow)
    host = endpoint.host.removesuffix(".")
    name = f"[{host}]" if ":" in host else host
    if endpoint.port != DEFAULT_PORTS[endpoint.scheme]:
        name = f"{name}:{endpoint.port}"
    parts = urlsplit(url)
    path = parts.path or "/"
    if parts.query:
        path = f"{path}?{parts.query}"
    secure = endpoint.scheme == "https"
    return Target(
        Origin(secure, host, endpoint.port, endpoint.only_allowed, endpoint.address),
        f"POST {path} HTTP/1.1\r\nHost: {name}\r\nContent-Length: ",
    )
