"""Money as whole minor units of an ISO 4217 currency.

An `int` is an amount in minor units (500 is 5.00 USD, and 500 JPY). A `Decimal` is in the currency's own unit
(Decimal("5.00") USD) and has to fit its exponent exactly: nothing is ever rounded here. Floats and text are
refused, because 0.1 + 0.2 is not 0.3 and "1,000" is two different amounts.
"""

from __future__ import annotations

from decimal import Decimal

from merchant_sdk.errors import MoneyError

Amount = int | Decimal

_LARGEST = 10**18  # minor units; no shop's price, and it keeps every later step bounded
_MOST_DIGITS = 40

# ISO 4217: how many decimal places each currency's minor unit has.
_CODES = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
    2: (
        "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF "
        "CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL "
        "HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP "
        "MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD "
        "SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS "
        "VED VES WST XCD XCG YER ZAR ZMW ZWG"
    ),
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
EXPONENTS: dict[str, int] = {code: places for places, codes in _CODES.items() for code in codes.split()}


def minor_units(amount: Amount, currency: str) -> int:
    """`amount` in whole minor units of `currency` (three capital letters). Raises MoneyError, saying why."""
    places = exponent(currency)
    if isinstance(amount, bool) or not isinstance(amount, int | Decimal):
        raise MoneyError(
            f"an amount is an int of minor units or a Decimal, not {type(amount).__name__}: "
            "binary floats and text do not hold exact money"
        )
    units = amount if isinstance(amount, int) else _scaled(amount, places, currency)
    if units < 0:
        raise MoneyError("an amount is not negative")
    if units > _LARGEST:
        raise MoneyError("an amount is at most 10**18 minor units")
    return units


def exponent(currency: str) -> int:
    """Decimal places of a currency's minor unit. Raises MoneyError for a code that ISO 4217 does not list."""
    if not isinstance(currency, str) or currency not in EXPONENTS:
        raise MoneyError("a currency is an ISO 4217 code in capitals, such as EUR")
    return EXPONENTS[currency]


def _scaled(amount: Decimal, places: int, currency: str) -> int:
    sign, digits, power = amount.as_tuple()
    if not isinstance(power, int):
        raise MoneyError("an amount is a finite number, not NaN or Infinity")
    if amount.is_zero():
        return 0
    if len(digits) > _MOST_DIGITS or amount.adjusted() > _MOST_DIGITS:
        raise MoneyError("an amount has at most 40 digits")
    whole = int("".join(map(str, digits)))
    shift = power + places
    if shift >= 0:
        whole *= int(10**shift)
    else:
        # With at most 40 digits, shifting by more leaves a remainder: no need to raise 10 to a huge power.
        whole, rest = divmod(whole, int(10 ** min(-shift, _MOST_DIGITS + 1)))
        if rest:
            raise MoneyError(
                f"an amount in {currency} has at most {places} decimal places: "
                "round it by your own rule, or price the line as a whole"
            )
    return -whole if sign else whole
