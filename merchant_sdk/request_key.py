"""Keys for a purchase: the same buyer, the same cart, the same occasion.

A key is `v1.` and 64 hex digits; `tests/vectors/request_key.json` holds examples for other languages. Rules:
lines with the same sku, options and price are merged and their quantities added; order does not count; text is
compared in Unicode NFC; every part is length-prefixed. `details` (a shipping address, say) are not part of the
key but of its fingerprint: the same cart to another address is a conflict, not a repeat and not a second order.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from merchant_sdk.errors import KeyInputError
from merchant_sdk.fingerprint import digest, named_fingerprint
from merchant_sdk.keys import RequestKey
from merchant_sdk.money import Amount, exponent, minor_units

VERSION = "v1."

_LONGEST_TEXT = 1024  # bytes, as for every id (2.8)
_MOST_LINES = 1000
_QUANTITY_PLACES = 6
_MILLION = 10**6
_LARGEST_QUANTITY = 10**12


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a cart. `quantity` is an int or an exact Decimal (1.5 kg) of at most six decimal places.

    `price` is for one unit, as `money.Amount`; leave it out where prices are not the buyer's business.
    """

    sku: str
    quantity: int | Decimal
    price: Amount | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def request_key(
    purpose: str,
    *,
    buyer: str,
    cart: Sequence[Line],
    currency: str | None = None,
    window_s: int | None = None,
    session: str | None = None,
    again_after: str | None = None,
    details: Mapping[str, str] | None = None,
) -> RequestKey:
    """The key of this purchase. Pure. Raises KeyInputError or MoneyError, naming the field and the reason.

    `buyer` is who pays, and required: a guest needs an issued token. Exactly one time scope is needed,
    because buying the same thing tomorrow is a new order: `session` (a checkout's id; one order per session)
    or `window_s` (seconds after the first order in which an equal cart is a repeat; it slides with no clock
    boundary, since `once` measures it from the first commit). `again_after` names the order that this one
    deliberately repeats, and makes a new key which is again good for one order only.
    """
    if (window_s is None) == (session is None):
        raise KeyInputError("a derived key needs one time scope: session=... or window_s=...")
    if window_s is not None and (isinstance(window_s, bool) or not isinstance(window_s, int) or window_s <= 0):
        raise KeyInputError("window_s is a positive whole number of seconds")
    what = purchase_parts(purpose, buyer, cart, currency)
    scope = [b"window", b""] if session is None else [b"session", text_part("session", session)]
    again = b"" if again_after is None else text_part("again_after", again_after)
    return RequestKey(
        text=VERSION + digest([b"oncegate.request-key.v1", *scope, again, *what]),
        fingerprint=purchase_fingerprint(what, details),
        window_s=window_s,
    )


def given_key(
    text: str,
    *,
    purpose: str,
    buyer: str,
    cart: Sequence[Line],
    currency: str | None = None,
    details: Mapping[str, str] | None = None,
) -> RequestKey:
    """The key that somebody else gave this purchase, an `Idempotency-Key` of your own site's, say. Pure.

    It stands for one purchase for ever: with another purpose, buyer, cart or details it is a KeyConflict that
    names what differs. Raises KeyInputError (also for a key over 1,024 bytes) or MoneyError.
    """
    name = text_part("key", text)
    parts = purchase_parts(purpose, buyer, cart, currency)
    fields = {
        "purpose": parts[:1],
        "buyer": parts[1:2],
        "cart": parts[2:],
        "details": [text for pair in _pairs("details", {} if details is None else details) for text in pair],
    }
    named = named_fingerprint({field: digest(values) for field, values in fields.items()})
    return RequestKey(text=VERSION + digest([b"oncegate.given-key.v1", name]), fingerprint=named)


def purchase_parts(purpose: str, buyer: str, cart: Sequence[Line], currency: str | None) -> list[bytes]:
    """Purpose, buyer and the merged cart as an unambiguous list of parts. Raises as `request_key` does."""
    if buyer is None or (isinstance(buyer, str) and not buyer.strip()):
        raise KeyInputError("buyer is required: a guest without an id needs an issued token")
    if currency is not None:
        exponent(currency)
    parts = [text_part("purpose", purpose), text_part("buyer", buyer), (currency or "").encode()]
    lines = _merged(cart, currency)
    parts.append(b"%d" % len(lines))
    for (sku, options, price), quantity in sorted(lines.items()):
        parts += [sku, b"%d" % len(options), *(text for pair in options for text in pair)]
        parts += [price, b"%d" % quantity]
    return parts


