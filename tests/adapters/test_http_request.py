"""The bytes of a request, and what its URL says (promises 6, 9.2, 9.4)."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.http_request import ONE_PIECE_BYTES, OWN_FIELDS, RequestRefused, request_bytes
from gateway.adapters.http_target import read_target
from gateway.core.addresses import AddressRefused

START = "POST /x HTTP/1.1\r\nHost: shop.example\r\nContent-Length: "


def lines_of(fields, body=b"{}"):
    head, rest = request_bytes(START, fields, body)
    text, _, sent = (head + rest).partition(b"\r\n\r\n")
    assert sent == body
    return text.decode().split("\r\n")


def test_p6_fields_leave_in_order_behind_the_defaults_that_nobody_overrides():
    """6: one of each name, the caller's before the client's own."""
    lines = lines_of([("content-type", "application/json"), ("USER-AGENT", "me"), ("webhook-id", "msg_1 100%")])
    assert lines == [
        *("POST /x HTTP/1.1", "Host: shop.example", "Content-Length: 2"),
        *("Accept: application/json, text/plain;q=0.5", "Accept-Encoding: identity"),
        *("content-type: application/json", "USER-AGENT: me", "webhook-id: msg_1 100%"),
    ]
    assert lines_of([])[-2:] == ["Content-Type: application/json", "User-Agent: oncegate"]


@pytest.mark.parametrize("size", [0, 1, ONE_PIECE_BYTES, ONE_PIECE_BYTES + 1])
def test_p6_a_body_leaves_as_it_is_and_its_length_is_told(size):
    """6: large ones are not copied behind the head."""
    body = b"x" * size
    assert f"Content-Length: {size}" in lines_of([], body)
    assert (request_bytes(START, [], body)[1] is body) is (size > ONE_PIECE_BYTES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("X", f"a{bad}b") for bad in ("\r\n", "\r", "\n", "\0", "\r\nY: z", "\x1b", "\x7f", "\ud800")),
        *((bad, "a") for bad in ("", "X Y", "X:", "X\r\n", "X\n", "\0", "é", "X\t", "(X)")),
        *((own, "1") for own in sorted(OWN_FIELDS)),
        ("Content-length", "5"),
    ],
)
def test_p9_4_a_field_that_would_make_another_request_is_refused(name, value):
    """9.4: also as one among good ones, and its text is not in the error."""
    with pytest.raises(RequestRefused) as refused:
        request_bytes(START, [("A", "b"), (name, value), ("C", "d")], b"{}")
    assert value not in str(refused.value) or value == "a"


@pytest.mark.parametrize("value", ["a\tb", "", " ", "José", "x" * 10_000, "\u00a0", "%s %d %(x)s", "{}"])
def test_p9_4_values_that_harm_nothing_pass(value):
    """9.4: tabs, text beyond ASCII in UTF-8, and what looks like a template."""
    assert f"X%: {value}" in lines_of([("X%", value)])


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=12)), max_size=4))
def test_p9_4_no_fields_make_more_lines_than_there_are_fields(fields):
    """9.4: whatever the text, it is refused or each field is one line."""
    try:
        head, _ = request_bytes(START, fields, b"")
    except RequestRefused:
        return
    assert head.count(b"\r\n\r\n") == 1
    assert head.count(b"\n") == head.count(b"\r") == head.count(b"\r\n")
    given_names = [name.lower() for name, _ in fields]
    defaults = {"accept", "accept-encoding", "content-type", "user-agent"} - set(given_names)
    assert head.count(b"\r\n") == 3 + len(defaults) + len(fields) + 1


@pytest.mark.parametrize(
    ("url", "host", "port", "start"),
    [
        ("https://shop.example", "shop.example", 443, "/|shop.example"),
        ("https://shop.example:443/a", "shop.example", 443, "/a|shop.example"),
        ("https://shop.example:80/a", "shop.example", 80, "/a|shop.example:80"),
        ("https://Shop.Example.:8443?x=1", "shop.example", 8443, "/?x=1|shop.example:8443"),
        ("https://xn--shp-sna.example/a/../%7e%2F?a=%20b&a", "xn--shp-sna.example", 443, None),
        ("https://8.8.8.8/a?", "8.8.8.8", 443, "/a|8.8.8.8"),
        ("https://[2606:4700::1111]/", "2606:4700::1111", 443, "/|[2606:4700::1111]"),
        ("https://[2606:4700::1111]:8443/", "2606:4700::1111", 8443, "/|[2606:4700::1111]:8443"),
    ],
)
def test_p9_2_the_url_gives_host_and_path_as_registered(url, host, port, start):
    """9.2: the right Host, brackets and port included; the path is not rewritten."""
    origin, begun = read_target(url)
    path, _, name = (start or f"/a/../%7e%2F?a=%20b&a|{host}").partition("|")
    assert (origin.secure, origin.host, origin.port) == (True, host, port)
    assert begun == f"POST {path} HTTP/1.1\r\nHost: {name}\r\nContent-Length: "
    assert (origin.address is None) is host.endswith("example")


@pytest.mark.parametrize(
    "url",
    [
        *("https://u:p@shop.example/", "https://u@shop.example/", "http://shop.example/", "https://127.0.0.1/"),
        *("https://shöp.example/", "https://shop.example/\r\nX: y", "https://shop.example/ x", "ftp://shop.example/"),
        *("https://shop.example/#x", "https://2130706433/", "https://shop.example:0/", ""),
    ],
)
def test_p9_2_what_may_not_be_registered_is_not_called_either(url):
    """9.2, 9.3: credentials, plain http, inside addresses, and what could end the request line."""
    with pytest.raises(AddressRefused):
        read_target(url)


def test_p9_2_plain_http_is_marked_as_for_the_allow_list_only():
    """9.2: outside development."""
    allow = [ip_network("10.0.0.0/8")]
    assert read_target("http://10.0.0.1:81/", allow=allow).origin == (
        *(False, "10.0.0.1", 81, True),
        ip_address("10.0.0.1"),
    )
    assert read_target("http://shop.example/", allow_http=True).origin.only_allowed is False
