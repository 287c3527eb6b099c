"""Reading Retry-After (RFC 9110, 10.2.3) from merchants who do not: a hint, bounded, or none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_S: Final = 3_600.0
_SECONDS = re.compile(r"[0-9]{1,32}(?:\.[0-9]{1,32})?")
_LONGEST_DATE = 64


def retry_after_s(values: Iterable[str], *, now_s: float) -> float | None:
    """Seconds to wait, 0 to 3,600, or None if no value can be read.

    `values` are the field values as received, several if the header was repeated: the longest wait counts.
    `now_s` is Unix time, for the date form; a date gone by gives 0. Negative numbers and junk are ignored.
    Never raises.
    """
    waits = [wait for value in values if (wait := _one(value.strip(), now_s)) is not None]
    return max(waits) if waits else None


def _one(value: str, now_s: float) -> float | None:
    if _SECONDS.fullmatch(value):
        return min(float(value), LONGEST_S)
    # The date parser takes nearly anything, "-5" and "120junk" among them: a date names its weekday first.
    if not value[:3].isalpha() or len(value) > _LONGEST_DATE:
        return None
    try:
        wait = parsedate_to_datetime(value).timestamp() - now_s
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None
    return min(max(wait, 0.0), LONGEST_S)
