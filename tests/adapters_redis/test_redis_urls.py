"""Ledger URLs: what is accepted, what is refused, and that no credential is ever shown."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme
from fakeredis import FakeServer

from gateway.adapters.redis_clients import close_client, connector, open_client
from gateway.adapters.redis_commands import Commands, LedgerUnreachable
from gateway.adapters.redis_urls import LedgerUrl, LedgerUrlError, parse_ledger_url

ACCEPTED = [
    ("redis://localhost", LedgerUrl("tcp", host="localhost"), "redis://localhost:6379/0"),
    ("redis://h:7000/3", LedgerUrl("tcp", host="h", port=7000, db=3), "redis://h:7000/3"),
    ("redis://h?db=2", LedgerUrl("tcp", host="h", db=2), "redis://h:6379/2"),
    ("REDIS://h/", LedgerUrl("tcp", host="h"), "redis://h:6379/0"),
    ("redis://[::1]:6380", LedgerUrl("tcp", host="::1", port=6380), "redis://[::1]:6380/0"),
    (
        "redis://me:p%40ss%2Fword@h",
        LedgerUrl("tcp", host="h", username="me", password="p@ss/word"),
        "redis://***@h:6379/0",
    ),
    ("redis://:hunter2@h", LedgerUrl("tcp", host="h", password="hunter2"), "redis://***@h:6379/0"),
    (
        "rediss://h?ssl_ca_certs=/etc/ca.pem&ssl_check_hostname=false",
        LedgerUrl(
            "tcp", host="h", tls=True, tls_options=(("ssl_ca_certs", "/etc/ca.pem"), ("ssl_check_hostname", False))
        ),
        "rediss://h:6379/0",
    ),
    ("unix:///run/r.sock", LedgerUrl("unix", path=Path("/run/r.sock")), "unix:///run/r.sock?db=0"),
    (
        "unix://me:secret@/run/r.sock?db=1",
        LedgerUrl("unix", path=Path("/run/r.sock"), db=1, username="me", password="secret"),
        "unix://***@/run/r.sock?db=1",
    ),
    ("local:./data", LedgerUrl("local", path=Path("data")), "local:data"),
    ("local:/var/lib/my shop", LedgerUrl("local", path=Path("/var/lib/my shop")), "local:/var/lib/my shop"),
    ("local:///var/lib/x", LedgerUrl("local", path=Path("/var/lib/x")), "local:/var/lib/x"),
    (" memory ", LedgerUrl("memory"), "memory"),
    (
        "redis+sentinel://a,b:26380,[::1],[::2]:7/shop-1",
        LedgerUrl("sentinel", nodes=(("a", 26379), ("b", 26380), ("::1", 26379), ("::2", 7)), service="shop-1"),
        "redis+sentinel://a:26379,b:26380,[::1]:26379,[::2]:7/shop-1/0",
    ),
    (
        "rediss+sentinel://me:p%40ss@a/shop/2?ssl_ca_certs=/ca.pem&sentinel_username=ops&sentinel_password=se%26cret",
        LedgerUrl(
            "sentinel",
            db=2,
            tls=True,
            username="me",
            password="p@ss",
            tls_options=(("ssl_ca_certs", "/ca.pem"),),
            nodes=(("a", 26379),),
            service="shop",
            sentinel_username="ops",
            sentinel_password="se&cret",
        ),
        "rediss+sentinel://***@a:26379/shop/2",
    ),
    (
        "REDIS+CLUSTER://a,b:7000",
        LedgerUrl("cluster", nodes=(("a", 6379), ("b", 7000))),
        "redis+cluster://a:6379,b:7000",
    ),
    ("redis+cluster://a/0", LedgerUrl("cluster", nodes=(("a", 6379),)), "redis+cluster://a:6379"),
    (
        "rediss+cluster://:hun,ter2@a,[::1]?ssl_check_hostname=false",
        LedgerUrl(
            "cluster",
            tls=True,
            password="hun,ter2",
            tls_options=(("ssl_check_hostname", False),),
            nodes=(("a", 6379), ("::1", 6379)),
        ),
        "rediss+cluster://***@a:6379,[::1]:6379",
    ),
]

REFUSED = [
    ("", "empty"),
    ("localhost", "no scheme"),
    ("http://h", "unknown scheme"),
    ("memory:", "unknown scheme"),
    ("redis:h", "no //"),
    ("redis://", "no host"),
    ("redis://:secret@", "no host"),
    ("redis://h:seventy", "port"),
    ("redis://h:0", "port"),
    ("redis://h:70000", "port"),
    ("redis://h/first", "database"),
    ("redis://h/-1", "database"),
    ("redis://h/1/2", "database"),
    ("redis://h/1?db=2", "twice"),
    ("redis://h?socket_timeout=60", "options"),
    ("redis://h?retry_on_timeout=true", "options"),
    ("redis://h?ssl_ca_certs=x", "options"),
    ("redis://h?db=1&db=2", "options"),
    ("redis://h?db", "options"),
    ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs"),
    ("rediss://h?ssl_check_hostname=si", "ssl_check_hostname"),
    ("redis://me:se/cret@h", "percent-encoded"),
    ("redis://me:se#cret@h", "percent-encoded"),
    ("redis://[::1", "cannot be read"),
    ("unix://run/r.sock", "absolute path"),
    ("unix://", "absolute path"),
    ("local:", "no folder"),
    ("local://data", "host where a folder"),
    ("redis+sentinel:a/shop", "no //"),
    ("redis+sentinel://a", "service"),
    ("redis+sentinel://a/", "service"),
    ("redis+sentinel://a/my shop", "service"),
    ("redis+sentinel:///shop", "no host"),
    ("redis+sentinel://a,,b/shop", "no host"),
    ("redis+sentinel://a:0,b/shop", "port"),
    ("redis+sentinel://a/shop/first", "database"),
    ("redis+sentinel://a/shop/1?db=2", "twice"),
    ("redis+sentinel://a/shop?sentinel_password=x&sentinel_password=y", "twice"),
    ("redis+sentinel://a/shop?ssl_ca_certs=x", "options"),
    ("redis+sentinel://a/shop?service=x", "options"),
    ("redis+cluster://", "no host"),
    ("redis+cluster://a,", "no host"),
    ("redis+cluster://a:70000", "port"),
    ("redis+cluster://a/1", "none but 0"),
    ("redis+cluster://a?db=1", "none but 0"),
    ("redis+cluster://a/shop", "database"),
    ("redis+cluster://a?sentinel_password=x", "options"),
    ("redis+unix://a", "unknown scheme"),
]


@pytest.mark.parametrize(("text", "url", "safe"), ACCEPTED, ids=[row[0] for row in ACCEPTED])
def test_a_ledger_url_is_read_and_shown_without_credentials(text: str, url: LedgerUrl, safe: str) -> None:
    parsed = parse_ledger_url(text)
    assert parsed == url
    assert parsed.safe == safe
    for secret in (parsed.password, parsed.sentinel_password, parsed.sentinel_username):
        assert secret is None or secret not in repr(parsed) + str(parsed)


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[row[0] or "nothing" for row in REFUSED])
def test_a_wrong_ledger_url_is_refused_with_a_reason_and_examples(text: str, why: str) -> None:
    with pytest.raises(LedgerUrlError, match=why) as caught:
        parse_ledger_url(text)
    assert "local:./data" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("redis://me:se/cret@h", "redis://:cret", "redis://h/cret", "redis://h?cret=1"),
        *("redis+sentinel://me:7/cret@h/shop", "redis+sentinel://h/shop?sentinel_password=se#cret"),
        *(
            "redis+sentinel://me:cret@h",
            "redis+sentinel://h/shop?sentinel_password=a@cret",
            "redis+sentinel://h/shop/cret",
        ),
        *("redis+cluster://me:7/cret@h", "redis+cluster://a:cret@h,b:cret@h", "redis+cluster://h/cret"),
    ],
)
def test_p9_3_an_error_never_repeats_what_was_typed(text: str) -> None:
    """9.3: a credential in the wrong place of a URL must not reach a log by way of the error."""
    with pytest.raises(LedgerUrlError) as caught:
        parse_ledger_url(text)
    assert "cret" not in repr(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "text",
    [
        "redis://me:hunter2@h",
        "rediss://me:hunter2@h",
        "unix://me:hunter2@/s",
        "memory",
        "rediss+sentinel://me:hunter2@h/shop?sentinel_password=hunter2",
    ],
)
async def test_p5_2_a_client_never_retries_and_never_shows_its_password(text: str) -> None:
    """5.2, 9.3: redis-py's own retries are off at the client and at the connection."""
    client = open_client(parse_ledger_url(text))
    at_client = client.get_retry()
    assert at_client is None or at_client.get_retries() == 0
    assert client.connection_pool.make_connection().retry.get_retries() == 0
    assert "hunter2" not in repr(client)
    await close_client(client)


