"""Replies, from bytes to what was seen of them, however the bytes are cut (promises 5, 9.4)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.adapters.http_reply import EXCERPT_BYTES, HttpLimits, ReplyReader
from gateway.core.outcome import Reason, Seen, SeenKind

LIMITS = HttpLimits(reply_bytes=20_000, line_bytes=100, field_bytes=200, fields=10, head_bytes=1_000)


def read(data, cuts=(), *, end=False):
    """What is seen of `data`, cut at these places, and whether its connection may serve again."""
    reader = ReplyReader(LIMITS)
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for a, b in itertools.pairwise(places):
        if reader.seen is None and a < b:
            reader.feed(data[a:b])
    if end and reader.seen is None:
        reader.end()
    return reader.seen, reader.reusable


def reply(body=b"", **more):
    return Seen(SeenKind.REPLY, Reason.REPLIED, True, **{"status": 200, "body": body, **more})


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BIG = b"x" * 20_001

WHOLE = {
    "length": (OK + b"Content-Length: 2\r\nContent-Type: text/plain ;charset=X\r\n\r\nhi", reply(b"hi", content_type="text/plain", charset="x"), True),
    "no_phrase": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi", reply(b"hi"), True),
    "lone_lf": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", reply(b"hi"), True),
    "leading_blank_line": (b"\r\n" + OK + b"Content-Length: 2\r\n\r\nhi", reply(b"hi"), True),
    "empty": (OK + b"content-length: 0\r\n\r\n", reply(), True),
    "204": (b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", reply(status=204), True),
    "304": (b"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n", reply(status=304), True),
    "chunked": (CHUNKED + b"2\r\nhi\r\n1;a=b\r\n!\r\n0\r\n\r\n", reply(b"hi!"), True),
    "blanks_behind_size": (CHUNKED + b"2  \r\nhi\r\n0\r\n\r\n", reply(b"hi"), True),
    "trailers_say_nothing": (CHUNKED + b"2\r\nhi\r\n0\r\nContent-Type: text/html\r\nRetry-After: 1\r\n\r\n", reply(b"hi"), True),
    "close": (OK + b"Content-Length: 2\r\nConnection: close\r\n\r\nhi", reply(b"hi"), False),
    "http_1_0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", reply(b"hi"), False),
    "http_1_0_kept": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi", reply(b"hi"), True),
    "continue": (b"HTTP/1.1 100 Continue\r\nRetry-After: 9\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nhi", reply(b"hi"), True),
    "interim": (b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 102 P\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nhi", reply(b"hi"), True),
    "fields": (
        OK + b"Set-Cookie: a\r\nSet-Cookie: b\r\nRetry-After: 1\r\nretry-after:\r\nContent-Length: 0\r\n\r\n",
        reply(retry_after=("1", "")),
        True,
    ),
    "codings": (
        OK + b"Content-Encoding: gzip\r\nContent-Encoding: br\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        reply(content_encoding="gzip, br, x, chunked"),
        True,
    ),
    "no_upgrade": (OK + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nhi", reply(b"hi"), True),
    "two_types": (OK + b"Content-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 0\r\n\r\n", reply(content_type="a/b"), True),
}  # fmt: skip
"""Bytes, what is seen, whether the connection may serve again."""

UNTIL_CLOSE = {
    "body": (OK + b"Content-Type: text/plain\r\n\r\nhi", reply(b"hi", content_type="text/plain")),
    "none": (OK + b"\r\n", reply()),
    "http_1_0": (b"HTTP/1.0 200 OK\r\n\r\nhi", reply(b"hi")),
    "coded": (OK + b"Transfer-Encoding: gzip\r\n\r\nhi", reply(b"hi", content_encoding="gzip")),
}


def broken(reason, status=None):
    return Seen(SeenKind.BROKEN, reason, True, status)


NOT_HTTP, LOST, CUT = Reason.REPLY_NOT_HTTP, Reason.CONNECTION_LOST, Reason.REPLY_TRUNCATED
BROKEN = {
    "folded": (OK + b"A: b\r\n c\r\nContent-Length: 0\r\n\r\n", broken(NOT_HTTP)),
    "equal_lengths": (OK + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n", broken(NOT_HTTP)),
    "length_list": (OK + b"Content-Length: 0, 0\r\n\r\n", broken(NOT_HTTP)),
    "length_and_chunked": (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", broken(NOT_HTTP)),
    "chunked_and_length": (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", broken(NOT_HTTP)),
    "huge_length": (OK + b"Content-Length: 99999999999999999999999\r\n\r\n", broken(NOT_HTTP)),
    "blank_before_colon": (OK + b"Content-Length : 0\r\n\r\n", broken(NOT_HTTP)),
    "nul": (OK + b"A: b\0\r\nContent-Length: 0\r\n\r\n", broken(NOT_HTTP)),
    "lone_cr": (OK + b"A: b\rc\r\nContent-Length: 0\r\n\r\n", broken(NOT_HTTP)),
    "101": (b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", broken(NOT_HTTP)),
    "101_plain": (b"HTTP/1.1 101 S\r\n\r\n" + OK, broken(NOT_HTTP)),
    "000": (b"HTTP/1.1 000 S\r\n\r\n", broken(NOT_HTTP)),
    "099": (b"HTTP/1.1 099 S\r\n\r\n", broken(NOT_HTTP)),
    "chunk_size": (CHUNKED + b"zz\r\n", broken(NOT_HTTP, 200)),
    "chunk_overrun": (CHUNKED + b"1\r\nhi\r\n0\r\n\r\n", broken(NOT_HTTP, 200)),
    "phrase": (b"HTTP/1.1 200 " + b"x" * 101 + b"\r\n", broken(NOT_HTTP)),
    "field": (OK + b"A: " + b"x" * 200 + b"\r\n\r\n", broken(NOT_HTTP)),
    "fields": (OK + b"A: b\r\n" * 11 + b"\r\n", broken(NOT_HTTP)),
    "head": (OK + (b"A: " + b"x" * 190 + b"\r\n") * 6 + b"\r\n", broken(NOT_HTTP)),
    "trailers": (CHUNKED + b"1\r\n!\r\n0\r\n" + b"A: b\r\n" * 11 + b"\r\n", broken(NOT_HTTP, 200)),
    "nothing": (b"", broken(LOST)),
    "line_cut": (b"HTTP/1.1 2", broken(LOST)),
    "head_cut": (OK + b"Content-Length: 2\r\n", broken(LOST)),
    "interim_only": (b"HTTP/1.1 100 Continue\r\n\r\n", broken(LOST)),
    "short": (OK + b"Content-Length: 3\r\n\r\nhi", broken(CUT, 200)),
    "chunks_cut": (CHUNKED + b"2\r\nhi\r\n", broken(CUT, 200)),
    "chunks_unended": (CHUNKED + b"2\r\nhi\r\n0\r\n", broken(CUT, 200)),
    "trailers_cut": (CHUNKED + b"2\r\nhi\r\n0\r\nA: b\r\n", broken(CUT, 200)),
    "odd_chunked_cut": (OK + b"Transfer-Encoding: gzip, Chunked\r\n\r\n2\r\nhi\r\n", broken(CUT, 200)),
}


@pytest.mark.parametrize("name", WHOLE)
@given(cuts=st.lists(st.integers(1, 300), max_size=8))
@example(cuts=range(1, 300))
def test_p5_a_whole_reply_is_the_same_however_it_is_cut(name, cuts):
    """5: nothing depends on which bytes came together, not even whether the connection is kept."""
    data, seen, reusable = WHOLE[name]
    assert read(data, cuts) == (seen, reusable)


@pytest.mark.parametrize("name", WHOLE)
def test_p5_no_beginning_of_a_reply_that_states_its_length_is_a_reply(name):
    """5: cut short anywhere it is a broken exchange, so an unknown outcome."""
    data, seen, _ = WHOLE[name]
    for length in range(len(data)):
        found, reusable = read(data[:length], end=True)
        assert (found.kind, found.sent, reusable) == (SeenKind.BROKEN, True, False), data[:length]
        assert found.status in (None, seen.status)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("more", [b"H", OK, b"\0", b"{}"])
def test_p5_2_what_follows_a_reply_changes_nothing_of_it_and_ends_the_connection(name, more):
    """5.2: it is nobody's."""
    data, seen, _ = WHOLE[name]
    assert read(data + more) == (seen, False)


