"""The merchant's endpoint without its server: verify, parse, work, commit, and only then reply (semantics 6).

The reply of a call is built from `Work.answer`, which does not exist before the commit; there is no other way out
of here with a 200. `asgi` and `wsgi` carry the bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from merchant_sdk.call_status import call_status
from merchant_sdk.errors import (
    BodyTooLarge,
    KeyInputError,
    MalformedCall,
    OutcomeUnknown,
    Refused,
    SignatureError,
    StoreBusy,
    TransactionEnded,
)
from merchant_sdk.hooks import Finish
from merchant_sdk.reply import to_json
from merchant_sdk.shop import Shop
from merchant_sdk.signing import verify
from merchant_sdk.stores.failures import in_drivers_words
from merchant_sdk.wire import Call, Question, parse_call, parse_question

Headers = Sequence[tuple[bytes, bytes]]
Header = tuple[bytes, bytes]

STATUS_PATH = "/status"
HEALTH_PATH = "/health"
# Bytes of a refused body that are read and thrown away. A server that closes on unread bytes resets the connection,
# and the sender may lose the answer that told it why; beyond this, it is not worth reading.
MOST_DISCARDED = 16 << 20
_JSON_TYPES = frozenset({b"application/json", b"text/json"})

_log = logging.getLogger("merchant_sdk")


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole HTTP answer. `body` is JSON text."""

    status: int
    body: str
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """What a verified request asks for; `kind` says which threads may do it."""

    kind: Literal["read", "write"]
    run: Callable[[Finish], Reply]


class Rejected(Exception):
    """A request that is answered before anybody looks at what it asks."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply


class Endpoint:
    """Everything between the bytes of a request and those of its answer. `max_body` is in bytes."""

    def __init__(self, shop: Shop, *, max_body: int) -> None:
        self.shop = shop
        self.max_body = max_body

    def is_health(self, method: str, path: str) -> bool:
        return method in ("GET", "HEAD") and path.rstrip("/").endswith(HEALTH_PATH)

    def health(self) -> Reply:
        """200 while the shop's database answers, else 503. Blocking."""
        try:
            with self.shop.store.reading():
                return Reply(200, to_json({"status": "ok"}))
        except Exception as error:
            _log.warning("not healthy: %s", in_drivers_words(error))
            return error_reply(503, "database_unavailable", "The shop's database does not answer.")

    def check_head(self, method: str, headers: Headers) -> None:
        """What can be refused before the body is read. Raises Rejected or BodyTooLarge."""
        if method != "POST":
            raise Rejected(error_reply(405, "method_not_allowed", "Calls are sent with POST.", (b"allow", b"POST")))
        for raw_name, value in headers:
            name = raw_name.lower()
            if name == b"content-encoding":
                raise Rejected(error_reply(415, "encoding_not_accepted", "Bodies are sent without an encoding."))
            if name == b"content-length":
                if not value.isdigit():
                    raise Rejected(error_reply(400, "malformed_request", "Content-Length is a whole number."))
                self.check_length(int(value) if len(value) <= 18 else self.max_body + 1)

    def check_length(self, length: int) -> None:
        """Raises BodyTooLarge for a body of more than `max_body` bytes."""
        if length > self.max_body:
            raise BodyTooLarge(self.max_body)

    def accept(self, path: str, headers: Headers, body: bytes) -> Job:
        """Verify and read a request. Raises SignatureError, MalformedCall or Rejected."""
        verified = verify(self.shop.secrets, headers, body, now=self.shop.now())
        for name, value in headers:
            if name.lower() == b"content-type" and value.split(b";")[0].strip().lower() not in _JSON_TYPES:
                raise Rejected(error_reply(415, "content_type_not_accepted", "A body is application/json."))
        if path.rstrip("/").endswith(STATUS_PATH):
            # A status question and a call cannot be taken for one another: neither has the other's fields.
            question = parse_question(body)
            return Job("write", lambda _: self._status(question))
        call = parse_call(verified.id, body)
        tool = self.shop.tools.get(call.tool)
        if tool is not None and not tool.side_effecting:
            return Job("read", lambda finish: Reply(200, self.shop.run_read(call, finish)))
        _require_idempotency_key(headers, call)
        return Job("write", lambda finish: self._call(call, finish))

    def _call(self, call: Call, finish: Finish) -> Reply:
        answer = self.shop.run_call(call, finish)
        return Reply(200, answer.body, ((b"idempotent-replayed", b"true"),) if answer.matched else ())

    def _status(self, question: Question) -> Reply:
        said = call_status(self.shop.store, question.key, now=self.shop.now, first_at=question.first_at)
        return Reply(200, said.to_json())


def reply_to(error: Exception) -> Reply:
    """What each error means on the wire (semantics 5), and its line in the log."""
    if isinstance(error, Rejected):
        return error.reply
    if isinstance(error, SignatureError):
        _log.warning("request refused: %s", error)
        # One answer for all kinds: the reason is for our log, not for whoever is guessing.
        return error_reply(401, "signature_invalid", "The signature is missing or wrong.")
    if isinstance(error, BodyTooLarge):
        return error_reply(413, "body_too_large", f"A body is at most {error.most} bytes.")
    if isinstance(error, MalformedCall):
        _log.warning("call refused: %s", error)
        return error_reply(400, "malformed_call", f"This is not a call: {error}.")
    if isinstance(error, Refused):
        if isinstance(error.__cause__, KeyInputError):  # of what came, or of what the shop's own code put in
            _log.warning("%s: %s", error.code, error.__cause__)
        return error_reply(error.status, error.code, error.message)
    if isinstance(error, StoreBusy):
        # 429 tells the gateway that nothing was executed, which is true: the work never began.
        why = f" ({in_drivers_words(error)})" if error.__cause__ else ""
        _log.warning("call put off: %s%s", error, why)
        return error_reply(429, "merchant_busy", "The shop is busy. Nothing was done.", (b"retry-after", b"1"))
    if isinstance(error, OutcomeUnknown | TransactionEnded):
        _log.error("call failed: its outcome is not known", exc_info=error)
        return error_reply(
            500, "merchant_error", "The shop failed at the end of this call: what it stored is not known."
        )
    _log.error("call failed: rolled back", exc_info=error)
    return error_reply(500, "merchant_error", "The shop failed to finish this call and stored nothing of it.")


def error_reply(status: int, code: str, message: str, *headers: Header) -> Reply:
    return Reply(status, to_json({"error": {"code": code, "message": message}}), headers)


def reply_headers(reply: Reply, body: bytes) -> list[Header]:
    return [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *reply.headers]


def _require_idempotency_key(headers: Headers, call: Call) -> None:
    if not any(name.lower() == b"idempotency-key" for name, _ in headers):
        raise MalformedCall("a side-effecting call carries an Idempotency-Key")
    refuse_borrowed_key(headers, call.key)


def refuse_borrowed_key(headers: Headers, key: str) -> None:
    """The header is not signed, the equal `webhook-id` is: a captured request must not be replayed under another
    key. Raises SignatureError."""
    if any(name.lower() == b"idempotency-key" and value != key.encode() for name, value in headers):
        raise SignatureError("no_match")
