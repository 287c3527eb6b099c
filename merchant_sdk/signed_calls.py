"""Calls in routes of the merchant's own, whatever the framework: how they are read, and which errors are answered.

Each of `integrations` brings the request's headers and bytes, and sends the Reply in its own way.
"""

from __future__ import annotations

from typing import Final

from merchant_sdk.endpoint import Headers, refuse_borrowed_key
from merchant_sdk.errors import MalformedCall, Refused, SignatureError, StoreBusy
from merchant_sdk.shop import Shop
from merchant_sdk.signing import verify
from merchant_sdk.wire import Call, parse_call

ANSWERED: Final = (SignatureError, MalformedCall, Refused, StoreBusy)
"""What a handler may raise and `endpoint.reply_to` answers; any other error is the framework's."""

MAX_BODY: Final = 1 << 20
"""Bytes; as a shop's own endpoint has it."""


def read_call(shop: Shop, headers: Headers, body: bytes) -> Call:
    """The verified Call of a request. Raises SignatureError or MalformedCall."""
    verified = verify(shop.secrets, headers, body, now=shop.now())
    refuse_borrowed_key(headers, verified.id)
    return parse_call(verified.id, body)
