"""What a merchant's answer means (promises 5, 5.1, 4.12, 9.4)."""

from __future__ import annotations

import gzip
import json
from email.utils import formatdate

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.core import reply_body
from gateway.core.outcome import TABLE, OutcomeKind, Reason, Seen, SeenKind, outcome_of
from gateway.core.reply_body import Body, content_type_of, excerpt_of, read_body

JSON = "application/json"
NOW = 1_800_000_000.0


def reply(status=200, body=b'{"ok":true}', kind=JSON, **more):
    media, charset = content_type_of(kind)
    return Seen(SeenKind.REPLY, Reason.REPLIED, True, status, media, charset, body=body, **more)


REFUSED = {400, 402, 404, 405, 406, 407, *range(410, 425), 426, 428, 431, 451}
NOT_READY = {401, 403, 425, 429}


@pytest.mark.parametrize("status", [*range(100, 600), 999])
def test_p5_every_status_has_the_outcome_of_the_table(status):
    """5: the table, restated here status by status."""
    expected = OutcomeKind.UNKNOWN
    if 200 <= status < 300:
        expected = OutcomeKind.SUCCEEDED
    elif status in REFUSED:
        expected = OutcomeKind.FAILED
    elif status in NOT_READY:
        expected = OutcomeKind.NOT_SENT
    outcome = outcome_of(reply(status))
    assert outcome.kind is expected
    assert outcome.code == ("merchant_not_ready" if status in NOT_READY else None)


def test_p5_no_status_stands_in_two_rows():
    """5: the rows' order could then decide, unseen."""
    statuses = [status for row in TABLE for status in row.statuses]
    assert len(statuses) == len(set(statuses))


@pytest.mark.parametrize("status", [503, 409, 500, 502, 504, 408, 200, 422, 429, 302])
def test_p5_1_a_declaring_merchants_503_and_409_release_and_nothing_else_changes(status):
    """5.1, K3-04: opt-in, per endpoint."""
    declared = outcome_of(reply(status), unavailable_means_not_executed=True)
    if status in (503, 409):
        assert (declared.kind, declared.code) == (OutcomeKind.NOT_SENT, "merchant_not_ready")
    else:
        assert declared == outcome_of(reply(status))


@pytest.mark.parametrize("status", [502, 503, 504])
def test_k3_04_a_proxy_failure_is_unknown_with_the_hint_kept(status):
    """K3-04: the effect may have happened; not a failure."""
    outcome = outcome_of(reply(status, b"", "", retry_after=("1",)))
    assert (outcome.kind, outcome.retry_after_s, outcome.error) == (OutcomeKind.UNKNOWN, 1.0, None)


@pytest.mark.parametrize("kind", [kind for kind in SeenKind if kind is not SeenKind.REPLY])
@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("sent", [True, False])
def test_p5_without_a_reply_only_what_was_sent_counts(kind, reason, sent):
    """5, K3-13: no byte sent releases, any byte sent is unknown, whatever the fault was called."""
    outcome = outcome_of(Seen(kind, reason, sent))
    assert outcome.kind is (OutcomeKind.UNKNOWN if sent else OutcomeKind.NOT_SENT)
    assert outcome.code == (None if sent else "merchant_unreachable")
    assert outcome.reason == reason
    assert outcome.message


