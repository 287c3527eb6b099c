"""Every row of section 5's table, read wrongly: each group of answers as each of the three things that it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.core.outcome import MerchantRefusal, Outcome, OutcomeKind, Reason, Seen, SeenKind
from gateway.service import sending
from tests.faults.guards import Guard
from tests.faults.plan import Plan
from tests.faults.replies import FAULTS, OK, REPLIES, Reply, Way
from tests.faults.shop import DECLARES_UNAVAILABLE

K = OutcomeKind
Matches = Callable[[Seen], bool]


def _status(*statuses: int) -> Matches:
    wanted = frozenset(statuses)
    return lambda seen: seen.kind is SeenKind.REPLY and seen.status in wanted


def _reason(*reasons: Reason) -> Matches:
    return lambda seen: seen.reason in reasons


def _body(content_type: str, starts: bytes, encoding: str = "") -> Matches:
    def matches(seen: Seen) -> bool:
        as_sent = seen.content_type == content_type and seen.content_encoding == encoding
        return _is_2xx(seen) and as_sent and seen.body.startswith(starts) and not seen.too_large

    return matches


def _is_2xx(seen: Seen) -> bool:
    return seen.kind is SeenKind.REPLY and seen.status is not None and 200 <= seen.status < 300


ROWS: Final[tuple[tuple[str, K, Matches], ...]] = (
    ("2xx JSON", K.SUCCEEDED, _body("application/json", b'{"order":"O-', "")),
    ("2xx JSON by another name", K.SUCCEEDED, _body("application/vnd.shop+json", b"")),
    ("2xx text", K.SUCCEEDED, _body("text/plain", b"order")),
    ("2xx empty", K.SUCCEEDED, _status(204)),
    ("2xx over the cap", K.SUCCEEDED, lambda seen: seen.too_large),
    ("400", K.FAILED, _status(400)),
    ("402", K.FAILED, _status(402)),
    ("404 to 407", K.FAILED, _status(*range(404, 408))),
    ("410 to 424", K.FAILED, _status(*range(410, 425))),
    ("426, 428", K.FAILED, _status(426, 428)),
    ("431", K.FAILED, _status(431)),
    ("451", K.FAILED, _status(451)),
    ("401", K.NOT_SENT, _status(401)),
    ("403", K.NOT_SENT, _status(403)),
    ("425", K.NOT_SENT, _status(425)),
    ("429", K.NOT_SENT, _status(429)),
    ("name not resolved", K.NOT_SENT, _reason(Reason.NAME_NOT_RESOLVED)),
    ("connect failed", K.NOT_SENT, _reason(Reason.CONNECT_FAILED)),
    ("TLS failed", K.NOT_SENT, _reason(Reason.TLS_FAILED, Reason.CERTIFICATE_INVALID)),
    ("nothing begun in time", K.NOT_SENT, _reason(Reason.TOO_LATE)),
    ("408", K.UNKNOWN, _status(408)),
    ("409", K.UNKNOWN, _status(409)),
    ("500", K.UNKNOWN, _status(500)),
    ("502", K.UNKNOWN, _status(502)),
    ("503", K.UNKNOWN, _status(503)),
    ("504", K.UNKNOWN, _status(504)),
    ("599", K.UNKNOWN, _status(599)),
    ("redirect", K.UNKNOWN, _status(*range(300, 309))),
    ("1xx as the last", K.UNKNOWN, _status(199)),
    ("a status of no row", K.UNKNOWN, _status(427, 430, 499, 600)),
    ("timeout", K.UNKNOWN, lambda seen: seen.kind is SeenKind.TIMEOUT and seen.sent),
    ("reset", K.UNKNOWN, _reason(Reason.CONNECTION_LOST)),
    ("truncated", K.UNKNOWN, _reason(Reason.REPLY_TRUNCATED)),
    ("HTML", K.UNKNOWN, _body("text/html", b"<html>")),
    ("unannounced HTML", K.UNKNOWN, _body("text/plain", b"<!doctype")),
    ("XML", K.UNKNOWN, _body("text/xml", b"<ok")),
    ("another type", K.UNKNOWN, _body("application/pdf", b"%PDF")),
    ("broken JSON", K.UNKNOWN, lambda seen: _is_2xx(seen) and seen.body == b'{"order": "O-'),
    ("undecodable", K.UNKNOWN, _body("application/json", b'{"order": "\xff')),
    ("compressed", K.UNKNOWN, _body("application/json", b"\x1f\x8b", "gzip")),
    ("too deep", K.UNKNOWN, _body("application/json", b"[[")),
)
"""Group, what it means, and which exchanges are in it."""
DECLARED: Final = (
    ("declared 503", K.NOT_SENT, _status(503)),
    ("declared 409", K.NOT_SENT, _status(409)),
)
"""The same where the merchant declared what they mean (5.1)."""

WRONG: Final = {
    K.SUCCEEDED: Outcome(K.SUCCEEDED, "read wrongly", "wrong", result=b'{"order": "none"}'),
    K.FAILED: Outcome(
        K.FAILED, "read wrongly", "wrong", error=MerchantRefusal("merchant_refused", "read wrongly", b"null")
    ),
    K.NOT_SENT: Outcome(K.NOT_SENT, "read wrongly", "wrong", code="merchant_not_ready"),
    K.UNKNOWN: Outcome(K.UNKNOWN, "read wrongly", "wrong"),
}
_real = sending.outcome_of


def _read_as(wrong: K, matches: Matches, declared: bool | None) -> Callable[..., Outcome]:
    def outcome_of(seen: Seen, **more: Any) -> Outcome:
        its = declared is None or bool(more.get("unavailable_means_not_executed")) is declared
        return WRONG[wrong] if its and matches(seen) else _real(seen, **more)

    return outcome_of


def _meets(matches: Matches, declared: bool) -> Callable[[Plan], bool]:
    """Histories with such an answer in them: first, so that it is met."""
    names = {name for name, reply in REPLIES.items() if matches(_seen(reply))}
    tools = {tool.name for tool in DECLARES_UNAVAILABLE}

    def fits(plan: Plan) -> bool:
        if declared and not any(ask.tool in tools for ask in plan.asks):
            return False
        return OK.name in names or any(fault.what in names for fault in plan.faults if fault.kind in FAULTS)

    return fits


def _seen(reply: Reply) -> Seen:
    """The exchange as the rows above see it."""
    if reply.way is Way.NO_CONNECTION:
        return Seen(SeenKind.NOT_CONNECTED, Reason(reply.name), False)
    if reply.way is Way.SILENCE:
        return Seen(SeenKind.TIMEOUT, Reason.TIMED_OUT, True)
    if reply.way is not Way.REPLY:
        reason = Reason.CONNECTION_LOST if reply.way is Way.RESET else Reason.REPLY_TRUNCATED
        return Seen(SeenKind.BROKEN, reason, True)
    body = reply.body if reply.body is not None else b'{"order":"O-1"}'
    body = b"order" if reply.body is None and reply.content_type == "text/plain" else body
    return Seen(
        SeenKind.REPLY,
        Reason.REPLIED,
        True,
        reply.status,
        reply.content_type,
        reply.charset,
        reply.encoding,
        body,
        reply.too_large,
    )


def _guards() -> tuple[Guard, ...]:
    found = []
    for rows, declared in ((ROWS, False), (DECLARED, True)):
        for name, right, matches in rows:
            # 503 and 409 have a row of their own where they are declared; no other answer is read by that.
            mine = declared if declared or name in ("503", "409") else None
            for wrong in K:
                if wrong is right:
                    continue
                change = (sending, "outcome_of", _read_as(wrong, matches, mine))
                promise = "5.1" if declared else "5"
                found.append(Guard(f"{name} is not {wrong}", promise, (change,), fits=_meets(matches, declared)))
    return tuple(found)


GUARDS_OF_ANSWERS: Final = _guards()
