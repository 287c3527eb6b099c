"""Replies as JSON text that every reader can decode, and the mark of a repeated purchase."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any


def to_json(value: Any) -> str:
    """Compact JSON text. Decimal becomes text, half a surrogate pair U+FFFD, a key that is a number, true, false or
    null its JSON. Raises TypeError, ValueError; also for two keys that would have one name."""
    text = _ENCODER.encode(value)
    _refuse_one_name(value)
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def utc(at: float) -> str:
    """Unix seconds as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def mark_repeat(body: str, first_at: float, order_again: str) -> str:
    """The original reply, saying that it is one: a model has to see it, so it goes into the body.

    An object gains `already_done` `{at, message, order_again?}`, text gains a sentence, anything else is
    wrapped as `{"result", "already_done"}`.
    """
    at = utc(first_at)
    message = f"Already done at {at}; nothing new was done."
    result = json.loads(body)
    if isinstance(result, str):
        return to_json(" ".join(filter(None, (result, message, order_again))))
    mark = {"at": at, "message": message} | ({"order_again": order_again} if order_again else {})
    marked = result if isinstance(result, dict) else {"result": result}
    return to_json(marked | {"already_done": mark})


def _refuse_one_name(value: Any) -> None:
    """After encoding, which has found what goes round in circles."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            names = {key if isinstance(key, str) else _ENCODER.encode(key) for key in each}
            if len(names) < len(each):
                raise ValueError("two keys of the reply have one name as JSON, such as 1 and '1'")
            left += each.values()
        elif isinstance(each, list | tuple):
            left += each


def _plain(value: Any) -> str:
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    raise TypeError(f"a reply is made of JSON values and Decimal, not of {type(value).__name__}")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
