"""What a merchant's status endpoint says of a call whose outcome is not known: the table of promise 5.4, as data.

Only a 2xx with a JSON object whose `status` is a known word says anything. All else, a 404 for a key that the
merchant does not know among it, says nothing: it binds nobody, and a call that is still on its way could be carried
out after it.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from gateway.core.outcome import RESULT_CAP, Seen, SeenKind
from gateway.core.record import Fault, Outcome, Status
from gateway.core.reply_body import NULL, Body, declared_body, read_body
from gateway.core.retry_after import retry_after_s

NOT_EXECUTED: Final = Fault(
    "not_executed",
    "Not done: the merchant says that this call was not carried out, and that it never will be. "
    "If the customer still wants it, make it as a new call.",
)


class Said(enum.StrEnum):
    """What an answer comes to."""

    COMMITTED = "committed"
    VOID = "void"
    IN_PROGRESS = "in_progress"
    NOTHING = "nothing"


class Row(NamedTuple):
    """What a word of the merchant's settles the effect as (None: nothing, it is asked again), and with which fault."""

    said: Said
    settles: Status | None
    fault: Fault | None = None


TABLE: Final[Mapping[str, Row]] = {
    "committed": Row(Said.COMMITTED, Status.SUCCEEDED),
    "void": Row(Said.VOID, Status.FAILED, NOT_EXECUTED),
    "in_progress": Row(Said.IN_PROGRESS, None),
}
"""By `status` of the answer. What is not here says nothing, and no answer ever sends a call again."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was learnt: `outcome` where it settles the effect. `reason`, of an answer that says nothing, is a word for
    logs; `retry_after_s` is how long the merchant asked to be left alone."""

    said: Said
    outcome: Outcome | None = None
    reason: str = ""
    retry_after_s: float | None = None


class _Reply(msgspec.Struct):
    status: str
    result: msgspec.Raw = msgspec.Raw(NULL)


_decode: Final = msgspec.json.Decoder(_Reply).decode
_COMMITTED_FIRST: Final = re.compile(rb'\s*\{\s*"status"\s*:\s*"committed"\s*,')


def told_by(seen: Seen, *, result_cap: int = RESULT_CAP, now_s: float = 0.0) -> Told:
    """Judge one answer. `now_s` is Unix time, used only to read a Retry-After date. Never raises.

    `committed` without a result is a success with an empty one (null); a result over the cap is dropped (4.12),
    also where the answer was too long to be read to its end, if `status` came first in it.
    """
    retry = retry_after_s(seen.retry_after, now_s=now_s) if seen.retry_after else None
    if seen.kind is not SeenKind.REPLY or seen.status is None:
        return Told(Said.NOTHING, reason=seen.reason)
    if not 200 <= seen.status < 300:
        return Told(Said.NOTHING, reason=f"http_{seen.status}", retry_after_s=retry)
    if seen.too_large:
        readable = declared_body(seen.content_type, seen.content_encoding) is Body.JSON
        if readable and _COMMITTED_FIRST.match(seen.body):
            return Told(Said.COMMITTED, Outcome(Status.SUCCEEDED, dropped=True))
        return Told(Said.NOTHING, reason="too_large", retry_after_s=retry)
    body, text = read_body(seen.body, seen.content_type, seen.charset, seen.content_encoding)
    if body is not Body.JSON or text is None:
        return Told(Said.NOTHING, reason=body, retry_after_s=retry)
    try:
        reply = _decode(text)
        once = _each_member_once(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Told(Said.NOTHING, reason="not_the_form", retry_after_s=retry)
    row = TABLE.get(reply.status)
    if row is None or not once:
        return Told(Said.NOTHING, reason="unknown_status" if once else "said_twice", retry_after_s=retry)
    if row.settles is None:
        return Told(row.said, retry_after_s=retry)
    if row.settles is Status.FAILED:
        return Told(row.said, Outcome(Status.FAILED, fault=row.fault))
    result = bytes(reply.result)
    if len(result) > result_cap:
        return Told(row.said, Outcome(Status.SUCCEEDED, dropped=True))
    return Told(row.said, Outcome(Status.SUCCEEDED, result))


def _each_member_once(text: bytes) -> bool:
    """Whether no member of the outermost object is there twice: `void` and `committed` in one answer are neither."""
    outermost: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> None:
        outermost[:] = [name for name, _ in pairs]  # objects end from the inside out

    json.loads(text, object_pairs_hook=members, parse_int=str, parse_float=str)
    return len(outermost) == len(set(outermost))
