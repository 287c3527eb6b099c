"""Which server of a Redis Cluster has which slots, as its servers say: CLUSTER SLOTS, MOVED and ASK read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from redis.crc import key_slot

from gateway.adapters.redis_errors import ErrorReply

__all__ = ["Redirection", "address", "key_slot", "named", "owners_said", "redirection"]

_UNNAMED: Final = "?"
"""What a server calls one that is to be named by its host name and has none."""


class Redirection(NamedTuple):
    """``MOVED 3999 10.0.0.7:6381`` or ``ASK ..``: its code word and the server it names."""

    code: str
    name: str


def named(host: str, port: int) -> str:
    """One name for a server, as redirections write it: ``host:port``, without brackets."""
    return f"{host}:{port}"


def address(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    return host, int(port)


def redirection(error: ErrorReply, told: str) -> Redirection | None:
    """Where a refusal by the server `told` points; None where it points nowhere.

    A server that does not know by which address it is reached leaves the host out: it is the one that was reached.
    """
    words = str(error).split()
    if len(words) != 3 or words[0] not in ("ASK", "MOVED"):
        return None
    host, _, port = words[2].rpartition(":")
    if host == _UNNAMED or not (port.isascii() and port.isdigit()):
        return None
    return Redirection(words[0], named(host or address(told)[0], int(port)))


def owners_said(reply: Any, told: str) -> dict[int, str]:
    """CLUSTER SLOTS as it was answered by the server `told`: slot to the name of its primary. Raises ValueError."""
    owners: dict[int, str] = {}
    try:
        for first, last, primary, *_ in reply:
            host = _host(primary, told)
            if host:
                owners.update(dict.fromkeys(range(first, last + 1), named(host, primary[1])))
    except (TypeError, ValueError, IndexError, AttributeError) as wrong:
        raise ValueError("what CLUSTER SLOTS was answered with cannot be read") from wrong
    return owners


def _host(primary: Sequence[Any], told: str) -> str:
    """The address to reach a primary by; behind its id, Redis 7 says others that it has."""
    host = primary[0].decode() if primary[0] else address(told)[0]
    if host != _UNNAMED:
        return str(host)
    more = primary[3] if len(primary) > 3 else []
    others = dict(zip(more[::2], more[1::2], strict=False))
    return str(others.get(b"ip", b"").decode())