@pytest.mark.parametrize("name", UNTIL_CLOSE)
@given(cuts=st.lists(st.integers(1, 100), max_size=6))
@example(cuts=range(1, 100))
def test_p5_a_body_without_a_stated_length_ends_with_the_connection(name, cuts):
    """5: and with nothing else."""
    data, seen = UNTIL_CLOSE[name]
    assert read(data, cuts) == (None, False)
    assert read(data, cuts, end=True) == (seen, False)
    reader = ReplyReader(LIMITS)
    reader.feed(data)
    assert reader.lose() == broken(CUT, 200)


@pytest.mark.parametrize("name", BROKEN)
@given(cuts=st.lists(st.integers(1, 300), max_size=6))
@example(cuts=range(1, 300))
def test_p9_4_what_is_not_plain_bounded_http_is_broken(name, cuts):
    """9.4, 5: two lengths, folded lines, odd statuses, too much of anything, and every kind of cut."""
    data, seen = BROKEN[name]
    assert read(data, cuts, end=True) == (seen, False)


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (b"HTTP/1.1 200 ", b"x"),
        (OK + b"A", b"A"),
        (OK + b"A: ", b"x"),
        (CHUNKED + b"1;", b"x"),
        (CHUNKED + b"1\r\n!\r\n0\r\nA: ", b"x"),
        (b"", b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"),
        (b"", b"\r\n"),
    ],
    ids=["line", "name", "value", "extension", "trailer", "interim", "blank_lines"],
)
def test_p9_4_nothing_that_never_ends_is_read_for_ever(beginning, piece):
    """9.4: what the parser holds back, or passes over, is bounded too."""
    reader = ReplyReader(LIMITS)
    reader.feed(beginning) if beginning else None
    fed = 0
    while reader.seen is None:
        reader.feed(piece)
        fed += len(piece)
        assert fed < 2_000
    assert (reader.seen.kind, reader.seen.reason) == (SeenKind.BROKEN, NOT_HTTP)


