"""Values of the simulated ledger: under which names they stand, when they end, when an effect falls due."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gateway.core.conversation import Where
from gateway.core.record import Effect, Status
from gateway.core.requests import HOLD_MS

Name = tuple[str, bytes]
EVER: Final = float("inf")


class Stored(NamedTuple):
    """One value: its version, the thing itself, and when it ends (ms)."""

    version: bytes
    value: Any
    ends: float


def read_by(where: Where) -> list[Name]:
    names: list[Name] = [("slot", slot) for slot in where.slots]
    names.append(("identical", where.fingerprint))
    if where.turn is not None:
        names.append(("turn", where.turn.encode()))
    names.extend(("effect", effect) for effect in where.effects)
    return names


def key_of(where: Where, name: Name) -> tuple[Any, ...]:
    kind, rest = name
    return (kind, where.conversation, rest) if kind in ("identical", "turn") else (kind, rest[:16])


def begins(effect: Effect) -> bool:
    return effect.first_at is None if effect.status is Status.AWAITING_APPROVAL else effect.settled_at is None


def counts_anew(effect: Effect, before: Effect | None) -> bool:
    """Whether this write changes when it falls due."""
    if effect.status is Status.AWAITING_APPROVAL:
        return effect.approval is not None and effect.approval.at is None
    return effect.claimed_at is None or before is None or before.lease_ms != effect.lease_ms


def falls_due(effect: Effect, now: int) -> int:
    """By the ledger's clock: when its lease is over, or the approval lapses which it waits for."""
    if effect.status is Status.EXECUTING:
        return (now if effect.claimed_at is None else effect.claimed_at) + effect.lease_ms
    if effect.status is not Status.AWAITING_APPROVAL:
        return now
    timeout_ms = None if effect.approval is None else effect.approval.timeout_ms
    return now + (HOLD_MS if timeout_ms is None else timeout_ms)


def ending(settled: float | None) -> float:
    if settled is None:
        raise ValueError("these writes must say how long settled things stay")
    return settled


def put(undo: list[Any], where: dict[Any, Any], key: Any, value: Any) -> None:
    undo.append((where, key, where.get(key)))
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value
