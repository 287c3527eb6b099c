"""When the same request may be sent to the gateway again, and after how long. Pure: no clock, no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.runtime.errors import NoAnswer, OncegateError, Problem


@dataclass(frozen=True, slots=True)
class Resend:
    """Bounds. At most `times` further sends of one request; waits in seconds.

    Without a `Retry-After` the wait is `first_wait_s` doubled at each resend, spread by jitter. One that asks
    for more than `longest_wait_s` is not waited out: the problem is raised, its `retry_after` intact.
    """

    times: int = 3
    first_wait_s: float = 0.25
    longest_wait_s: float = 10.0


@dataclass(frozen=True, slots=True)
class _Rule:
    needs_identity: bool
    needs_retry_after: bool = False


# What is missing here is never sent again by the client.
RULES: Mapping[str, _Rule] = {
    "not_connected": _Rule(needs_identity=False),
    # The gateway may have run it. Only an identity makes the second send a replay (2.1, 2.7).
    "lost": _Rule(needs_identity=True),
    "timed_out": _Rule(needs_identity=True),
    "unreadable": _Rule(needs_identity=True),
    "call_in_flight": _Rule(needs_identity=True),
    "unavailable": _Rule(needs_identity=False),  # any 503: the gateway sent nothing (4.11)
    "rate_limited": _Rule(needs_identity=False, needs_retry_after=True),
    "merchant_not_ready": _Rule(needs_identity=False, needs_retry_after=True),
}


def wait_before_resend(
    error: OncegateError, *, identified: bool, sent_again: int, bounds: Resend, jitter: float
) -> float | None:
    """Seconds to wait before sending the same bytes again, or None to raise `error`.

    `identified`: the request names its call (`has_identity`), or only reads. `sent_again` counts the
    resends so far; `jitter` is in [0, 1)."""
    if sent_again >= bounds.times or not error.retryable:
        return None
    rule = RULES.get(_kind(error))
    retry_after = error.retry_after if isinstance(error, Problem) else None
    if rule is None or (rule.needs_identity and not identified):
        return None
    if retry_after is not None:
        return retry_after if retry_after <= bounds.longest_wait_s else None
    if rule.needs_retry_after:
        return None
    grown = min(bounds.first_wait_s * 2.0**sent_again, bounds.longest_wait_s)
    return grown * (0.5 + 0.5 * jitter)


def has_identity(tool_call_id: object, turn: object, attempt: object) -> bool:
    """Whether the gateway can tell a second send from a second call: by its `tool_call_id` (2.1), or by
    turn and attempt, both stated (2.7)."""
    if isinstance(tool_call_id, str) and tool_call_id.strip():
        return True
    return turn is not None and attempt is not None


def retry_after_seconds(header: str | None) -> float | None:
    """A `Retry-After` of whole seconds. Dates, signs, fractions, junk and more than nine digits count as
    none."""
    text = (header or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def _kind(error: OncegateError) -> str:
    if isinstance(error, NoAnswer):
        return error.reason
    if isinstance(error, Problem):
        return "unavailable" if error.status == 503 else error.code
    return ""
