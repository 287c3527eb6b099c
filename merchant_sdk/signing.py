"""Standard Webhooks v1 signatures over the exact bytes (semantics 6).

Three headers travel with a body: `webhook-id`, `webhook-timestamp` (whole Unix seconds) and
`webhook-signature`, a space-separated list of `v1,<base64>`. What is signed is `id.timestamp.body`, with
HMAC-SHA256 under a secret written `whsec_<base64 of 24 to 64 bytes>`.

Ours and not the official `standardwebhooks` package, which signs alike (a test holds the two together): its verifier
takes one secret and the machine's clock, decodes the body and the signatures before it judges them, and so lets
ValueError, binascii.Error and UnicodeDecodeError out for what a stranger sends. A wrapper would have to check all of
this beforehand, and would be the SDK's only dependency.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from merchant_sdk.errors import SecretError, SignatureError

Headers = Mapping[str, str] | Mapping[bytes, bytes] | Iterable[tuple[bytes, bytes]] | Iterable[tuple[str, str]]

SECRET_PREFIX = "whsec_"  # noqa: S105  (the public prefix of every secret)
TOLERANCE_S = 300
_WHERE_FROM = "copy it whole, as `oncegate secrets add` shows it"

_ID, _TIMESTAMP, _SIGNATURE = b"webhook-id", b"webhook-timestamp", b"webhook-signature"
_LONGEST = {_ID: 1024, _TIMESTAMP: 12, _SIGNATURE: 4096}  # bytes; beyond it nothing is looked at
_MOST_SIGNATURES = 16


@dataclass(frozen=True, slots=True)
class Verified:
    """What the signature vouches for. `id` is signed, an `Idempotency-Key` header by itself is not."""

    id: str
    timestamp: int


def secret_bytes(secret: str) -> bytes:
    """The key behind a `whsec_` secret. Raises SecretError, which does not show it."""
    if not isinstance(secret, str) or not secret.startswith(SECRET_PREFIX):
        raise SecretError(f"a signing secret starts with {SECRET_PREFIX}, and this does not: {_WHERE_FROM}")
    try:
        key = base64.b64decode(secret[len(SECRET_PREFIX) :].encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        # Cause dropped on purpose: an encoding error carries the secret it choked on.
        raise SecretError(f"what follows {SECRET_PREFIX} in a signing secret is not base64: {_WHERE_FROM}") from None
    if not 24 <= len(key) <= 64:
        raise SecretError(f"a signing secret holds 24 to 64 bytes, and this does not: {_WHERE_FROM}")
    return key


def check_secrets(secrets: Sequence[str]) -> None:
    """Raises SecretError for an unusable one and for none, TypeError for one in place of a list of them."""
    if isinstance(secrets, str):
        raise TypeError('secrets is a list, since there are two while one is changed: secrets=["whsec_…"]')
    if not secrets:
        raise SecretError("no signing secret: is the variable that it is read from empty?")
    for secret in secrets:
        secret_bytes(secret)


def sign(secret: str, msg_id: str, timestamp_s: int, body: bytes) -> str:
    """One `v1,<base64>` signature. Raises SecretError, or ValueError for an id that cannot be a header."""
    id_bytes = msg_id.encode("ascii")
    if not _good_id(id_bytes):
        raise ValueError("a message id is 1 to 1,024 visible ASCII characters without a full stop")
    return _signature(secret_bytes(secret), id_bytes, b"%d" % timestamp_s, body).decode()


def verify(
    secrets: Sequence[str], headers: Headers, body: bytes, *, now: float, tolerance_s: float = TOLERANCE_S
) -> Verified:
    """Check the headers against the exact body bytes. `now` is Unix seconds.

    `secrets` are all that are valid today (several during rotation). `headers` is a mapping, whatever its
    case, or ASGI's raw list. Raises SignatureError and nothing else, whatever the sender wrote; SecretError
    only if the merchant's own secrets are unusable.
    """
    keys = [secret_bytes(secret) for secret in secrets]
    if not keys:
        raise SecretError("no signing secret is configured")
    found = _collect(headers)
    msg_id, stamp, offered = found[_ID], found[_TIMESTAMP], found[_SIGNATURE]
    if not _good_id(msg_id) or not stamp.isdigit():
        raise SignatureError("malformed")
    candidates = [part for part in offered.split(b" ") if part.startswith(b"v1,")]
    if not candidates:
        raise SignatureError("wrong_scheme")
    if len(candidates) > _MOST_SIGNATURES:
        raise SignatureError("too_long")
    # Bytes are compared as sent: nothing is decoded, so nothing can fail to decode. Every pair is compared,
    # so time does not tell which secret or which entry came close.
    matches = 0
    for key in keys:
        expected = _signature(key, msg_id, stamp, body)
        for candidate in candidates:
            matches += hmac.compare_digest(expected, candidate)
    if not matches:
        raise SignatureError("no_match")
    timestamp = int(stamp)
    if not abs(now - timestamp) <= tolerance_s:
        raise SignatureError("out_of_time")
    return Verified(msg_id.decode("ascii"), timestamp)


def _signature(key: bytes, msg_id: bytes, stamp: bytes, body: bytes) -> bytes:
    mac = hmac.new(key, msg_id + b"." + stamp + b".", hashlib.sha256)
    mac.update(body)
    return b"v1," + base64.b64encode(mac.digest())


def _good_id(msg_id: bytes) -> bool:
    # A full stop inside the id would let the same signed bytes be cut in two ways.
    return 0 < len(msg_id) <= _LONGEST[_ID] and all(33 <= c <= 126 and c != 46 for c in msg_id)


def _collect(headers: Headers) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    pairs: Iterable[tuple[str | bytes, str | bytes]] = headers.items() if isinstance(headers, Mapping) else headers
    for raw_name, raw_value in pairs:
        if len(raw_name) > len(_SIGNATURE):
            continue
        name = _as_bytes(raw_name).lower()
        if name not in _LONGEST:
            continue
        if name in found:
            raise SignatureError("duplicate")
        if not isinstance(raw_value, str | bytes):
            raise SignatureError("malformed")
        if len(raw_value) > _LONGEST[name]:
            raise SignatureError("too_long")
        found[name] = _as_bytes(raw_value)
    if len(found) < len(_LONGEST):
        raise SignatureError("missing")
    return found


def _as_bytes(text: str | bytes) -> bytes:
    """Header text as the bytes on the wire. A character above U+00FF cannot have come from one."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise SignatureError("malformed") from None
