"""What an answer has to be. Each judge raises Convicted, in words a merchant can act on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from gateway.commands.merchant_check.exchange import Exchange

REFUSES: Final = frozenset({400, 402, 404, 405, 406, 407, *range(410, 425), 426, 428, 431, 451})
"""Read as a definite no (semantics 5)."""
NOT_EXECUTED: Final = frozenset({401, 403, 425, 429})
"""Read as: nothing was done, the same call may come again."""
LEAK_LENGTH: Final = 8
"""Characters from which on a text of one order is known again in another's answer."""


class Convicted(Exception):
    """The merchant did not keep the promise; the message says what it did."""


def must_be_done(exchange: Exchange) -> None:
    if not exchange.done:
        raise Convicted(f"{exchange.what} was not done: {exchange.said}")
    unread = _unreadable(exchange)
    if unread:
        raise Convicted(f"{exchange.what} was answered with {unread}: {exchange.said}")


def _unreadable(exchange: Exchange) -> str:
    """Why a gateway would not read a 2xx's body, which leaves the outcome unknown (semantics 5); empty if it would."""
    encoding = exchange.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        return f"a body in {encoding}, which was not asked for and is not read"
    if not exchange.body:
        return ""
    media, _, parameters = exchange.headers.get("content-type", "").partition(";")
    media = media.strip().lower()
    if media == "text/html":
        return "HTML, which a gateway takes for an error page"
    is_json = media in ("", "application/json", "text/json", "application/x-json") or media.endswith("+json")
    if not is_json and (media in ("text/xml", "text/event-stream") or not media.startswith("text/")):
        return f"{media}, which is neither JSON nor text"
    try:
        # Another charset than UTF-8 is read where it is declared.
        text = exchange.body.decode("utf-8" if "charset" not in parameters.lower() else "latin-1")
    except UnicodeDecodeError:
        return "text that is not UTF-8"
    if is_json and text.strip():
        try:
            json.loads(text, parse_constant=_no_constant, parse_int=str)
        except (ValueError, RecursionError):
            return f"{media or 'no content type, and a body'} that is no JSON"
    return ""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def must_be_refused(exchange: Exchange) -> str:
    """A stranger's request. A remark where the status is not the best one."""
    if exchange.done:
        raise Convicted(f"{exchange.what} was taken: {exchange.said}")
    _must_be_definite(exchange, REFUSES | NOT_EXECUTED)
    return "" if exchange.status in (401, 403) else f"answered {exchange.status}; 401 is what says: nothing was done"


def must_be_no(exchange: Exchange) -> None:
    """The merchant's own refusal of a call that was signed."""
    if exchange.done:
        raise Convicted(f"{exchange.what} was taken: {exchange.said}")
    if exchange.status in NOT_EXECUTED:
        raise Convicted(f"{exchange.what} was answered {exchange.status}, which invites the gateway to send it again")
    _must_be_definite(exchange, REFUSES)


def must_conflict(exchange: Exchange, first: Exchange, asked: bytes) -> str:
    """A key that is another's: a no, and nothing of the first one's result. A remark where the status is not the
    best one."""
    if exchange.done:
        other = "the other's order" if exchange.json == first.json else "an answer of its own"
        raise Convicted(f"{exchange.what} got {other}, not a conflict: {exchange.said}")
    _must_be_definite(exchange, REFUSES | NOT_EXECUTED | {409})
    text = exchange.body.decode("utf-8", "replace")
    sent = asked.decode("utf-8", "replace")
    leaked = [each for each in _texts(first.json) if len(each) >= LEAK_LENGTH and each in text and each not in sent]
    if leaked:
        raise Convicted(f"{exchange.what} was refused with the first order's {leaked[0]!r} in it")
    return "" if exchange.status in REFUSES else f"answered {exchange.status}; 422 is what is read as a plain no"


def must_agree(answers: Sequence[Exchange]) -> None:
    """All done, with one result."""
    for each in answers:
        must_be_done(each)
    first = answers[0]
    for each in answers[1:]:
        if each.json != first.json:
            raise Convicted(f"{each.what} was answered {each.said}, and {first.what} {first.said}")


def _must_be_definite(exchange: Exchange, statuses: frozenset[int]) -> None:
    if exchange.status not in statuses:
        raise Convicted(f"{exchange.what} was not plainly refused, which leaves the outcome unknown: {exchange.said}")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inside for text in _texts(each)]
