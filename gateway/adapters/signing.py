"""The Standard Webhooks signature on what the gateway sends (wire rules, section 6 of the semantics)."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_PREFIX: Final = "whsec_"
_BLOCK: Final = 64
_INNER: Final = bytes(code ^ 0x36 for code in range(256))
_OUTER: Final = bytes(code ^ 0x5C for code in range(256))


class SigningSecretInvalid(ValueError):
    """A signing secret cannot be used. Names its place in the list, never the secret (9.3)."""


def sign_headers(
    secrets: Sequence[bytes | str], message_id: str, timestamp_s: int, body: bytes
) -> list[tuple[str, str]]:
    """Give `webhook-id`, `webhook-timestamp` and `webhook-signature` for one message.

    `secrets`: key bytes, or text as shown to the merchant (`whsec_` and base64; the prefix may be missing).
    During rotation each signs, in the order given, and the merchant may verify with any. `timestamp_s` is Unix
    time in whole seconds; it is signed, so signatures differ between tries while id and body do not.

    Raises SigningSecretInvalid for a secret that is empty or not base64 or if there is none at all, and
    ValueError for an id holding the separator `.` or anything but visible ASCII.
    """
    if not secrets:
        raise SigningSecretInvalid("there is no signing secret")
    if not message_id or "." in message_id or not message_id.isascii() or not message_id.isprintable():
        raise ValueError("the message id must be visible ASCII without a full stop")
    stamp = str(int(timestamp_s))
    signed = b"%b.%b.%b" % (message_id.encode(), stamp.encode(), body)
    signatures = " ".join(
        ["v1," + base64.b64encode(_hmac(secret, place, signed)).decode() for place, secret in enumerate(secrets)]
    )
    return [("webhook-id", message_id), ("webhook-timestamp", stamp), ("webhook-signature", signatures)]


def _hmac(secret: bytes | str, place: int, signed: bytes) -> bytes:
    """HMAC-SHA256 (RFC 2104), from where the two hashes have read the key: half the cost of starting anew."""
    started, outer = _started(secret, place)
    inner = started.copy()
    inner.update(signed)
    outer = outer.copy()
    outer.update(inner.digest())
    return outer.digest()


@lru_cache(maxsize=1_024)
def _started(secret: bytes | str, place: int) -> tuple[hashlib._Hash, hashlib._Hash]:
    key = _key(secret, place)
    if len(key) > _BLOCK:
        key = hashlib.sha256(key).digest()
    key = key.ljust(_BLOCK, b"\0")
    return hashlib.sha256(key.translate(_INNER)), hashlib.sha256(key.translate(_OUTER))


def _key(secret: bytes | str, place: int) -> bytes:
    if isinstance(secret, bytes):
        key = secret
    else:
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            # No cause is kept: the decoder's frames hold the secret.
            raise SigningSecretInvalid(f"signing secret {place} is not base64") from None
    if not key:
        raise SigningSecretInvalid(f"signing secret {place} is empty")
    return key
