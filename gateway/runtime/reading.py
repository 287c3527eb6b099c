"""From what was seen on the wire to a decoded body or the error it means (semantics 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.runtime.errors import NoAnswer, OncegateError, Problem
from gateway.runtime.exact_json import decode_answer
from gateway.runtime.exchange import Seen, Unseen
from gateway.runtime.resend import retry_after_seconds


def read_seen(seen: Seen | Unseen, *, identified: bool, exact: bool) -> tuple[Any, str] | OncegateError:
    """The decoded body and its text, or the error to raise or to send again for.

    A 200 that is no JSON and an error that is no problem document (a proxy's page) are `NoAnswer`: they
    say nothing about the call."""
    if isinstance(seen, Unseen):
        return _no_answer(seen, identified)
    try:
        if seen.text is None:
            raise ValueError("bytes that are not UTF-8")
        document = decode_answer(seen.text, exact=exact)
        if seen.status != 200:
            return read_problem(document, seen.status, retry_after_seconds(seen.retry_after))
        return document, seen.text
    except ValueError:
        return unreadable(seen.status, identified=identified)


def read_problem(document: object, status: int | None = None, retry_after: float | None = None) -> Problem:
    """The `Problem` in a decoded body; its own `status` and `retry_after` stand in where no header gave
    them, as in an entry of a batch. Raises ValueError where the body is not a problem of this gateway."""
    if not isinstance(document, dict) or not isinstance(document.get("code"), str):
        raise ValueError("not a problem document")
    body: Mapping[str, Any] = document
    outcome = body.get("outcome")
    stated = body.get("status")
    if status is None:
        if not isinstance(stated, int):
            raise ValueError("a problem without a status")
        status = stated
    if retry_after is None and body.get("retry_after") is not None:
        retry_after = retry_after_seconds(str(body["retry_after"]))
    worded = (body[name] for name in ("message", "detail", "title") if isinstance(body.get(name), str))
    return Problem(
        next(worded, body["code"]),
        code=body["code"],
        status=status,
        retryable=body.get("retryable") is True,
        outcome=outcome if isinstance(outcome, str) else None,
        retry_after=retry_after,
        body=body,
    )


def unreadable(status: int, *, identified: bool) -> NoAnswer:
    """An answer in words that are not the gateway's. A second send is worth it only where a healthy gateway
    would have said something else: after a 200 or a 5xx."""
    return NoAnswer(
        f"the answer (status {status}) is not the gateway's JSON",
        reason="unreadable",
        outcome="unknown",
        retryable=identified and (status == 200 or status >= 500),
        status=status,
    )


def after_a_lost_try(error: OncegateError) -> OncegateError:
    """`error` as it stands once an earlier try of the same request was lost on the way.

    The later try's "not sent" speaks for itself alone: with the gateway or its ledger out of reach nobody
    looked whether the earlier try had run. Every other refusal was made by a gateway that had read the
    ledger first (4.10)."""
    if isinstance(error, NoAnswer) or (isinstance(error, Problem) and error.status == 503):
        error.outcome = "unknown"
    return error


def _no_answer(unseen: Unseen, identified: bool) -> NoAnswer:
    connected = unseen.reason != "not_connected"
    return NoAnswer(
        f"no answer from the gateway: {unseen.reason.replace('_', ' ')} ({unseen.detail})",
        reason=unseen.reason,
        outcome="unknown" if connected else "not_sent",
        # An answer too large to read would be as large the next time.
        retryable=(identified or not connected) and unseen.reason != "unreadable",
    )
