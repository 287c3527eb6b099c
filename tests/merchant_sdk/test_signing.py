"""Standard Webhooks v1, against whatever bytes come."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merchant_sdk import SecretError, SignatureError, sign, verify

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()
NOW = 1_796_000_000
BODY = b'{"tool": "place_order"}'


def signed(secret: str = SECRET, at: int = NOW, body: bytes = BODY) -> dict[str, str]:
    return {"webhook-id": "k1", "webhook-timestamp": str(at), "webhook-signature": sign(secret, "k1", at, body)}


def test_the_published_standard_webhooks_example_verifies() -> None:
    """Section 6: the signature is Standard Webhooks v1, so the specification's own example holds."""
    secret, msg_id, at = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
    body = b'{"test": 2432232314}'
    assert sign(secret, msg_id, at, body) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    headers = {"Webhook-Id": msg_id, "Webhook-Timestamp": str(at), "Webhook-Signature": sign(secret, msg_id, at, body)}
    assert verify([secret], headers, body, now=at).id == msg_id


@pytest.mark.parametrize(
    "body", [b"", b"\xff\x00", "ü".encode(), b"x" * 100_000], ids=["empty", "bytes", "text", "long"]
)
def test_any_body_verifies_as_its_exact_bytes_and_not_with_one_more(body: bytes) -> None:
    """Section 6: what is signed are the bytes, not their meaning."""
    headers = signed(body=body)
    assert verify([SECRET], headers, body, now=NOW).timestamp == NOW
    with pytest.raises(SignatureError):
        verify([SECRET], headers, body + b" ", now=NOW)


@pytest.mark.parametrize(
    "shape",
    [
        lambda h: {k.upper(): v for k, v in h.items()},
        lambda h: [(k.encode(), v.encode()) for k, v in h.items()],
        lambda h: {k.encode(): v.encode() for k, v in h.items()},
        lambda h: list(h.items()),
    ],
    ids=["upper case", "asgi", "bytes mapping", "pairs"],
)
def test_headers_come_as_a_mapping_or_as_asgi_sends_them(shape: Any) -> None:
    """Section 6: header names have no case."""
    assert verify([SECRET], shape(signed()), BODY, now=NOW).id == "k1"


def test_during_rotation_either_secret_and_either_signature_will_do() -> None:
    """Section 6: several secrets are valid while one replaces another."""
    assert verify([OTHER, SECRET], signed(), BODY, now=NOW)
    both = signed() | {"webhook-signature": f"v1a,zzz {sign(OTHER, 'k1', NOW, BODY)} {sign(SECRET, 'k1', NOW, BODY)}"}
    assert verify([SECRET], both, BODY, now=NOW)
    with pytest.raises(SignatureError):
        verify([OTHER], signed(), BODY, now=NOW)


@pytest.mark.parametrize(
    ("age_s", "accepted"),
    [(1, True), (240, True), (300, True), (301, False), (360, False), (86_400, False), (-300, True), (-301, False)],
)
def test_k6_06_an_old_signature_is_refused_after_five_minutes(age_s: int, accepted: bool) -> None:
    """K6-06: a captured request is good for the tolerance and no longer, in both directions of time."""
    if accepted:
        assert verify([SECRET], signed(), BODY, now=NOW + age_s)
    else:
        with pytest.raises(SignatureError, match="tolerance"):
            verify([SECRET], signed(), BODY, now=NOW + age_s)


def test_k6_06_an_altered_timestamp_breaks_the_signature() -> None:
    """K6-06: the timestamp is part of what is signed."""
    with pytest.raises(SignatureError, match="no signature matches"):
        verify([SECRET], signed() | {"webhook-timestamp": str(NOW + 600)}, BODY, now=NOW + 600)


def test_the_same_bytes_cannot_be_cut_into_another_id_and_timestamp() -> None:
    """K6-06: `a.1` at 2 and `a` at 1 sign alike, so an id holds no full stop."""
    with pytest.raises(ValueError, match="full stop"):
        sign(SECRET, f"a.{NOW}", NOW, BODY)
    shifted = {
        "webhook-id": f"k1.{NOW}",
        "webhook-timestamp": "1",
        "webhook-signature": sign(SECRET, "k1", NOW, b"1.x"),
    }
    with pytest.raises(SignatureError):
        verify([SECRET], shifted, b"x", now=NOW)


GOOD = [(k.encode(), v.encode()) for k, v in signed().items()]


@pytest.mark.parametrize(
    "headers",
    [
        *[[*GOOD[:2], (b"webhook-signature", value)] for value in (
            b"", b"v1", b"v1,", b"v1=", b"v1=\xff", b"v1,\xff\xfe", b"v1,caf\xe9", b"v1,!!!!", b"v1,AAAA", b"v2," + b"A" * 44,
            b"v1a,AAAA", b"V1,AAAA", b",", b" " * 4096, b"v1," + b"A" * 1_000_000, b" ".join([b"v1,A"] * 500), b"\x00",
        )],
        *[[(b"webhook-id", value), *GOOD[1:]] for value in (b"", b"caf\xe9", b"a b", b"x" * 1_000_000, b"k1\n")],
        *[[GOOD[0], (b"webhook-timestamp", value), GOOD[2]] for value in (
            b"", b"-1", b"+1", b"1.5", b"1e9", b" 1796000000", b"\xd9\xa1", b"9" * 12, b"9" * 1_000_000, b"nan",
        )],
        [*GOOD, GOOD[2]], [*GOOD, (b"Webhook-Id", b"k2")], GOOD[1:], GOOD[:2], [GOOD[0], GOOD[2]], [],
        [(b"x" * 1_000_000, b"y")], {"webhook-id": "日本", "webhook-timestamp": "1", "webhook-signature": "v1,A"},
        {"Webhook-Id": "k1", **signed()}, {**signed(), "webhook-signature": None}, {**signed(), "webhook-id": ["k1"]},
    ],
)  # fmt: skip
def test_k6_07_any_bad_header_is_one_kind_of_error(headers: Any) -> None:
    """K6-07: nothing but SignatureError, whatever the bytes, their number and their length."""
    with pytest.raises(SignatureError) as caught:
        verify([SECRET], headers, BODY, now=NOW)
    assert len(str(caught.value)) < 80


