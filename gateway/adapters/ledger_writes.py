"""What the writes of one decision become in Redis: values, how long they live, index entries (4.13, 4.15). Pure."""

from __future__ import annotations

from typing import Any, Final

from gateway.adapters import ledger_codec as codec
from gateway.adapters.redis_seals import mark_of
from gateway.core.conversation import CallSlot, PrintSlot, View, Where, Writes
from gateway.core.record import UNENDING, Effect, Status
from gateway.core.requests import HOLD_MS

Name = tuple[str, bytes]
"""Of a value, as a view's `versions` has it."""
_DUE, _UNKNOWN, _LIVE = 3, 4, 1  # key numbers in swap.lua
_ABSENT: Final = Status.ABSENT
_FOREVER, _KEEP = "ever", "keep"
_EMPTIED_MS: Final = 3_600_000
"""How long a slot that was emptied, or was looked into and found empty, differs from one that never was: longer than
any command is under way. A claim that was decided before and arrives after finds it changed (4.11)."""
_INDEXES: Final = (
    (_DUE, (Status.EXECUTING, Status.AWAITING_APPROVAL)),
    (_UNKNOWN, (Status.INDETERMINATE,)),
)


def values_of(where: Where, view: View, writes: Writes) -> dict[Name, tuple[Any, Any, bytes]]:
    """For each value that changes: what to do, how long it may live, and its payload."""
    values: dict[Name, tuple[Any, Any, bytes]] = {}
    for effect_id, effect in writes.effects.items():
        values["effect", effect_id] = (
            (b"d", b"", b"") if effect is None else (b"w", _life(effect, writes), codec.effect_payload(effect))
        )
    records = {**view.effects, **writes.effects}
    for digest, slot in writes.slots.items():
        if not slot.bindings:
            values["slot", digest] = (b"d", b"", b"")
            continue
        life = _FOREVER if _some_open(slot) else _kept(writes)
        values["slot", digest] = (b"w", life, codec.slot_payload(slot, records))
    if writes.identical is not None:
        if writes.identical.known or writes.identical.taken:
            payload = codec.identical_payload(writes.identical)
            life = _FOREVER if _some_unending(writes.identical) else _kept(writes)
            values["identical", where.fingerprint] = (b"w", life, payload)
        else:
            payload = codec.identical_payload(writes.identical)
            values["identical", where.fingerprint] = (b"w", _EMPTIED_MS, payload)
    if writes.attempt_seen is not None and where.turn is not None:
        payload = codec.attempt_payload(writes.attempt_seen)
        values["turn", where.turn.encode()] = (b"w", _kept(writes), payload)
    return values


def _some_open(slot: CallSlot) -> bool:
    # A list, though it may look at more: a generator costs three times as much, and there is mostly one.
    return True in [binding.open for binding in slot.bindings]


def _some_unending(slot: PrintSlot) -> bool:
    return True in [known.status in UNENDING for known in slot.known]


def _life(effect: Effect, writes: Writes) -> int | str:
    if effect.status in UNENDING:
        return _FOREVER
    return _kept(writes) if _begins(effect) else _KEEP


def _begins(effect: Effect) -> bool:
    """Whether its retention starts with this write: a later alias of what is settled or held prolongs nothing."""
    return effect.first_at is None if effect.status is Status.AWAITING_APPROVAL else effect.settled_at is None


def _kept(writes: Writes) -> int:
    # Zero would be a key that is gone at once: a settled call that is run again.
    if writes.keep_ms <= 0:
        raise ValueError("these writes must say how long settled things stay")
    return writes.keep_ms


def operations_of(view: View, writes: Writes) -> list[Any]:
    """Index entries: which effects are live, which leases fall due, which outcomes are unknown."""
    operations: list[Any] = []
    for effect_id, after in writes.effects.items():
        before, member = view.effects.get(effect_id), effect_id[:16]
        was = before.status if before is not None else _ABSENT
        now = after.status if after is not None else _ABSENT
        if now is _ABSENT:
            operations += [_LIVE, b"-", member, b""]
        elif now in UNENDING:
            if was not in UNENDING:
                operations += [_LIVE, b"+", member, b"inf"]
        elif after is not None and _begins(after):
            operations += [_LIVE, b"+", member, writes.keep_ms]
        for index, listed in _INDEXES:
            if now in listed and after is not None:
                if was is not now or _starts_anew(after, before):
                    operations += [index, b"+", member, _falls_due(after, view.now_ms or 0)]
            elif was in listed:
                operations += [index, b"-", member, b""]
    return operations


def log_of(view: View, writes: Writes) -> bytes:
    """Whose events these are: every event comes with an effect that is written, or was read."""
    if not writes.events:
        return b""
    for effect in (*writes.effects.values(), *view.effects.values()):
        if effect is not None:
            return mark_of(effect)
    return b""  # lines without one are sealed with the next that has


def _starts_anew(effect: Effect, before: Effect | None) -> bool:
    """Whether its time counts from this write, or ends at another moment after it."""
    if effect.status is Status.AWAITING_APPROVAL:
        return effect.approval is not None and effect.approval.at is None
    return effect.claimed_at is None or before is None or effect.lease_ms != before.lease_ms


def _falls_due(effect: Effect, now_ms: int) -> int:
    """In how many ms the sweeper has to look at it; at once for what is unknown, which falls due never."""
    if effect.status is Status.AWAITING_APPROVAL:
        stands = effect.approval.timeout_ms if effect.approval is not None else None
        return HOLD_MS if stands is None else stands
    return max(0, effect.lease_left(now_ms)) if effect.status is Status.EXECUTING else 0
