"""The redis-py client for a ledger URL: it knows how to connect, and does nothing else by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.adapters.redis_sentinels import PrimaryConnection, SecuredPrimaryConnection, Sentinels
from gateway.adapters.redis_urls import LedgerUrl


def open_client(
    url: LedgerUrl,
    *,
    connect_timeout_s: float = 1.0,
    command_timeout_s: float = 2.0,
    server: Any = None,
) -> Redis:
    """A redis-py client that never retries by itself and never waits without a limit; the caller closes it.

    It connects when first used. ``memory`` is a fakeredis of its own, unless ``server`` (a
    fakeredis.FakeServer) is shared on purpose. A ``local`` ledger has to be started first:
    ``open_client(LedgerUrl.for_socket(await local_redis.start(url.path)))``.
    """
    options = {"db": url.db, "decode_responses": False, **_options(url, connect_timeout_s, command_timeout_s)}
    match url.kind:
        case "tcp":
            options.update(url.tls_options)
            return Redis(host=url.host, port=url.port, ssl=url.tls, **options)
        case "unix":
            return Redis(unix_socket_path=str(url.path), **options)
        case "memory":
            from fakeredis import FakeAsyncRedis, FakeServer

            fake: Redis = FakeAsyncRedis(server=server or FakeServer(), **options)
            return fake
        case "sentinel":
            # The pool asks the sentinels for the primary at each connect, so a new one is found by connecting anew.
            asked = {**options, "db": 0, "username": url.sentinel_username, "password": url.sentinel_password}
            secured: dict[str, Any] = {"ssl": url.tls, **dict(url.tls_options)}
            sentinels = Sentinels(list(url.nodes), sentinel_kwargs={**asked, **secured})  # type: ignore[no-untyped-call]
            client: Redis = sentinels.master_for(
                url.service,
                connection_class=SecuredPrimaryConnection if url.tls else PrimaryConnection,
                **{**dict(url.tls_options), **options},
            )
            return client
        case "cluster":
            raise ValueError("a cluster has many servers: connector")
        case "local":
            raise ValueError("a local ledger has to be started; open the client for its socket")


async def close_client(client: Redis) -> None:
    """Close it, and what asks sentinels on its behalf."""
    await client.aclose()
    sentinels = getattr(client.connection_pool, "sentinel_manager", None)
    if isinstance(sentinels, Sentinels):
        await sentinels.aclose()


def connector(
    url: LedgerUrl, *, connect_timeout_s: float = 1.0, command_timeout_s: float = 2.0
) -> Callable[[str, int], AbstractConnection]:
    """What makes unconnected connections to the servers of a cluster, all with the same user and certificates."""

    def connection(host: str, port: int) -> AbstractConnection:
        server = replace(url, kind="tcp", host=host, port=port, nodes=())
        client = open_client(server, connect_timeout_s=connect_timeout_s, command_timeout_s=command_timeout_s)
        made: AbstractConnection = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        return made

    return connection


def _options(url: LedgerUrl, connect_timeout_s: float, command_timeout_s: float) -> dict[str, Any]:
    return {
        "username": url.username,
        "password": url.password,
        "socket_connect_timeout": connect_timeout_s,
        "socket_timeout": command_timeout_s,
        # redis-py 8 would otherwise retry ten times, at the client and at the connection.
        "retry": Retry(NoBackoff(), 0),
        # RESP2: nothing arrives that was not asked for, and a reconnect has no HELLO to wait for.
        "protocol": 2,
        "driver_info": None,
    }