def test_k3_13_each_fault_before_sending_has_its_own_clear_message():
    """K3-13: name, port, certificate, handshake, address, time."""
    faults = (
        Reason.NAME_NOT_RESOLVED,
        Reason.CONNECT_FAILED,
        Reason.CERTIFICATE_INVALID,
        Reason.TLS_FAILED,
        Reason.ADDRESS_REFUSED,
    )
    messages = {outcome_of(Seen(SeenKind.NOT_CONNECTED, reason, False)).message for reason in faults}
    messages.add(outcome_of(Seen(SeenKind.TIMEOUT, Reason.TIMED_OUT, False)).message)
    assert len(messages) == len(faults) + 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((formatdate(NOW + 60, usegmt=True),), 60.0),
        ((formatdate(NOW - 30 * 86_400, usegmt=True),), 0.0),
        ((formatdate(NOW + 86_400 * 365, usegmt=True),), 3_600.0),
        (("-5",), None),
        (("0.493",), 0.493),
        (("120junk",), None),
        (("99999999999",), 3_600.0),
        (("9" * 400,), None),
        (("",), None),
        (("inf",), None),
        (("NaN",), None),
        (("١٢",), None),
        ((" 7 ",), 7.0),
        (("Mon, 99 Foo 99999 99:99:99 GMT",), None),
        (("Mon, 01 Jan 0001 00:00:00 +9999",), None),
        (("Sunday, 06-Nov-94 08:49:37 GMT",), 0.0),
        (("Sun Nov  6 08:49:37 1994",), 0.0),
        (("1", "30"), 30.0),
        (("-5", "30"), 30.0),
        (("junk", ""), None),
    ],
)
def test_k3_05_retry_after_gives_a_bounded_hint_or_none(values, expected):
    """K3-05: dates, negatives, fractions, junk, huge numbers, none, two of them; and 429 is not sent."""
    outcome = outcome_of(reply(429, b"", "", retry_after=values), now_s=NOW)
    assert (outcome.kind, outcome.retry_after_s) == (OutcomeKind.NOT_SENT, expected)


@given(st.lists(st.text(max_size=80), max_size=3), st.floats(0, 4e9))
def test_k3_05_no_retry_after_text_crashes(values, now):
    """K3-05: any text, any clock."""
    hint = outcome_of(reply(429, b"", retry_after=tuple(values)), now_s=now).retry_after_s
    assert hint is None or 0 <= hint <= 3_600


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (204, b"", ""),
        (200, b"", ""),
        (200, b"", JSON),
        (200, b"null", JSON),
        (200, b" null\r\n", JSON),
        (201, b"", ""),
        (200, b"", "text/html"),
        (200, b"  \n", JSON),
        (200, b"\xef\xbb\xbf", JSON),
        (200, b"", "text/plain"),
    ],
)
def test_k3_06_empty_and_null_are_the_same_empty_success(status, body, kind):
    """K3-06, 5: empty = null, and equal on replay."""
    outcome = outcome_of(reply(status, body, kind))
    assert (outcome.kind, outcome.result, outcome.dropped) == (OutcomeKind.SUCCEEDED, b"null", False)


@pytest.mark.parametrize(
    "kind", ["text/html", "text/html; charset=utf-8", "application/xhtml+xml", "text/plain", "", JSON]
)
def test_k3_07_an_html_page_with_200_is_unknown_and_only_its_text_is_kept(kind):
    """K3-07: a front proxy's page, also where it is mislabelled."""
    page = b"<html><head><style>p{}</style><script>if(a<b){}</script></head><!-- x --><body><p>Under&nbsp;maintenance</p></body></html>"
    outcome = outcome_of(reply(200, page, kind))
    assert (outcome.kind, outcome.result, outcome.excerpt) == (OutcomeKind.UNKNOWN, None, "Under maintenance")


def test_k3_07_a_refusals_body_is_the_reason_that_is_stored():
    """K3-07: 422 with JSON reaches the assistant as sent."""
    outcome = outcome_of(reply(422, b'{"error":"out_of_stock","left":12345678901234567890}'))
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.error is not None
    assert outcome.error.code == "merchant_refused"
    assert "422" in outcome.error.message
    assert outcome.error.details == b'{"status":422,"body":{"error":"out_of_stock","left":12345678901234567890}}'


