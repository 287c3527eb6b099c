"""Which addresses may be dialled and which endpoints registered (promise 9.2)."""

from __future__ import annotations

import asyncio
import socket
import threading
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.addresses import SystemResolver, check_endpoint, judged_socket
from gateway.core.addresses import (
    LOOPBACK,
    REFUSALS,
    REFUSED_V4,
    AddressRefused,
    check_url,
    judge,
    parse_address,
    redact_url,
)

INSIDE_V4 = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254"),
    *("168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.192"),
    *("192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1"),
    *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
]
INSIDE_V6 = [
    *("::", "::1", "::2", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "fc00::1", "fd00::1", "fd00:ec2::254"),
    *("ff02::1", "2001:db8::1", "3fff::1", "2001::1", "2001:2::1", "2001:10::1", "100::1", "5f00::1", "4000::1"),
    *("::7f00:1", "::8.8.8.8", "64:ff9b:1::808:808", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
]
PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1"),
    *("169.253.0.1", "198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "2001:4860::8888"),
]


def disguises(v4):
    """Every IPv6 form that carries an IPv4 address."""
    bits = int(ip_address(v4))
    high, low = bits >> 16, bits & 0xFFFF
    return {
        "mapped": f"::ffff:{v4}",
        "translated": f"::ffff:0:{high:x}:{low:x}",
        "nat64": f"64:ff9b::{high:x}:{low:x}",
        "6to4": f"2002:{high:x}:{low:x}::1",
        "isatap": f"2606:4700::5efe:{high:x}:{low:x}",
        "isatap_universal": f"2606:4700::200:5efe:{high:x}:{low:x}",
    }


@pytest.mark.parametrize("text", [*INSIDE_V4, *INSIDE_V6])
def test_k6_01_p9_2_inside_addresses_are_refused(text):
    """K6-01, 9.2: loopback, private, link-local, shared, multicast, reserved, metadata, documentation."""
    with pytest.raises(AddressRefused) as refused:
        judge(ip_address(text))
    assert str(refused.value) == REFUSALS["address"]


@pytest.mark.parametrize("text", PUBLIC)
def test_p9_2_public_addresses_pass(text):
    """9.2: neighbours of the refused ranges included."""
    judge(ip_address(text))


@pytest.mark.parametrize("form", ["mapped", "translated", "nat64", "6to4", "isatap", "isatap_universal"])
@pytest.mark.parametrize("inside", INSIDE_V4)
def test_k6_01_p9_2_an_ipv4_address_inside_ipv6_is_judged_as_itself(form, inside):
    """K6-01, 9.2: unwrapped, and a public one inside passes."""
    with pytest.raises(AddressRefused):
        judge(ip_address(disguises(inside)[form]))
    judge(ip_address(disguises("8.8.8.8")[form]))


@given(st.sampled_from(REFUSED_V4).flatmap(lambda net: st.integers(int(net[0]), int(net[-1]))))
def test_p9_2_no_address_of_a_refused_network_passes_in_any_form(bits):
    """9.2: the whole of each network, in each disguise."""
    v4 = ip_address(bits)
    for text in (str(v4), *disguises(v4).values()):
        with pytest.raises(AddressRefused):
            judge(ip_address(text))


@pytest.mark.parametrize(
    ("text", "allow", "passes"),
    [
        ("127.0.0.1", LOOPBACK, True),
        ("::1", LOOPBACK, True),
        ("::ffff:127.0.0.1", LOOPBACK, True),
        ("10.0.0.1", LOOPBACK, False),
        ("fd00::1", [ip_network("fd00::/8")], True),
        ("10.1.2.3", [ip_network("10.1.2.3/32")], True),
        ("10.1.2.4", [ip_network("10.1.2.3/32")], False),
        ("2002:7f00:1::", [ip_network("2002::/16")], False),
        ("2002:7f00:1::", [ip_network("2002::/16"), *LOOPBACK], True),
        ("fe80::1%eth0", LOOPBACK, False),
    ],
)
def test_p9_2_an_allow_list_opens_its_networks_and_no_others(text, allow, passes):
    """9.2: for self-hosted use; allowing an outer form never allows what is embedded in it."""
    if passes:
        judge(ip_address(text), allow)
    else:
        with pytest.raises(AddressRefused):
            judge(ip_address(text), allow)


def test_p9_2_only_allowed_refuses_public_addresses():
    """9.2: how plain http is judged outside development."""
    with pytest.raises(AddressRefused):
        judge(ip_address("8.8.8.8"), LOOPBACK, only_allowed=True)
    judge(ip_address("127.0.0.1"), LOOPBACK, only_allowed=True)


@pytest.mark.parametrize(
    "host",
    [
        *("[::ffff:169.254.169.254]", "[::ffff:7f00:1]", "[::]", "0.0.0.0", "[64:ff9b::a9fe:a9fe]", "[fd00::1]"),
        *("2130706433", "0177.0.0.1", "0x7f000001", "0x7f.0.0.1", "127.1", "127.0.1", "017700000001", "0x", "1"),
        *("localhost", "localhost.", "LOCALHOST:80", "shop.localhost", "localhost.localdomain", "127.0.0.1."),
        *("metadata.google.internal", "METADATA.google.internal.", "metadata", "instance-data"),
        *("[::1%25lo]", "[127.0.0.1]", "::1", "[]", "", ":80", "a..b", ".", "-a.example", "a" * 64 + ".example"),
        *("①②⑦.⓪.⓪.①", "127。0。0。1", "shöp.example", "shop.example:0", "shop.example:", "shop.example:99999"),
        *("shop.example:80a", "shop example", "shop\texample", "shop.example\\@127.0.0.1", "a_b.1", "%6cocalhost"),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("allow_http", [True, False])
def test_k6_01_k6_05_hosts_that_are_inside_or_not_plain_are_refused(host, scheme, allow_http):
    """K6-01, K6-05, 9.2: decimal, octal, hex and short forms, trailing dots, upper case, look-alikes."""
    with pytest.raises(AddressRefused) as refused:
        check_url(f"{scheme}://{host}/", allow_http=allow_http)
    assert str(refused.value) in REFUSALS.values()


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://shop.example/", "scheme"),
        ("gopher://shop.example/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("ftp://shop.example/", "scheme"),
        ("//shop.example/", "scheme"),
        ("shop.example/tools", "scheme"),
        ("https:/shop.example/", "malformed"),
        ("https://u:pw@shop.example/", "credentials"),
        ("https://u@shop.example/", "credentials"),
        ("https://@shop.example/", "credentials"),
        ("https://shop.example/#part", "malformed"),
        ("https://shop.example/a b", "malformed"),
        ("https://shop.example/\r\nX: y", "malformed"),
        ("https://[::1/", "malformed"),
        ("", "scheme"),
        ("https://", "malformed"),
    ],
)
def test_k6_05_p9_2_other_urls_are_refused_with_the_reason(url, code):
    """K6-05, 9.2: other schemes, credentials, and what two parsers might read in two ways."""
    with pytest.raises(AddressRefused) as refused:
        check_url(url)
    assert (refused.value.code, str(refused.value)) == (code, REFUSALS[code])


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://shop.example/tools?key=1", "shop.example", 443),
        ("https://Shop.Example:8443", "shop.example", 8443),
        ("https://xn--shp-sna.example./", "xn--shp-sna.example.", 443),
        ("https://8.8.8.8/", "8.8.8.8", 443),
        ("https://[2606:4700::1111]/", "2606:4700::1111", 443),
        ("HTTPS://1.shop.example/%20", "1.shop.example", 443),
    ],
)
def test_p9_2_plain_https_urls_pass(url, host, port):
    """9.2: names, and public literals."""
    endpoint = check_url(url)
    assert (endpoint.host, endpoint.port, endpoint.only_allowed) == (host, port, False)
    assert url not in repr(endpoint)


