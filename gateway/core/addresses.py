"""Which addresses the gateway may dial, and which endpoints may be registered (promise 9.2). Pure.

A registered URL is judged by `check_url`; a name's every answer, and every address about to be dialled, by
`judge`. The text of a URL proves nothing about where it leads, so the first check is a courtesy to whoever
registers and the second one is the guard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

LOOPBACK: Final[tuple[Network, ...]] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
"""The allow-list of a gateway on a developer's own machine."""

REFUSED_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # unspecified, "this network"
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT, and one cloud's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's platform service, on a public address
        "169.254.0.0/16",  # link-local, most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, one cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
"""IANA's special-purpose registry, and what clouds put elsewhere."""

GLOBAL_V6: Final = IPv6Network("2000::/3")
"""Nothing outside this is a public unicast address: loopback, unique local, link-local, site-local,
multicast, discard and IPv4-compatible forms all fall to that one rule."""
REFUSED_V6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)

STANDS_FOR: Final[dict[str, Address]] = {
    "localhost": ip_address("127.0.0.1"),
    "localhost.localdomain": ip_address("127.0.0.1"),
    "ip6-localhost": ip_address("::1"),
    "metadata": ip_address("169.254.169.254"),
    "metadata.google.internal": ip_address("169.254.169.254"),
    "metadata.goog": ip_address("169.254.169.254"),
    "instance-data": ip_address("169.254.169.254"),
}
"""Names whose meaning is known without asking: judged as these addresses before any look-up."""

_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_6TO4 = IPv6Network("2002::/16")
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})

REFUSALS: Final = {
    "scheme": "The endpoint must be an https URL, unless the gateway's operator allows http (merchants.allow_http).",
    "credentials": "The endpoint must not hold a user name or password; sign requests instead.",
    "malformed": "The endpoint is not a plain absolute URL.",
    "host": "The endpoint's host must be an ASCII name, a dotted IPv4 address or a bracketed IPv6 address.",
    "address": "The endpoint's address is not one that the gateway may call: neither public nor opened by the "
    "gateway's operator (merchants.allow_addresses).",
    "unresolved": "The endpoint's host name could not be resolved.",
}
"""The only texts a refusal has. None holds any part of the URL or says what, if anything, was found there."""


class AddressRefused(ValueError):
    """The gateway will not call this endpoint. `code` is a key of REFUSALS, the message its text."""

    def __init__(self, code: str) -> None:
        super().__init__(REFUSALS[code])
        self.code = code


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL that passed `check_url`. `only_allowed`: plain http outside development, so that every address
    behind it must be in the allow-list. `address` is set if the host is a literal, already judged."""

    url: str = field(repr=False)
    scheme: str
    host: str
    port: int
    only_allowed: bool
    address: Address | None = None


def judge(ip: Address, allow: Sequence[Network] = (), *, only_allowed: bool = False) -> None:
    """Raise AddressRefused("address") unless `ip` is public or lies in `allow`.

    IPv6 forms that embed an IPv4 address are judged as that address, so that allowing or refusing an IPv4
    network holds for each of its disguises. `only_allowed` refuses public addresses too.
    """
    for place in _reached(ip):
        if any(place.version == net.version and place in net for net in allow):
            continue
        if only_allowed or _is_special(place):
            raise AddressRefused("address")


def parse_address(host: str) -> Address | None:
    """A canonical IP literal (IPv6 without brackets) as an address; None for anything else, zones included."""
    try:
        found = ip_address(host)
    except ValueError:
        return None
    return None if "%" in host else found


def known_address(host: str) -> Address | None:
    """The address that a well-known name means wherever it is asked (RFC 6761 for localhost), or None."""
    name = host.lower().rstrip(".")
    return STANDS_FOR["localhost"] if name.endswith(".localhost") else STANDS_FOR.get(name)


def check_url(url: str, *, allow_http: bool = False, allow: Sequence[Network] = ()) -> Endpoint:
    """Judge an endpoint URL as far as its text goes; a name's addresses are still to be judged.

    Raises AddressRefused: not https (http with `allow_http`, or to the allow-list only), credentials in the
    URL, white space, backslash, control or non-ASCII characters, a fragment, port 0, a host in decimal,
    octal, hexadecimal or short form, or a literal or well-known name that `judge` refuses.
    """
    parts, port = _split(url)
    host = parts.hostname or ""
    bracketed = "[" in parts.netloc
    address = parse_address(host)
    if bracketed != isinstance(address, IPv6Address):
        raise AddressRefused("host")
    name = host.removesuffix(".")
    if address is None and not _is_name(name):
        raise AddressRefused("host")
    only_allowed = parts.scheme == "http" and not allow_http
    known = address or known_address(host)
    if only_allowed and not allow:
        raise AddressRefused("scheme")
    if known is not None:
        judge(known, allow, only_allowed=only_allowed)
    return Endpoint(url, parts.scheme, host, port, only_allowed, address)


def redact_url(url: str) -> str:
    """The URL for a listing or a log: scheme, host, port and path; credentials and query hidden (9.3)."""
    try:
        parts, _ = _split(url, strict=False)
    except AddressRefused:
        return "(hidden)"
    location = parts.netloc.rpartition("@")[2]
    hidden = "?(hidden)" if parts.query else ""
    return f"{parts.scheme}://{location}{parts.path}{hidden}"


def _reached(ip: Address) -> Iterator[Address]:
    """The addresses that dialling `ip` may reach."""
    if isinstance(ip, IPv4Address):
        yield ip
        return
    bits = int(ip)
    if any(ip in net for net in (_MAPPED, _TRANSLATED, _NAT64)):
        yield IPv4Address(bits & 0xFFFF_FFFF)
        return
    yield ip
    if ip in _6TO4:
        yield IPv4Address(bits >> 80 & 0xFFFF_FFFF)
    if bits >> 32 & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(bits & 0xFFFF_FFFF)


def _is_special(ip: Address) -> bool:
    if isinstance(ip, IPv4Address):
        return any(ip in net for net in REFUSED_V4)
    return ip.scope_id is not None or ip not in GLOBAL_V6 or any(ip in net for net in REFUSED_V6)


_FORBIDDEN = re.compile(r"[^\x21-\x7e]|[\\<>\"{}|^`]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def _split(url: str, *, strict: bool = True) -> tuple[SplitResult, int]:
    if _FORBIDDEN.search(url) or (strict and "#" in url):
        raise AddressRefused("malformed")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise AddressRefused("malformed") from None
    if parts.scheme not in ("http", "https"):
        raise AddressRefused("scheme")
    if port == 0 or not parts.hostname or parts.netloc.endswith(":"):
        raise AddressRefused("malformed")
    if strict and "@" in parts.netloc:
        raise AddressRefused("credentials")
    return parts, port or (443 if parts.scheme == "https" else 80)


def _is_name(host: str) -> bool:
    """Host names whose last label is a number are addresses in disguise to some resolver or other."""
    labels = host.split(".")
    return len(host) <= 253 and all(_LABEL.fullmatch(label) for label in labels) and not _NUMBER.fullmatch(labels[-1])
