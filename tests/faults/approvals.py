"""What must hold of every approval, at every write: nothing runs without the decision that let it, and once (7.3, 7.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.core import identity
from gateway.core.conversation import Event, Writes
from gateway.core.identity import Kind
from gateway.core.policy import Action
from gateway.core.record import Because, Effect, Status
from gateway.core.requests import OnRepeat
from tests.faults.limits import arguments_of
from tests.faults.shop import BY_NAME

if TYPE_CHECKING:
    from tests.faults.invariants import Watch


@dataclass
class Approval:
    """One approval, as the log tells of it. `state`: requested, granted, used, denied, expired or replaced."""

    key: str
    fingerprint: bytes
    tool_version: int
    approvers: tuple[str, ...]
    because: Because
    state: str = "requested"
    was: set[str] = field(default_factory=set)


class Approvals:
    """Every approval of a history, by its id."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.known: dict[str, Approval] = {}
        self.told: dict[str, set[str]] = {}
        """Id -> what somebody was told that became of it."""
        self.lost: set[str] = set()
        """Those of which a failover lost a write."""
        self.ran_granted: set[str] = set()
        """Keys of repeats that somebody wanted, since they were approved."""

    def written(self, before: Mapping[bytes, Effect | None], writes: Writes) -> None:
        """In the order of the events; an effect stands as it did before until they are over."""
        allowed: set[bytes] = set()
        used: dict[bytes, str] = {}
        for event in writes.events:
            if event.effect_id is None:
                continue
            stood, becomes = before.get(event.effect_id), writes.effects.get(event.effect_id)
            if event.type == "effect.allowed":
                allowed.add(event.effect_id)
            elif event.type.startswith("approval."):
                self._told_of(event, stood, becomes)
                if event.type == "approval.used" and stood is not None and stood.granted:
                    self._watch.world.count("granted submission claimed")
                if event.type == "approval.used":
                    used[event.effect_id] = str(event.data["approval"])
            elif event.type == "effect.executing" and becomes is not None:
                self._starts(event, stood, becomes, event.effect_id in allowed, used.get(event.effect_id))

    def _told_of(self, event: Event, stood: Effect | None, becomes: Effect | None) -> None:
        id_, word = str(event.data["approval"]), event.type.partition(".")[2]
        if word == "requested":
            self._requested(id_, event, becomes)
            return
        one = self.known.get(id_)
        if one is None:
            self._watch.broke("7.4", f"approval {id_[:8]} is {word}, and nobody was asked for it")
            return
        before = {"granted": ("requested",), "used": ("granted",), "denied": ("requested",)}
        fits = before.get(word, ("requested", "granted"))
        if one.state not in fits and id_ not in self.lost:
            self._watch.broke("7.4", f"approval {id_[:8]} is {word}, though it is {one.state} already")
        if word in ("granted", "denied"):
            self._may_decide(id_, one, str(event.data["by"]))
        if word == "granted":
            self._judged_anew(one, stood)
        if word == "used" and becomes is not None:
            self._of_the_same(id_, one, becomes)
        one.state = word
        one.was.add(word)

    def _requested(self, id_: str, event: Event, becomes: Effect | None) -> None:
        assert becomes is not None
        assert becomes.approval is not None
        if id_ in self.known and id_ not in self.lost:
            self._watch.broke("7.4", f"approval {id_[:8]} is asked for twice: one name means two")
        instead_of = self.known.get(str(event.data.get("instead_of", "")))
        if instead_of is not None:
            instead_of.state = "replaced"
        approval = becomes.approval
        self.known[id_] = Approval(
            becomes.hex, becomes.fingerprint, becomes.tool_version, approval.approvers, approval.because
        )

    def _may_decide(self, id_: str, one: Approval, by: str) -> None:
        named = "operator" if by == "op" else by
        if named not in one.approvers:
            self._watch.broke("7.4", f"approval {id_[:8]} is decided by {by}, and is for {', '.join(one.approvers)}")

    def _of_the_same(self, id_: str, one: Approval, becomes: Effect) -> None:
        """An approval is of one effect, at one version of its tool, with the arguments that were shown."""
        now = (becomes.hex, becomes.fingerprint, becomes.tool_version)
        if now != (one.key, one.fingerprint, one.tool_version):
            self._watch.broke("7.4", f"approval {id_[:8]} is used for something else than it was given for")
        if one.because is Because.REPEAT:
            self.ran_granted.add(one.key)

    def _judged_anew(self, one: Approval, stood: Effect | None) -> None:
        """4.9: nothing identical runs, or is unknown, when it is granted."""
        if stood is None:
            return
        for other in self._identical(stood):
            tool = BY_NAME.get(other.target) if other.kind is Kind.TOOL_CALL else None
            waits = tool is not None and tool.on_repeat is not OnRepeat.RUN
            if _unknown(other):
                self._watch.broke("4.7", f"{one.key[:8]} is granted while the identical {other.hex[:8]} is unknown")
            if waits and other.status is Status.EXECUTING and other.effect_id in stood.repeat_of:
                self._watch.broke("4.9", f"{one.key[:8]} is granted while {other.hex[:8]}, which it repeats, runs")

    def _starts(self, event: Event, stood: Effect | None, becomes: Effect, allowed: bool, used: str | None) -> None:
        key = becomes.hex
        if event.data.get("again"):
            return
        if not allowed:
            self._watch.broke("7.3", f"{key[:8]} runs without an effect.allowed in the log")
        for other in self._identical(becomes):
            if _unknown(other):
                self._watch.broke("4.7", f"{key[:8]} runs while the identical {other.hex[:8]} is unknown")
        if used is not None or key in self._watch.forgotten:
            return
        if not self._watch.world.shelf.phases.ever_says(becomes.target, Action.ALLOW):
            self._watch.broke("7.3", f"{key[:8]} runs without an approval, and policy never let it")
        if stood is not None and stood.status is Status.AWAITING_APPROVAL and stood.approval is not None:
            self._ends_by_itself(stood)

    def _ends_by_itself(self, held: Effect) -> None:
        """A hold ends without an approval where nothing is left that it repeats, or its rule is gone."""
        for first in (self._watch.world.ledger.effect(id_) for id_ in held.repeat_of):
            if first is not None and first.status is Status.SUCCEEDED and first.hex not in self._watch.forgotten:
                self._watch.broke("7.4", f"{held.hex[:8]} runs unapproved, though what it repeats was done")

    def _identical(self, effect: Effect) -> list[Effect]:
        return [
            other
            for other in self._watch.world.ledger.effects()
            if other.fingerprint == effect.fingerprint
            and other.conversation == effect.conversation
            and other.effect_id != effect.effect_id
        ]

    def forgot(self, lost: list[Writes]) -> None:
        """A failover lost these, the last first: what was decided may be decided again."""
        for writes in lost:
            for event in writes.events:
                if event.type.startswith("approval."):
                    self.lost.add(str(event.data["approval"]))
            for id_, one in self.known.items():
                if bytes.fromhex(one.key) in writes.effects:
                    self.lost.add(id_)

    # what the deciders are told

    def answered(self, id_: bytes, said: str) -> None:
        """Somebody was told that it is granted, or denied."""
        name = id_.hex()
        told = self.told.setdefault(name, set())
        told.add(said)
        one = self.known.get(name)
        if name in self.lost:
            return
        if len(told) > 1:
            self._watch.broke("7.4", f"approval {name[:8]} is told to be {' and '.join(sorted(told))}")
        if one is None or said not in one.was:
            self._watch.broke("7.4", f"approval {name[:8]} is told to be {said}, and never was")


def _unknown(effect: Effect) -> bool:
    """Nobody knows how it ended, also while it is tried again (4.7)."""
    return effect.status is Status.INDETERMINATE or (effect.status is Status.EXECUTING and effect.was_unknown)


def same_work(effect: Effect, tool: str, sku: str) -> bool:
    """Whether what was done is what was asked for, and approved."""
    read = identity.read_arguments(arguments_of(sku))
    return effect.fingerprint == identity.fingerprint(effect.kind, tool, read.canonical)