@pytest.mark.parametrize(
    ("body", "kind", "more", "shown", "cut"),
    [
        (b"sold out", "text/plain", {}, "sold out", False),
        (b"<h1>Not found</h1>", "text/html", {}, "Not found", False),
        (b"", "", {}, None, False),
        (b"{broken", JSON, {}, "{broken", False),
        (b'"' + b"x" * 70_000 + b'"', JSON, {}, '"' + "x" * 2047, True),
        (b"beginning", JSON, {"too_large": True}, "beginning", True),
        (gzip.compress(b"{}", mtime=0), JSON, {"content_encoding": "gzip"}, None, False),
    ],
)
def test_p5_a_refusal_stands_whatever_its_body_is(body, kind, more, shown, cut):
    """5: the status line refuses; the body is only the reason, shown as far as it can be."""
    outcome = outcome_of(reply(404, body, kind, **more))
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.error is not None
    details = json.loads(outcome.error.details)
    assert details == {"status": 404, "body": shown} | ({"body_cut": True} if cut else {})


def test_k3_07_a_500s_body_is_kept_bounded_for_the_event_log():
    """K3-07: bounded at 2 KiB of UTF-8, on a character."""
    outcome = outcome_of(reply(500, json.dumps({"trace": "é" * 5_000}, ensure_ascii=False).encode()))
    assert outcome.kind is OutcomeKind.UNKNOWN
    assert outcome.excerpt.startswith('{"trace": "é')
    assert 2_040 < len(outcome.excerpt.encode()) <= 2_048


def test_p9_4_an_excerpt_has_no_control_characters():
    """9.4: it may end up on a terminal."""
    assert excerpt_of(b"a\x1b[31mb\x00\r\nc\x9b \xe2\x80\xa8d \xff", "text/plain", None) == "a [31mb c\ufffd d \ufffd"


@pytest.mark.parametrize(
    "page", [b"<" * 16_000, b"<!--" * 4_000, b"<script>" * 2_000, b"<style" * 2_000, "<p>İ</P>".encode()]
)
def test_p9_4_cleaning_hostile_html_is_total(page):
    """9.4: unclosed tags, comments and scripts, and letters that change length in lower case."""
    assert "<" not in excerpt_of(page, "text/html", None)


@pytest.mark.parametrize("digits", ["9", "0", "65"])
@pytest.mark.parametrize("status", [200, 404, 500])
def test_k3_07_p9_4_a_character_named_by_thousands_of_digits_does_not_keep_a_page_from_being_judged(digits, status):
    """9.4: Python makes no number of more than 4,300 digits, and a refusal must not be unknown for its page."""
    page = f"<html>Sold out &#{digits * 5_000}; &#{digits * 2_200} today &amp; tomorrow</html>".encode()
    outcome = outcome_of(reply(status, page, "text/html"))
    assert outcome.kind is (OutcomeKind.FAILED if status == 404 else OutcomeKind.UNKNOWN)
    assert outcome.excerpt == "Sold out \ufffd \ufffd today & tomorrow"


NAME = '{"name":"José"}'


@pytest.mark.parametrize(
    ("body", "kind", "result"),
    [
        (b"\xef\xbb\xbf" + NAME.encode(), JSON, NAME),
        (b"\xef\xbb\xbf" + NAME.encode(), JSON + "; charset=iso-8859-1", NAME),
        (NAME.encode("latin-1"), JSON + "; charset=iso-8859-1", NAME),
        (NAME.encode("latin-1"), JSON + '; Charset="Latin1"', NAME),
        (b'"\x80\x99"', JSON + "; charset=iso-8859-1", '"€™"'),
        (b'"\x81"', JSON + "; charset=iso-8859-1", '"\x81"'),
        (NAME.encode("cp1252"), JSON + "; charset=windows-1252", NAME),
        (NAME.encode("iso8859-15"), JSON + "; charset=ISO-8859-15", NAME),
        (NAME.encode("utf-16"), JSON + "; charset=utf-16", NAME),
        ('"東京"'.encode("shift_jis"), JSON + "; charset=Shift_JIS", '"東京"'),
        (NAME.encode(), JSON + "; charset=utf8", NAME),
        (NAME.encode(), JSON + "; charset=UTF-8; x=y", NAME),
        (NAME.encode(), JSON + "; charset=bogus", NAME),
        (NAME.encode(), JSON + "; charset=", NAME),
        (NAME.encode(), JSON + "; charset", NAME),
        ("José".encode("latin-1"), "text/plain; charset=latin1", '"José"'),
        (NAME.encode("latin-1"), JSON, None),
        (NAME.encode("latin-1"), JSON + "; charset=utf-8", None),
        (NAME.encode("latin-1"), JSON + "; charset=bogus", None),
        ("José".encode("latin-1"), "text/plain", None),
        (b"\xed\xb2\xb2", "text/plain", None),
        (b"\x00\xd8", "text/plain; charset=utf-16-le", None),
    ],
)
def test_k3_11_bytes_are_read_as_declared_else_as_utf_8_else_unknown(body, kind, result):
    """K3-11: marks, Latin-1 declared and not, odd and unknown charset names; never mojibake, never a crash."""
    outcome = outcome_of(reply(200, body, kind))
    if result is None:
        assert (outcome.kind, outcome.reason) == (OutcomeKind.UNKNOWN, Body.BAD_CHARSET)
    else:
        assert outcome.result == result.encode()


