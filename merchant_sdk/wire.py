"""The gateway's request body (semantics 6), read strictly: what is not exactly one call is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from merchant_sdk.errors import MalformedCall
from merchant_sdk.fingerprint import named_fingerprint
from merchant_sdk.keys import CallKey

# What the gateway lets through (2.9): a bound tighter than its own would fail a call that was already granted.
_DEEPEST = 65  # containers: arguments of 64 levels, and the body around them
_MOST_DIGITS = 1000
_LONGEST_EXPONENT = 6  # digits


@dataclass(frozen=True, slots=True)
class Context:
    """Who is talking. `company` and `conversation` are always there; the rest may be None."""

    company: str
    conversation: str
    turn: str | None = None
    tool_call_id: str | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call as the gateway sent it. `key` is the signed `webhook-id`.

    Numbers in `arguments` are int or Decimal, never float: the customer's digits arrive as sent.
    """

    key: str
    tool: str
    arguments: dict[str, Any]
    context: Context

    def call_key(self) -> CallKey:
        """The key of this call. Its fingerprint covers tool, arguments, company and conversation."""
        what = {
            "tool": self.tool,
            "arguments": self.arguments,
            "company": self.context.company,
            "conversation": self.context.conversation,
        }
        return CallKey(self.key, named_fingerprint(what))


def parse_call(key: str, body: bytes) -> Call:
    """Raises MalformedCall, with one short reason, for anything else than a call."""
    data = _read(body)
    tool, arguments, context = (data.get(name) for name in ("tool", "arguments", "context"))
    if not isinstance(tool, str) or not isinstance(arguments, dict) or not isinstance(context, dict):
        raise MalformedCall("a call has tool, arguments and context")
    return Call(key, tool, arguments, _context(context))


@dataclass(frozen=True, slots=True)
class Question:
    """A status question (5.4): the key it asks about, and when that was first sent at the earliest (Unix seconds)."""

    key: str
    first_at: float | None


def parse_question(body: bytes) -> Question:
    """Raises MalformedCall for anything else than a status question."""
    data = _read(body)
    key, tool, context, first_at = (data.get(name) for name in ("idempotency_key", "tool", "context", "first_at"))
    if not isinstance(key, str) or not isinstance(tool, str) or not isinstance(context, dict):
        raise MalformedCall("a status question has idempotency_key, tool and context")
    if first_at is not None and (isinstance(first_at, bool) or not isinstance(first_at, int | Decimal)):
        raise MalformedCall("first_at is a time in Unix seconds")
    try:
        return Question(CallKey(key, "?").text, None if first_at is None else float(first_at))
    except OverflowError:
        raise MalformedCall("first_at is a time in Unix seconds") from None
    except ValueError:
        raise MalformedCall("the idempotency_key is none of the gateway's") from None


def _read(body: bytes) -> dict[str, Any]:
    try:
        # Decoded here, because json.loads would guess UTF-16 and UTF-32 from bytes.
        data = json.loads(
            body.decode(),
            object_pairs_hook=_object,
            parse_float=_decimal,
            parse_int=_integer,
            parse_constant=_no_constant,
        )
        _check(data)
    except RecursionError:
        raise MalformedCall("the body is nested too deeply") from None
    except ValueError:
        raise MalformedCall("the body is not JSON in UTF-8") from None
    if not isinstance(data, dict):
        raise MalformedCall("the body is not an object")
    return data


_CONTEXT_TYPES: dict[str, tuple[type, ...]] = {
    "company": (str,),
    "conversation": (str,),
    "turn": (str, type(None)),
    "tool_call_id": (str, type(None)),
    "attempt": (int, type(None)),
}


def _context(data: dict[str, Any]) -> Context:
    # Unknown fields are let through: a newer gateway may say more.
    known: dict[str, Any] = {name: data.get(name) for name in _CONTEXT_TYPES}
    for name, types in _CONTEXT_TYPES.items():
        if not isinstance(known[name], types) or isinstance(known[name], bool):
            raise MalformedCall(f"context.{name} has the wrong type")
    return Context(**known)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise MalformedCall("a field comes twice")
    return made


def _decimal(text: str) -> Decimal:
    exponent = re.split("[eE]", text)[1:]
    # A short text can name a huge number; turning it into an int would take all day.
    too_far = bool(exponent) and len(exponent[0].lstrip("+-0")) > _LONGEST_EXPONENT
    if too_far or _too_many_digits(text) or math.isinf(float(text)):
        raise MalformedCall("a number is out of range")
    return Decimal(text)


def _integer(text: str) -> int:
    if _too_many_digits(text):
        raise MalformedCall("a number is out of range")
    return int(text)


def _too_many_digits(text: str) -> bool:
    return len(text) > _MOST_DIGITS and sum(map(str.isdigit, text)) > _MOST_DIGITS


def _no_constant(name: str) -> NoReturn:
    raise MalformedCall(f"{name} is not JSON")


def _check(data: Any) -> None:
    """Depth and whole characters, without recursion."""
    level = [data]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for value in (value for container in level for value in _inside(container)):
            if isinstance(value, str):
                value.encode()  # half a surrogate pair: UnicodeEncodeError is a ValueError
            elif isinstance(value, dict | list):
                below.append(value)
        if not below:
            return
        level = below
    raise MalformedCall("the body is nested too deeply")


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, list):
        yield from value