@pytest.mark.parametrize(
    ("place", "filler", "most"),
    [(0, b"k", 1_024), (1, b"9", 12), (2, b"v1,AAAA", 4_096)],
    ids=["id", "timestamp", "signature"],
)
def test_k6_07_a_header_over_its_bound_is_not_looked_at(place: int, filler: bytes, most: int) -> None:
    """K6-07, 9.4: bounded time: nothing is hashed, split or compared of what is longer than any gateway's."""
    whole = (filler * most)[:most]
    for value, kind in ((whole + b"A", "too_long"), (filler * 1_000_000, "too_long"), (whole, None)):
        headers = [(name, value if at == place else good) for at, (name, good) in enumerate(GOOD)]
        with pytest.raises(SignatureError) as caught:
            verify([SECRET], headers, BODY, now=NOW)
        assert (caught.value.kind == "too_long") == (kind == "too_long")


def test_k6_07_more_signatures_than_a_rotation_has_are_not_compared() -> None:
    """K6-07, 9.4"""
    for number, kind in ((16, "no_match"), (17, "too_long")):
        with pytest.raises(SignatureError) as caught:
            verify([SECRET], [*GOOD[:2], (b"webhook-signature", b" ".join([b"v1,AAAA"] * number))], BODY, now=NOW)
        assert caught.value.kind == kind


@pytest.mark.parametrize(
    "stamp", [b"", b"-1", b"+%d" % NOW, b" %d" % NOW, b"%d.0" % NOW, b"1_796000000", b"nan", b"1e9", "١٧".encode()]
)
def test_k6_07_a_time_that_is_no_whole_number_is_refused_though_it_is_signed(stamp: bytes) -> None:
    """K6-07: what reads it as a number would raise an error of its own, or take what nobody writes."""
    mac = hmac.digest(bytes(range(32)), b"k1." + stamp + b"." + BODY, "sha256")
    headers = [GOOD[0], (b"webhook-timestamp", stamp), (b"webhook-signature", b"v1," + base64.b64encode(mac))]
    with pytest.raises(SignatureError) as caught:
        verify([SECRET], headers, BODY, now=NOW)
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize("signers", [[SECRET, OTHER], [OTHER, SECRET], [OTHER, OTHER]])
def test_k6_07_every_signature_is_compared_with_every_secret_as_bytes_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, signers: list[str]
) -> None:
    """K6-07: also after one matched, so that time tells neither how much of it fits nor which it was."""
    compared: list[tuple[type, type]] = []
    whole = hmac.compare_digest

    def compare(one: Any, other: Any) -> bool:
        compared.append((type(one), type(other)))
        return whole(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    offered = " ".join(sign(signer, "k1", NOW, BODY) for signer in signers)
    assert verify([SECRET, OTHER], signed() | {"webhook-signature": offered}, BODY, now=NOW)
    assert compared == [(bytes, bytes)] * 4


header_bytes = st.binary(max_size=60) | st.sampled_from([b"v1,", b"v1,AAAA", b"k1", str(NOW).encode(), GOOD[2][1]])
names = st.sampled_from([b"webhook-id", b"webhook-timestamp", b"webhook-signature", b"Webhook-Signature", b"x"])


@settings(max_examples=300)
@given(
    headers=st.lists(st.tuples(names | st.binary(max_size=20), header_bytes), max_size=6), body=st.binary(max_size=40)
)
def test_k6_07_arbitrary_bytes_never_verify_and_never_raise_anything_else(
    headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    """K6-07: searched. The one signature that the search may pick is for another body."""
    with pytest.raises(SignatureError):
        verify([SECRET, OTHER], headers, body, now=NOW)


@settings(max_examples=100)
@given(headers=st.dictionaries(st.sampled_from(list(signed())), st.text(max_size=30)))
def test_k6_07_arbitrary_text_never_verifies_and_never_raises_anything_else(headers: dict[str, str]) -> None:
    """K6-07: searched, for frameworks that hand over text."""
    with pytest.raises(SignatureError):
        verify([SECRET], headers, BODY, now=NOW)


@pytest.mark.parametrize(
    "bad", ["", "secret", "whsec_", "whsec_***", "whsec_c2hvcnQ=", "whsec_ü", "whsec_" + "A" * 400]
)
def test_a_bad_secret_is_named_without_being_shown(bad: str) -> None:
    """9.3: no secret in an error, nor in what caused it."""
    with pytest.raises(SecretError) as caught:
        verify([bad], signed(), BODY, now=NOW)
    shown = f"{caught.value!r} {caught.value.__cause__!r}"
    assert bad in ("", "whsec_", "secret") or bad not in shown


def test_without_any_secret_nothing_verifies() -> None:
    """9.1: an empty list must not mean that everything is welcome."""
    with pytest.raises(SecretError):
        verify([], signed(), BODY, now=NOW)


def test_a_verified_request_shows_no_secret() -> None:
    """9.3."""
    assert "whsec" not in json.dumps(repr(verify([SECRET], signed(), BODY, now=NOW)))
