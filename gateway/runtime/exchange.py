"""One request to the gateway and what was seen of its answer: no second try, no redirect, no proxy.

(aiohttp itself sends a GET once more on a connection that broke; never a POST, and GETs here only read.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

MAX_ANSWER_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Seen:
    """A whole answer. `text` is None where the bytes are no UTF-8."""

    status: int
    retry_after: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Unseen:
    """No whole answer. `reason` as in `NoAnswer`; `detail` names the kind of fault and nothing else."""

    reason: str
    detail: str


def new_session() -> aiohttp.ClientSession:
    """A session for the gateway: no cookies, no proxy variables, idle connections dropped before servers
    drop them."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(keepalive_timeout=4.0),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
    )


async def exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout_s: float,
) -> Seen | Unseen:
    """Send once. `timeout_s` bounds the whole exchange, connecting included.

    Library errors become `Unseen` here, without being chained: some of them carry the request's headers, and
    with them the key (9.3).
    """
    try:
        async with session.request(
            method,
            url,
            data=body,
            headers={**headers, "Accept": "application/json", "Accept-Encoding": "identity"},
            allow_redirects=False,  # a redirect would carry the key to whoever was named
            raise_for_status=False,
            timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(timeout_s, 10.0)),
        ) as response:
            taken = bytearray()
            async for chunk in response.content.iter_any():
                taken += chunk
                if len(taken) > MAX_ANSWER_BYTES:
                    return Unseen("unreadable", "answer too large")
            return Seen(response.status, response.headers.get("Retry-After"), _utf8(bytes(taken)))
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as fault:
        return Unseen("not_connected", type(fault).__name__)
    except TimeoutError:
        return Unseen("timed_out", f"no answer within {timeout_s:g} s")
    except (aiohttp.ClientError, OSError) as fault:
        return Unseen("lost", type(fault).__name__)


def _utf8(taken: bytes) -> str | None:
    try:
        return taken.decode("utf-8")
    except UnicodeDecodeError:
        return None