@pytest.mark.parametrize(
    "charset", ["zlib", "bz2", "hex", "rot13", "unicode_escape", "idna", "undefined", "utf-7", "a" * 8_000, "\x00"]
)
def test_p9_4_a_charset_cannot_name_a_codec_that_unpacks(charset):
    """9.4: decompression and escapes are not character sets; such a body is UTF-8 or nothing."""
    body = gzip.compress(b"{}", mtime=0)
    assert read_body(body, JSON, charset, "") == (Body.BAD_CHARSET, None)
    assert read_body(b'"\\u0041+AGE-"', JSON, charset, "") == (Body.JSON, b'"\\u0041+AGE-"')


@pytest.mark.parametrize(
    "text",
    [
        '{"order_id":2512292042121000001,"total":1.10,"e":1E+2,"neg":-0}',
        '{"b":1,"a":2,"b":3}',
        "[" + "9" * 5_000 + "]",
        "0.1000000000000000055511151231257827",
        '{ "a" : [ 1 ,\n 2 ] }',
        '"\\u0041\\/\\ud83d\\ude00"',
        "1e400",
    ],
)
def test_k2_11_json_is_kept_digit_for_digit_and_in_order(text):
    """K2-11, 5: what the merchant wrote is what is stored and shown."""
    assert outcome_of(reply(200, text.encode())).result == text.encode()


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (rb'"\udcb2"', rb'"\ufffd"'),
        (rb'{"\uD83D":"\uDE00x"}', rb'{"\ufffd":"\ufffdx"}'),
        (rb'"\ud83d\ud83d\ude00\ude00"', rb'"\ufffd\ud83d\ude00\ufffd"'),
        (rb'"\\ud83d \\\ud83d"', rb'"\\ud83d \\\ufffd"'),
        (rb'"\uDBFF\uDFFF"', rb'"\uDBFF\uDFFF"'),
    ],
)
def test_k2_15_half_a_surrogate_pair_is_replaced_and_the_outcome_kept(sent, kept):
    """K2-15: dirty text is no failure; whole pairs and escaped backslashes stay."""
    outcome = outcome_of(reply(200, sent))
    assert (outcome.kind, outcome.result) == (OutcomeKind.SUCCEEDED, kept)
    assert msgspec.json.decode(kept) == json.loads(kept)


@pytest.mark.parametrize(
    "body",
    [
        b"NaN",
        b'{"a":Infinity}',
        b"[-Infinity]",
        b"{",
        b'{"a":1,}',
        b"{'a':1}",
        b"01",
        b"1 2",
        b'"\x01"',
        b'"\\x"',
        b"tru",
        b"OK",
        b'{"a":1}{"b":2}',
        b'"' + b'\\"' * 100_000,
        b"[" * 63 + b'"' + b'\\"' * 100_000,
    ],
)
def test_p5_json_that_is_not_json_is_unknown(body):
    """5, 9.4: malformed and truncated bodies are never repaired."""
    outcome = outcome_of(reply(200, body))
    assert (outcome.kind, outcome.reason, outcome.result) == (OutcomeKind.UNKNOWN, Body.BAD_JSON, None)