def test_p9_2_http_is_for_development_or_the_allow_list():
    """9.2: with `allow_http` anywhere public; else only where every address is allowed."""
    assert check_url("http://shop.example/", allow_http=True).only_allowed is False
    assert check_url("http://localhost:9001/", allow=LOOPBACK).only_allowed is True
    assert check_url("http://[::1]:9001/", allow=LOOPBACK).only_allowed is True
    assert check_url("http://shop.example/", allow=LOOPBACK).only_allowed is True
    with pytest.raises(AddressRefused):
        check_url("http://8.8.8.8/", allow=LOOPBACK)


@given(st.text(max_size=40), st.booleans())
def test_k6_05_no_text_crashes_the_url_check(text, prefixed):
    """K6-05, 9.4: any text is either refused or an endpoint with a plain host."""
    url = "https://" + text if prefixed else text
    redact_url(url)
    try:
        host = check_url(url).host
    except AddressRefused:
        return
    assert host.isascii()
    assert host == host.lower()


def answer(*texts):
    async def resolve(host, port):
        return [ip_address(text) for text in texts]

    return resolve


async def unknown(host, port):
    raise socket.gaierror(-2, f"unknown {host}")


@pytest.mark.parametrize(
    ("resolve", "allow", "code"),
    [
        (answer("93.184.216.34", "2606:4700::1111"), (), None),
        (answer("127.0.0.1"), (), "address"),
        (answer("93.184.216.34", "10.0.0.1"), (), "address"),
        (answer("::ffff:169.254.169.254"), (), "address"),
        (answer("127.0.0.1"), LOOPBACK, None),
        (answer(), (), "unresolved"),
        (unknown, (), "unresolved"),
    ],
)
async def test_p9_2_registration_judges_every_answer_of_a_name(resolve, allow, code):
    """9.2: at registration as at every connect."""
    checking = check_endpoint("https://shop.example/", resolve=resolve, allow=allow)
    if code is None:
        assert (await checking).host == "shop.example"
    else:
        with pytest.raises(AddressRefused) as refused:
            await checking
        assert (refused.value.code, refused.value.__cause__) == (code, None)


