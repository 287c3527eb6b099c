"""Our signatures against the official Standard Webhooks library, both ways, and where its verifier lets go."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from merchant_sdk import SignatureError, sign, verify

secrets = st.binary(min_size=24, max_size=64).map(lambda key: "whsec_" + base64.b64encode(key).decode())
ids = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="."), min_size=1, max_size=80)
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@settings(max_examples=150)
@given(secret=secrets, msg_id=ids, body=st.text(max_size=200))
def test_what_we_sign_the_official_library_verifies_and_the_other_way_round(
    secret: str, msg_id: str, body: str
) -> None:
    """Section 6: interoperable, so a merchant may use any library of the standard."""
    now, official = int(time.time()), Webhook(secret)
    headers = {"webhook-id": msg_id, "webhook-timestamp": str(now)}
    ours = sign(secret, msg_id, now, body.encode())
    theirs = official.sign(msg_id, datetime.fromtimestamp(now, UTC), body)
    assert ours == theirs
    official.verify(body.encode(), headers | {"webhook-signature": ours}, json_parse=False)
    assert verify([secret], headers | {"webhook-signature": theirs}, body.encode(), now=now).id == msg_id


@pytest.mark.parametrize("signature", ["v1", "v1,a,b", "v1,caf\u00e9", "v1,A"])
def test_k6_07_where_the_official_verifier_lets_other_errors_out_ours_has_one(signature: str) -> None:
    """K6-07: the reason why ours is kept: any bytes are one SignatureError."""
    now = int(time.time())
    headers = {"webhook-id": "k1", "webhook-timestamp": str(now), "webhook-signature": signature}
    with pytest.raises(Exception) as theirs:
        Webhook(SECRET).verify(b"{}", headers)
    assert not isinstance(theirs.value, WebhookVerificationError)
    with pytest.raises(SignatureError):
        verify([SECRET], headers, b"{}", now=now)


def test_a_body_that_is_not_text_is_verified_as_bytes() -> None:
    """The official verifier decodes first, and fails on bytes that are no UTF-8."""
    now, body = int(time.time()), b"\xff\xfe"
    headers = {"webhook-id": "k1", "webhook-timestamp": str(now), "webhook-signature": sign(SECRET, "k1", now, body)}
    assert verify([SECRET], headers, body, now=now)
    with pytest.raises(UnicodeDecodeError):
        Webhook(SECRET).verify(body, headers)