@pytest.mark.parametrize("depth", [65, 500, 5_000, 1_000_000])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("unit", [b"[", b'{"a":', b'[{"]":'])
def test_k6_14_nesting_over_64_is_an_invalid_reply(depth, closed, unit):
    """K6-14, 9.4: found by a scan, whatever the depth; brackets in strings are not nesting."""
    closing = {b"[": b"]", b'{"a":': b"}", b'[{"]":': b"}]"}[unit]
    body = unit * depth + b"1" + (closing * depth if closed else b"")
    outcome = outcome_of(reply(200, body), result_cap=10_000_000)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.UNKNOWN, Body.TOO_DEEP)


def test_k6_14_nesting_of_64_and_any_width_is_accepted():
    """K6-14: the limit itself, and brackets side by side or inside strings."""
    wide = b"[" + b"[]," * 999 + b"[]]"
    quoted = b'["' + b"[" * 1_000 + b'"]'
    for body in (b"[" * 64 + b"]" * 64, b'{"a":' * 64 + b"1" + b"}" * 64, wide, quoted):
        assert outcome_of(reply(200, body)).result == body


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "gzip, gzip", "identity, gzip", "zstd", "x"])
@pytest.mark.parametrize("too_large", [True, False])
@pytest.mark.parametrize("body", [gzip.compress(b"{}", mtime=0), b"{}", b""])
def test_k6_13_a_reply_with_content_encoding_is_unknown_and_not_expanded(coding, too_large, body):
    """K6-13, 9.4: neither offered nor accepted, even if the bytes happen to parse."""
    outcome = outcome_of(reply(200, body, content_encoding=coding, too_large=too_large))
    assert (outcome.kind, outcome.reason, outcome.excerpt) == (OutcomeKind.UNKNOWN, Body.ENCODED, "")


def test_p9_4_identity_is_no_content_encoding():
    """9.4: it says that nothing was done."""
    assert outcome_of(reply(content_encoding="Identity")).kind is OutcomeKind.SUCCEEDED


@pytest.mark.parametrize(
    ("kind", "more", "expected", "dropped"),
    [
        (JSON, {"too_large": True}, OutcomeKind.SUCCEEDED, True),
        ("text/plain", {"too_large": True}, OutcomeKind.SUCCEEDED, True),
        ("text/html", {"too_large": True}, OutcomeKind.UNKNOWN, False),
        ("", {"too_large": True}, OutcomeKind.UNKNOWN, False),
        (JSON, {"body": b'"' + b"x" * 1_048_574 + b'"'}, OutcomeKind.SUCCEEDED, False),
        (JSON, {"body": b'"' + b"x" * 1_048_575 + b'"'}, OutcomeKind.SUCCEEDED, True),
        ("text/plain", {"body": b"\x01" * 500_000}, OutcomeKind.SUCCEEDED, True),
    ],
)
def test_k6_13_p4_12_over_the_cap_succeeds_with_the_result_dropped(kind, more, expected, dropped):
    """4.12, K6-13: an honest big answer, and one that grows over the cap as JSON text."""
    outcome = outcome_of(reply(kind=kind, **more))
    assert (outcome.kind, outcome.dropped) == (expected, dropped)
    assert (outcome.result is None) is (dropped or expected is OutcomeKind.UNKNOWN)


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b"Order placed.", "text/plain", b'"Order placed."'),
        (b' say "hi"\n', "text/plain", b'" say \\"hi\\"\\n"'),
        (b"a,b", "text/csv", b'"a,b"'),
        (b"12", "text/plain", b'"12"'),
        (b"12", "application/vnd.shop+json", b"12"),
        (b"12", "text/json", b"12"),
        (b"12", "", b"12"),
        (b"Order placed.", "", None),
        (b"<a/>", "application/xml", None),
        (b"<a/>", "text/xml", None),
        (b"%PDF", "application/pdf", None),
        (b"{}", "application/octet-stream", None),
        (b"data: 1\n\n", "text/event-stream", None),
    ],
)
def test_p5_the_declared_type_says_how_a_body_is_read(body, kind, expected):
    """5: JSON or text is success; any other type, or none and no JSON, is outside the contract."""
    outcome = outcome_of(reply(200, body, kind))
    assert outcome.result == expected
    assert outcome.kind is (OutcomeKind.UNKNOWN if expected is None else OutcomeKind.SUCCEEDED)


