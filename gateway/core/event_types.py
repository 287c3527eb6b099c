"""The event log's closed taxonomy (7.6): every type there is, and what an event of it may say.

docs/events.md is held to this table.

The order is that of the numbers under which types lie in ledgers: new ones come at the end, none goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class EventType(NamedTuple):
    """`said`: the fields that an event may have besides `seq`, `type`, `at` and `effect_id`; each may be left out."""

    means: str
    said: tuple[str, ...] = ()


_RULED: Final = ("rule", "bundle_version")
_ASKED: Final = ("target", "tool_call_id", "turn")
_DECIDED: Final = ("approval", "by", "via", "principal", "rationale", "customer_message")

EVENT_TYPES: Final[Mapping[str, EventType]] = {
    "effect.proposed": EventType(
        "A new effect came.",
        ("kind", "target", "tool_call_id", "turn", "step", "attempt", "tool_version"),
    ),
    "effect.allowed": EventType("It may run.", ("idempotency", *_RULED)),
    "effect.denied": EventType(
        "It may not run. Without an `effect_id`: nothing was recorded, asking again is judged again.",
        ("code", *_ASKED, "first", "reason", *_RULED),
    ),
    "effect.rate_limited": EventType(
        "Too many for now; nothing was recorded.", (*_ASKED, "kind", "reason", "retry_after_s", *_RULED)
    ),
    "effect.awaiting_approval": EventType(
        "It is held.", ("because", "first", "approval", "approvers", "reason", "expires_at", *_RULED)
    ),
    "effect.executing": EventType(
        "It was claimed; durable before the merchant is contacted. `by` is `runtime` where not the gateway runs it.",
        ("lease_s", "again", "by"),
    ),
    "effect.renewed": EventType("Its holder asked for more time.", ("lease_s",)),
    "effect.succeeded": EventType("It was done.", ("late", "said_by_merchant", "result_dropped")),
    "effect.failed": EventType("It was refused or failed.", ("code", "late", "said_by_merchant")),
    "effect.indeterminate": EventType(
        "Nobody knows whether it was done. `seen`, an excerpt of what the merchant answered, is shown to keys that may "
        "read results; to others `seen_sha256`.",
        ("reason", "http_status", "seen"),
    ),
    "effect.released": EventType("It was given back, not sent; its id is free.", ("reason",)),
    "effect.resolved": EventType(
        "Somebody said how an unknown outcome ended.",
        ("outcome", "by", "note", "evidence", "said_by_merchant", "code", "result_dropped"),
    ),
    "effect.conflict": EventType(
        "A success came that contradicts the record, which stands. `seen` is what it gave, shown as above.",
        ("stands", "came", "said_by_merchant", "seen"),
    ),
    "effect.replayed": EventType(
        "It was asked for again and answered from the record; at most once a minute a call, with a count.",
        ("matched", "count"),
    ),
    "approval.requested": EventType(
        "Somebody has to decide.",
        ("approval", "instead_of", "approvers", "because", "first", "reason", "message", "expires_at", *_RULED),
    ),
    "approval.granted": EventType("Somebody agreed.", _DECIDED),
    "approval.denied": EventType("Somebody refused.", _DECIDED),
    "approval.expired": EventType("Nobody decided in time.", ("approval",)),
    "approval.used": EventType("The one use that a grant has was made.", ("approval",)),
    "tool.registered": EventType(
        "A tool has a new version.", ("tool", "version", "by", "side_effecting", "source", "reason")
    ),
    "tool.removed": EventType("A tool is gone.", ("tool", "version", "by")),
}


def unlisted(type_: str, said: Mapping[str, object]) -> list[str]:
    """What an event has that the table lacks: its type, or names in what it says."""
    row = EVENT_TYPES.get(type_)
    return [type_] if row is None else [f"{type_}: {name}" for name in said if name not in row.said]


def table() -> str:
    """The taxonomy as docs/events.md shows it."""
    rows = ["| type | what happened | what it may say |", "|---|---|---|"]
    rows += [
        f"| `{type_}` | {row.means} | {', '.join(f'`{name}`' for name in row.said) or '–'} |"
        for type_, row in EVENT_TYPES.items()
    ]
    return "\n".join(rows)