@pytest.mark.parametrize("cut", [1, 7, 100, 19_000, 30_000])
@pytest.mark.parametrize(
    ("framed", "ends"),
    [
        (OK + b"Content-Length: 20001\r\n\r\n" + BIG, True),
        (OK + b"Content-Length: 90000\r\n\r\n" + BIG, False),
        (OK + b"\r\n" + BIG, False),
        (CHUNKED + b"4e21\r\n" + BIG + b"\r\n0\r\n\r\n", True),
        (CHUNKED + b"1\r\nx\r\n" * 20_001, False),
    ],
    ids=["length", "longer", "until_close", "chunked", "small_chunks"],
)
def test_p4_12_a_body_above_the_cap_is_known_as_such_at_once(cut, framed, ends):
    """4.12: whether or not it would have ended; the beginning is kept, and the connection is not."""
    seen, reusable = read(framed, range(cut, len(framed), cut))
    assert (seen.kind, seen.status, seen.too_large, reusable) == (SeenKind.REPLY, 200, True, False)
    assert seen.body == BIG[:EXCERPT_BYTES]


def test_p5_2_one_reader_reads_one_reply_after_another():
    """5.2: nothing of one clings to the next."""
    reader = ReplyReader(LIMITS)
    for name in [name for name in WHOLE if WHOLE[name][2]] * 2:
        data, seen, _ = WHOLE[name]
        reader.begin()
        reader.feed(data)
        assert (reader.seen, reader.reusable) == (seen, True)


TOKENS = [
    *(OK, b"HTTP/1.1 ", b"100 C\r\n", b"204 N\r\n", b"\r\n", b"\n", b"\r", b"0", b"5", b"-", b":", b" ", b"\0", b"x" * 90),
    *(b"Content-Length: ", b"Transfer-Encoding: ", b"chunked", b"gzip", b"Connection: close\r\n", b"Upgrade: x\r\n"),
    *(b"Connection: upgrade\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n", b"ffffffff\r\n", b"HTTP/1.1 101 S\r\n", b"\xff", b"{}"),
]  # fmt: skip


@given(
    st.lists(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=6)), max_size=24).map(b"".join),
    st.lists(st.integers(1, 400), max_size=6),
)
def test_p9_4_any_bytes_are_a_reply_or_a_broken_one(data, cuts):
    """9.4: the reader never raises, always has an answer at the end, and the same one however the bytes are cut."""
    at_once, cut = read(data, end=True)[0], read(data, cuts, end=True)[0]
    assert at_once.sent
    assert at_once.kind in (SeenKind.REPLY, SeenKind.BROKEN)
    assert at_once == cut