def test_k6_10_nothing_of_a_body_is_in_a_repr():
    """K6-10, 9.3: what is logged by accident shows no values."""
    for status in (200, 422, 500):
        seen = reply(status, b'{"card":"4111"}')
        assert "4111" not in f"{seen!r}{outcome_of(seen)!r}"


TYPES = st.sampled_from([*reply_body.MEDIA_TYPES, "text/plain", "a/b+json", "application/pdf", "x"]) | st.text(
    max_size=20
)
CHARSETS = st.none() | st.sampled_from([*reply_body.CHARSETS, "utf-8", "zlib", "utf-16"]) | st.text(max_size=20)
FRAGMENTS = [
    b'"',
    b"\\",
    b"[",
    b"]",
    b"{",
    b"}",
    b"\\ud83d",
    b"\\ude00",
    b"1",
    b":",
    b",",
    b"<!--",
    b"<p>",
    b"\xef\xbb\xbf",
    b"\xff",
    b"nul",
]
BODIES = st.binary(max_size=200) | st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(b"".join)


@settings(max_examples=400)
@given(
    kind=st.sampled_from(SeenKind),
    status=st.none() | st.integers(-1, 1_000),
    media=TYPES,
    charset=CHARSETS,
    coding=st.sampled_from(["", "identity", "gzip"]) | st.text(max_size=10),
    body=BODIES,
    too_large=st.booleans(),
    sent=st.booleans(),
    declared=st.booleans(),
    cap=st.integers(0, 50),
)
def test_p5_no_reply_makes_the_judge_raise(kind, status, media, charset, coding, body, too_large, sent, declared, cap):
    """5, 9.4: any bytes, status, type, charset; and a kept result is always JSON in UTF-8 within the cap."""
    seen = Seen(kind, Reason.REPLIED, sent, status, media, charset, coding, body, too_large)
    outcome = outcome_of(seen, unavailable_means_not_executed=declared, result_cap=cap)
    assert (outcome.result is not None) is (outcome.kind is OutcomeKind.SUCCEEDED and not outcome.dropped)
    if outcome.result is not None:
        json.loads(outcome.result)
        assert len(outcome.result) <= cap
    if outcome.error is not None:
        assert json.loads(outcome.error.details)["status"] == status
    assert len(outcome.excerpt.encode()) <= 2_048
    if outcome.kind is OutcomeKind.NOT_SENT and kind is not SeenKind.REPLY:
        assert not sent


def _reject(name):
    raise ValueError(name)


@settings(max_examples=400)
@given(BODIES)
@example(b'"\\ud83d\\ude00"')
def test_p5_the_json_check_agrees_with_an_independent_parser(body):
    """5: accepted exactly where Python's strict parser accepts, up to escapes no UTF-8 can hold."""
    kind, text = read_body(body, JSON, "utf-8", "")
    try:
        value = json.loads(body.removeprefix(b"\xef\xbb\xbf").decode(), parse_constant=_reject)
    except (ValueError, RecursionError):
        assert kind is not Body.JSON
        return
    assert text is not None
    clean = json.dumps(value).encode("ascii")
    again = json.dumps(json.loads(text)).encode("ascii")
    assert again == reply_body._HALF_PAIR.sub(lambda found: rb"\ufffd" if found[1] else found[0], clean)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_p5_any_json_value_comes_through_unchanged(value):
    """5: the result is the text itself."""
    text = json.dumps(value).encode()
    assert outcome_of(reply(200, text)).result == text.strip()