async def test_each_memory_ledger_is_its_own_unless_shared_on_purpose() -> None:
    url, shared = LedgerUrl("memory"), FakeServer()
    clients = [open_client(url), open_client(url), open_client(url, server=shared), open_client(url, server=shared)]
    await clients[0].set("k", "first")
    await clients[2].set("k", "shared")
    assert [await client.get("k") for client in clients] == [b"first", None, b"shared", b"shared"]
    for client in clients:
        await client.aclose()


async def test_a_lost_memory_ledger_is_unreachable() -> None:
    server = FakeServer()
    client = open_client(LedgerUrl("memory"), server=server)
    front = Commands(client)
    assert await front.do("SET", "k", "v") == b"OK"
    server.connected = False
    with pytest.raises(LedgerUnreachable):
        await front.do("GET", "k")
    server.connected = True
    assert await front.do("GET", "k") == b"v"
    await front.close()
    await client.aclose()


def test_the_servers_of_a_cluster_are_reached_with_what_its_url_says() -> None:
    url = parse_ledger_url("rediss+cluster://me:hunter2@a?ssl_check_hostname=false")
    made = connector(url)("10.0.0.7", 7000)
    assert (made.host, made.port, made.username, made.password) == ("10.0.0.7", 7000, "me", "hunter2")
    assert made.retry.get_retries() == 0
    assert made.ssl_context.check_hostname is False
    with pytest.raises(ValueError, match="connector"):
        open_client(url)


def test_a_local_ledger_has_to_be_started_first() -> None:
    with pytest.raises(ValueError, match="started"):
        open_client(parse_ledger_url("local:./data"))


async def test_a_tls_ledger_is_reached_only_with_a_certificate_that_it_trusts(tmp_path: Path) -> None:
    """rediss:// checks the chain and the name; an unknown authority is an unreachable ledger."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            writer.write(b"+PONG\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "localhost", 0, family=2, ssl=context)
    port = server.sockets[0].getsockname()[1]
    for query, trusted in ((f"?ssl_ca_certs={tmp_path}/ca.pem", True), ("", False)):
        client = open_client(parse_ledger_url(f"rediss://localhost:{port}{query}"))
        front = Commands(client)
        if trusted:
            assert await front.do("PING") == b"PONG"
        else:
            with pytest.raises(LedgerUnreachable, match=r"(?i)certificate"):
                await front.do("PING")
        await front.close()
        await client.aclose()
    server.close()
    await server.wait_closed()
