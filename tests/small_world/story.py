"""What a single swap may do to a record, and that its events tell the same (promises 4.1, 4.6, 7.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.core.conversation import Event
from gateway.core.record import SETTLED, TRANSITIONS, Effect, Mode, Status


class Broken(Exception):
    """A promise does not hold. The message names it."""


S = Status
TOLD: Final[dict[str, tuple[frozenset[str], str]]] = {
    "effect.proposed": (frozenset({"absent"}), "proposed"),
    "effect.allowed": (frozenset({"proposed", "awaiting_approval"}), "allowed"),
    "effect.awaiting_approval": (frozenset({"proposed"}), "awaiting_approval"),
    "effect.executing": (frozenset({"allowed", "indeterminate"}), "executing"),
    "effect.succeeded": (frozenset({"executing", "indeterminate", "absent"}), "succeeded"),
    "effect.failed": (frozenset({"executing", "indeterminate"}), "failed"),
    "effect.indeterminate": (frozenset({"executing"}), "indeterminate"),
    "effect.released": (frozenset({"executing", "indeterminate"}), "absent"),
    "effect.denied": (frozenset({"awaiting_approval"}), "denied"),
}
"""Type of an event -> what a reader of the log must believe before it, and believes after it."""
ASIDE: Final = frozenset(
    {
        *("effect.conflict", "approval.requested", "approval.expired"),
        *("approval.granted", "approval.denied", "approval.used"),
    }
)
"""Events that change no status."""


def status_of(effect: Effect | None) -> Status:
    return S.ABSENT if effect is None else effect.status


def check_record(before: Effect | None, after: Effect | None, *, released: bool) -> None:
    """4.1: the table has a cell for this; 4.6: under at_most_once nothing unknown is sent again by itself. `released`:
    its events say that its holder gave it back, having sent nothing: that token may be forgotten."""
    was, now = status_of(before), status_of(after)
    if was is not now and not any(now in reached for reached in TRANSITIONS[was].values()):
        raise Broken(f"4.1: a record went from {was.value} to {now.value}")
    if before is None or after is None:
        return
    rerun = now is S.EXECUTING and was is not S.ABSENT and len(after.tokens) > len(before.tokens)
    if rerun and before.was_unknown and after.mode is Mode.AT_MOST_ONCE:
        raise Broken("4.6: an unknown outcome was run again under at_most_once")
    if was in SETTLED and before.outcome != after.outcome:
        raise Broken(f"4.1: the outcome of a {was.value} record was changed")
    given_back = released or (was is S.EXECUTING and now is S.INDETERMINATE)
    if before.tokens[: -1 if given_back else None] != after.tokens[: len(before.tokens) - given_back]:
        raise Broken("4.4: a token that was issued is forgotten")


def check_events(
    before: Mapping[bytes, Effect | None], after: Mapping[bytes, Effect | None], events: tuple[Event, ...]
) -> None:
    """7.6: who reads only the log believes of each record what stands."""
    believed = {id_: status_of(effect).value for id_, effect in before.items()}
    for event in events:
        if event.effect_id is None or event.type in ASIDE:
            continue
        if event.type == "effect.resolved":
            needed, said = frozenset({"indeterminate"}), str(event.data["outcome"])
        else:
            needed, said = TOLD[event.type]
        if event.effect_id not in believed:
            raise Broken(f"7.6: {event.type} was told of a record that did not change")
        if believed[event.effect_id] not in needed:
            raise Broken(f"7.6: {event.type} was told of a record that is {believed[event.effect_id]}")
        believed[event.effect_id] = said
    for id_, effect in after.items():
        if believed[id_] != status_of(effect).value:
            raise Broken(f"7.6: the log says {believed[id_]}, the record {status_of(effect).value}")


def check_approvals(
    before: Mapping[bytes, Effect | None],
    after: Mapping[bytes, Effect | None],
    events: tuple[Event, ...],
    *,
    needed: bool,
) -> None:
    """7.3, 7.4: nothing runs without the decision that let it, in the log before it, and a decision stands.
    `needed`: whether nothing runs without an approval."""
    told: dict[bytes, set[str]] = {}
    for event in events:
        if event.effect_id is None:
            continue
        said = told.setdefault(event.effect_id, set())
        stood = before.get(event.effect_id)
        if event.type.startswith("approval.") and event.type != "approval.requested":
            if stood is None or stood.approval is None or stood.approval.id.hex() != event.data["approval"]:
                raise Broken(f"7.4: {event.type} was told of an approval that is not this effect's")
            if stood.granted and event.type in ("approval.granted", "approval.denied"):
                raise Broken("7.4: an approval was decided twice")
        if event.type == "effect.executing" and not event.data.get("again"):
            granted = "approval.granted" in said or (stood is not None and stood.granted)
            if "effect.allowed" not in said:
                raise Broken("7.3: an effect runs, and nothing in the log let it")
            if (needed or "approval.used" in said) and not (granted and "approval.used" in said):
                raise Broken("7.4: an effect runs without its approval")
        said.add(event.type)
    for id_, effect in after.items():
        stood = before[id_]
        if stood is None or effect is None or stood.approval is None or effect.approval is None:
            continue
        same = stood.approval.id == effect.approval.id
        if same and stood.approval.decided_by not in (None, effect.approval.decided_by):
            raise Broken("7.4: a decision was forgotten")
