"""K7-09: money is exact, per currency, or it is refused with the reason."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from merchant_sdk import MoneyError, minor_units


@pytest.mark.parametrize(
    ("amount", "currency", "units"),
    [
        (Decimal("5.00"), "USD", 500),
        (Decimal("5.0"), "USD", 500),
        (Decimal("5"), "USD", 500),
        (500, "USD", 500),
        (Decimal("0.3"), "USD", 30),
        (Decimal("0.1") + Decimal("0.2"), "USD", 30),
        (Decimal("500.00"), "JPY", 500),
        (500, "JPY", 500),
        (Decimal("5E2"), "JPY", 500),
        (Decimal("1.234"), "KWD", 1234),
        (Decimal("1.23"), "KWD", 1230),
        (Decimal("1.2345"), "CLF", 12345),
        (Decimal("-0"), "EUR", 0),
        (Decimal("0E-999999"), "EUR", 0),
        (0, "EUR", 0),
    ],
)
def test_k7_09_equal_amounts_are_equal_minor_units(amount: Any, currency: str, units: int) -> None:
    """K7-09: an int is minor units, a Decimal is the currency's own unit."""
    assert minor_units(amount, currency) == units


@pytest.mark.parametrize(
    ("amount", "currency", "reason"),
    [
        (0.1 + 0.2, "USD", "float"),
        (5.0, "USD", "float"),
        ("5.00", "USD", "str"),
        (True, "USD", "bool"),
        (None, "USD", "NoneType"),
        (Decimal("NaN"), "USD", "NaN"),
        (Decimal("sNaN"), "USD", "NaN"),
        (Decimal("Infinity"), "USD", "Infinity"),
        (-1, "USD", "negative"),
        (Decimal("-0.01"), "USD", "negative"),
        (Decimal("5.0600000001"), "USD", "at most 2 decimal places"),
        (Decimal("2.345"), "USD", "at most 2 decimal places"),
        (Decimal("500.5"), "JPY", "at most 0 decimal places"),
        (Decimal("1E-999999"), "USD", "at most 2 decimal places"),
        (Decimal("1E+999999"), "USD", "40 digits"),
        (Decimal("1" * 41), "USD", "40 digits"),
        (10**18 + 1, "USD", "10\\*\\*18"),
        (5, "usd", "ISO 4217"),
        (5, "XXX", "ISO 4217"),
        (5, "", "ISO 4217"),
        (5, None, "ISO 4217"),
    ],
)
def test_k7_09_what_is_not_exact_money_is_refused_with_the_reason(amount: Any, currency: Any, reason: str) -> None:
    """K7-09: never rounded, never guessed."""
    with pytest.raises(MoneyError, match=reason):
        minor_units(amount, currency)