async def test_p9_2_registering_plain_http_needs_every_answer_allowed():
    """9.2: one public answer is enough to refuse."""
    for answers, passes in ((("127.0.0.1",), True), (("127.0.0.1", "8.8.8.8"), False)):
        checking = check_endpoint("http://shop.example/", resolve=answer(*answers), allow=LOOPBACK)
        if passes:
            await checking
        else:
            with pytest.raises(AddressRefused):
                await checking


async def test_k6_01_the_refusal_is_the_same_whether_or_not_somebody_listens():
    """K6-01, 9.2: registration opens no connection and its text names no address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listening = listener.getsockname()[1]
        listener.setblocking(False)
        texts = set()
        for host in ("127.0.0.1", "10.255.255.1", "169.254.169.254", "[fd00::1]"):
            for port in (listening, 1):
                with pytest.raises(AddressRefused) as refused:
                    await check_endpoint(f"https://{host}:{port}/", resolve=answer())
                texts.add(str(refused.value))
        assert len(texts) == 1
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("inside", ["127.0.0.2", "::ffff:127.0.0.2", "10.0.0.1", "fd00::1"])
def test_p9_2_no_socket_is_made_for_an_address_that_is_refused(inside):
    """9.2: the last place before the connect, which literals reach without a look-up."""
    allow = [ip_network("127.0.0.1/32")]
    with judged_socket(ip_address("127.0.0.1"), allow) as sock:
        assert (sock.family, sock.gettimeout()) == (socket.AF_INET, 0.0)
    with pytest.raises(AddressRefused):
        judged_socket(ip_address(inside), allow)
    with pytest.raises(AddressRefused):
        judged_socket(ip_address("8.8.8.8"), allow, only_allowed=True)


@pytest.mark.parametrize("host", ["localhost", "a" * 300, "a..b", "xn--a", "nowhere.invalid"])
async def test_p9_2_the_system_resolver_gives_addresses_or_an_error_that_is_caught(host, monkeypatch):
    """9.2: whatever the operating system makes of a name, registration ends in a plain refusal. What it would ask the
    network for, it is taken not to find: some networks know every name."""
    if host in ("xn--a", "nowhere.invalid"):

        def unknown(*_, **__):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
    resolver = SystemResolver(threads=1)
    try:
        with pytest.raises(AddressRefused):
            await check_endpoint(f"https://{host}/", resolve=resolver)
    finally:
        resolver.close()


async def test_p9_2_the_system_resolver_reads_literals_as_addresses():
    """9.2: no network is needed to see that its answers are addresses."""
    resolver = SystemResolver(threads=1)
    try:
        assert await resolver("127.0.0.1", 80) == [ip_address("127.0.0.1")]
    finally:
        resolver.close()


async def test_k3_09_many_calls_for_one_slow_name_share_one_look_up(monkeypatch):
    """K3-09: a hanging look-up holds one thread, and callers who leave do not end it for the others."""
    gate, asked = threading.Event(), []

    def slow(host, port, **_):
        asked.append(host)
        gate.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", port))]

    resolver = SystemResolver(threads=1)
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    calls = [asyncio.ensure_future(resolver("shop.example", 443)) for _ in range(20)]
    await asyncio.sleep(0)
    calls[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    resolver.close()
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1:] == [[ip_address("93.184.216.34")]] * 19
    assert asked == ["shop.example"]


def test_p9_3_a_listed_url_shows_neither_credentials_nor_query():
    """K6-10, 9.3: for listings, and for URLs that registration refuses."""
    shown = redact_url("https://u:SECRET@shop.example:8443/x?key=SECRET1#SECRET")
    assert "SECRET" not in shown
    assert shown.startswith("https://shop.example:8443/x")
    assert redact_url("not a url SECRET") == "(hidden)"


def test_p9_2_only_canonical_literals_are_addresses():
    """9.2: zones and short forms are not."""
    assert parse_address("127.0.0.1") == ip_address("127.0.0.1")
    assert [parse_address(text) for text in ("127.1", "0177.0.0.1", "fe80::1%eth0", "localhost", "")] == [None] * 5
