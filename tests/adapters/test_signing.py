"""The signature on what the gateway sends (semantics, section 6)."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from gateway.adapters.signing import SigningSecretInvalid, sign_headers

# The example pair published with the Standard Webhooks libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EXAMPLE = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
SIGNED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    "secret", [SECRET, SECRET.removeprefix("whsec_"), base64.b64decode(SECRET.removeprefix("whsec_"))]
)
def test_p6_the_published_example_is_signed_as_published(secret):
    """6: any verifier of Standard Webhooks accepts it."""
    assert sign_headers([secret], *EXAMPLE) == [
        ("webhook-id", EXAMPLE[0]),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", SIGNED),
    ]


def test_p6_every_secret_signs_during_rotation():
    """6: several secrets, several signatures, one space between."""
    signature = dict(sign_headers([b"old", SECRET], *EXAMPLE))["webhook-signature"]
    signed = b"%b.%d.%b" % (EXAMPLE[0].encode(), EXAMPLE[1], EXAMPLE[2])
    old = base64.b64encode(hmac.new(b"old", signed, hashlib.sha256).digest()).decode()
    assert signature == f"v1,{old} {SIGNED}"


@pytest.mark.parametrize("secrets", [[], [""], [b""], ["whsec_"], ["whsec_not base64!"], [SECRET, "whsec_é"]])
def test_p9_3_a_bad_secret_is_refused_without_being_shown(secrets):
    """6, 9.3: never an unsigned message, never a secret in an error."""
    with pytest.raises(SigningSecretInvalid) as refused:
        sign_headers(secrets, *EXAMPLE)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    assert not any(
        secret and str(secret).removeprefix("whsec_") in str(refused.value) for secret in secrets if secret != "whsec_"
    )


@pytest.mark.parametrize("message_id", ["", "a.b", "a\r\nb", "é", "a\x7f"])
def test_p6_an_id_that_would_make_the_signed_text_ambiguous_is_refused(message_id):
    """6: the full stop separates the signed parts."""
    with pytest.raises(ValueError, match="message id"):
        sign_headers([SECRET], message_id, 1, b"{}")


@pytest.mark.parametrize("length", [1, 24, 63, 64, 65, 200])
def test_p6_a_key_of_any_length_signs_as_rfc_2104_has_it_and_as_often_as_it_must(length):
    """6: what was read of a key once is not changed by signing with it."""
    key = bytes(range(length))
    for body in (b"{}", b"", b"x" * 1_000, b"{}"):
        signed = base64.b64encode(hmac.digest(key, b"m.1.%b" % body, hashlib.sha256)).decode()
        assert dict(sign_headers([key], "m", 1, body))["webhook-signature"] == f"v1,{signed}"
