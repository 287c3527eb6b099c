"""Issued tokens: the shop decides what one purchase is, and gives it a name to come back with.

`issue_token` when the cart is shown for confirmation, `redeem` when the order comes. A token is good for one
order of one buyer's cart: the same token always finds the same order, a new token is a new purchase by
decision.

Text: `v1.<base64url of expiry, nonce and binding>.<base64url of HMAC>`, 84 characters.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets as random
import struct
from collections.abc import Mapping, Sequence

from merchant_sdk.errors import KeyInputError, SecretError, TokenRefused
from merchant_sdk.fingerprint import digest
from merchant_sdk.keys import RequestKey
from merchant_sdk.request_key import VERSION, Line, purchase_fingerprint, purchase_parts
from merchant_sdk.signing import secret_bytes

_NONCE_LENGTH = 12
_BODY = struct.Struct(f">Q{_NONCE_LENGTH}s16s")  # expiry in Unix seconds, nonce, binding
_MAC_LENGTH = 24
_LONGEST_S = 100 * 366 * 86_400
_LATEST = 1 << 62
_LENGTH = len(VERSION) + 48 + 1 + 32


def issue_token(
    secret: str,
    *,
    purpose: str,
    buyer: str,
    cart: Sequence[Line],
    now: float,
    ttl_s: int,
    currency: str | None = None,
    details: Mapping[str, str] | None = None,
    nonce: bytes | None = None,
) -> str:
    """A signed token for one order of this cart by this buyer, first usable until `now + ttl_s`.

    `secret` is a `whsec_` secret of the shop's own (not the gateway's). `nonce` is 12 random bytes, made here
    unless a test hands them in. Raises KeyInputError, MoneyError or SecretError.
    """
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int) or not 0 < ttl_s <= _LONGEST_S:
        raise KeyInputError("ttl_s is a positive whole number of seconds, and no century")
    if not 0 <= now < _LATEST:
        raise KeyInputError("now is the time in Unix seconds")
    if nonce is None:
        nonce = random.token_bytes(_NONCE_LENGTH)
    if len(nonce) != _NONCE_LENGTH:
        raise KeyInputError(f"a nonce is {_NONCE_LENGTH} bytes")
    key = secret_bytes(secret)
    cart_print = purchase_fingerprint(purchase_parts(purpose, buyer, cart, currency), details)
    body = _BODY.pack(int(now) + ttl_s, nonce, _mac(key, b"binding", cart_print.encode())[:16])
    return f"{VERSION}{_text(body)}.{_text(_mac(key, b'token', body)[:_MAC_LENGTH])}"


def redeem(
    secrets: str | Sequence[str],
    token: str,
    *,
    purpose: str,
    buyer: str,
    cart: Sequence[Line],
    currency: str | None = None,
    details: Mapping[str, str] | None = None,
) -> RequestKey:
    """The request key that this token names.

    Takes no time: an order that was placed in time is still found after the token has expired, so expiry is
    judged by `once`, and only for a first use. Raises TokenRefused with code `token_invalid` (not one of
    ours) or `token_mismatch` (issued for another purpose, buyer, cart or details).
    """
    keys = [secret_bytes(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    if not keys:
        raise SecretError("no token secret is configured")
    body, mac = _split(token)
    signers = [key for key in keys if hmac.compare_digest(_mac(key, b"token", body)[:_MAC_LENGTH], mac)]
    if not signers:
        raise _invalid()
    expires_at, nonce, binding = _BODY.unpack(body)
    cart_print = purchase_fingerprint(purchase_parts(purpose, buyer, cart, currency), details)
    if not hmac.compare_digest(_mac(signers[0], b"binding", cart_print.encode())[:16], binding):
        raise TokenRefused(
            "token_mismatch",
            "This token was issued for another purchase. Show the cart again and use the new token.",
        )
    return RequestKey(
        text=VERSION + digest([b"oncegate.token-key.v1", nonce, binding]),
        fingerprint=cart_print,
        expires_at=expires_at,
    )


def _split(token: str) -> tuple[bytes, bytes]:
    if not isinstance(token, str) or len(token) != _LENGTH or not token.startswith(VERSION):
        raise _invalid()
    try:
        body, mac = (
            base64.b64decode(part.encode("ascii"), altchars=b"-_", validate=True)
            for part in token[len(VERSION) :].split(".")
        )
    except (binascii.Error, ValueError):
        raise _invalid() from None
    if len(body) != _BODY.size or len(mac) != _MAC_LENGTH:
        raise _invalid()
    return body, mac


def _invalid() -> TokenRefused:
    return TokenRefused("token_invalid", "This token is not one that the shop issued.")


def _mac(key: bytes, use: bytes, data: bytes) -> bytes:
    return hmac.digest(key, b"oncegate.issued-token.v1." + use + b"." + data, hashlib.sha256)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii")