def purchase_fingerprint(what: Iterable[bytes], details: Mapping[str, str] | None) -> str:
    """What must not differ under one key: the purchase and its details."""
    pairs = _pairs("details", {} if details is None else details)
    return digest([b"oncegate.purchase.v1", *what, *(text for pair in pairs for text in pair)])


def text_part(name: str, value: str) -> bytes:
    """Non-empty text in NFC as UTF-8, at most 1,024 bytes. Raises KeyInputError naming the field."""
    if not isinstance(value, str):
        raise KeyInputError(f"{name} is a text, not {type(value).__name__}")
    if not value:
        raise KeyInputError(f"{name} is a text that is not empty")
    if len(value) > _LONGEST_TEXT:
        raise KeyInputError(f"{name} is at most {_LONGEST_TEXT} bytes")
    try:
        encoded = unicodedata.normalize("NFC", value).encode()
    except UnicodeEncodeError:
        raise KeyInputError(f"{name} holds half of a surrogate pair") from None
    if len(encoded) > _LONGEST_TEXT:
        raise KeyInputError(f"{name} is at most {_LONGEST_TEXT} bytes")
    return encoded


_Pairs = tuple[tuple[bytes, bytes], ...]


def _merged(cart: Sequence[Line], currency: str | None) -> dict[tuple[bytes, _Pairs, bytes], int]:
    if not cart:
        raise KeyInputError("the cart is empty")
    if not isinstance(cart, Sequence) or not all(isinstance(line, Line) for line in cart):
        raise KeyInputError("a cart is a list of Line")
    if len(cart) > _MOST_LINES:
        raise KeyInputError(f"a cart has at most {_MOST_LINES} lines")
    lines: dict[tuple[bytes, _Pairs, bytes], int] = {}
    for line in cart:
        key = (text_part("sku", line.sku), _pairs("options", line.options), _price(line.price, currency))
        lines[key] = lines.get(key, 0) + _millionths(line.quantity)
    return lines


def _price(price: Amount | None, currency: str | None) -> bytes:
    if price is None:
        return b""
    if currency is None:
        raise KeyInputError("a cart with prices needs a currency: 5 USD is not 5 EUR")
    return b"%d" % minor_units(price, currency)


def _pairs(name: str, texts: Mapping[str, str]) -> _Pairs:
    if not isinstance(texts, Mapping):
        raise KeyInputError(f"{name} is a mapping of texts to texts")
    names, values = f"a name in {name}", f"a value in {name}"
    pairs = tuple(sorted((text_part(names, key), text_part(values, value)) for key, value in texts.items()))
    if len({key for key, _ in pairs}) < len(pairs):
        raise KeyInputError(f"{name} names one thing twice")
    return pairs


def _millionths(quantity: int | Decimal) -> int:
    if isinstance(quantity, bool) or not isinstance(quantity, int | Decimal):
        raise KeyInputError(f"quantity is an int or a Decimal, not {type(quantity).__name__}")
    if isinstance(quantity, Decimal):
        if not quantity.is_finite():
            raise KeyInputError("quantity is a finite number")
        if quantity.adjusted() > 12 or len(quantity.as_tuple().digits) > 40:
            raise KeyInputError("quantity is absurd")
    if not 0 < quantity <= _LARGEST_QUANTITY:
        raise KeyInputError("quantity is above zero and at most 10**12")
    if isinstance(quantity, int):
        return quantity * _MILLION
    _, digits, power = quantity.as_tuple()
    shift = int(power) + _QUANTITY_PLACES
    whole = int("".join(map(str, digits)))
    if shift >= 0:
        return whole * int(10**shift)
    whole, rest = divmod(whole, int(10 ** min(-shift, 41)))
    if rest:
        raise KeyInputError(f"quantity has at most {_QUANTITY_PLACES} decimal places")
    return whole
