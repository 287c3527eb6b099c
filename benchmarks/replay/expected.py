"""What the promises say of each recorded call, worked out from the recording alone.

Read-only calls are sent each time they are asked for (3.6). A write is sent once, unless

- it *is* an earlier call: the same id, tool and arguments in the same turn and step (2.1), or
- it is held: an identical write succeeded before it in the same turn, or under the same id (2.3, 4.9), or
  an identical one is itself still held.

Refused firsts do not count, and with `repeat_window_s` 0 neither do those of other turns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.replay.recorded import RecordedCall

STEPS_A_TURN = 6
"""The default limit (7.1)."""


class Fate(StrEnum):
    """What becomes of a call."""

    READ = "read"
    SENT = "sent"
    SAME = "same"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Expected:
    """A call, its fate, and whose answer it gets: its own, or that of `first`."""

    call: RecordedCall
    fate: Fate
    first: RecordedCall | None = None

    @property
    def answer_of(self) -> RecordedCall:
        return self.call if self.first is None else self.first


@dataclass(frozen=True, slots=True)
class Oddities:
    """What this data holds that two limits, off for the run, would have met."""

    turns: int
    long_turns: int
    calls_beyond: int
    recycled_ids: int
    held_by_window: int
    repeats_in_turn: int


def expect(calls: Sequence[RecordedCall], side_effecting: Collection[str]) -> list[Expected]:
    """One for each call, in order. `side_effecting` names the tools that are."""
    return [each for some in _by_conversation(calls) for each in _expect(some, side_effecting)]


def _expect(calls: Sequence[RecordedCall], side_effecting: Collection[str]) -> Iterator[Expected]:
    before: list[Expected] = []
    for call in calls:
        fate = _fate(call, before) if call.tool in side_effecting else Expected(call, Fate.READ)
        before.append(fate)
        yield fate


def _fate(call: RecordedCall, before: Sequence[Expected]) -> Expected:
    alike = [each for each in before if each.call.what == call.what]
    for each in alike:
        if (each.call.tool_call_id, each.call.turn, each.call.step) == (call.tool_call_id, call.turn, call.step):
            return Expected(call, each.fate if each.fate is Fate.HELD else Fate.SAME, each.answer_of)
    for each in reversed(alike):
        near = each.call.turn == call.turn or each.call.tool_call_id == call.tool_call_id
        if each.fate is Fate.HELD:
            return Expected(call, Fate.HELD, each.first)
        if near and not each.answer_of.refused:
            return Expected(call, Fate.HELD, each.answer_of)
    return Expected(call, Fate.SENT)


def oddities(calls: Sequence[RecordedCall], expected: Sequence[Expected]) -> Oddities:
    """Counted, since the run turns the limits off that would have met them."""
    turns: dict[tuple[str, str], int] = {}
    for call in calls:
        place = (call.conversation, call.turn)
        turns[place] = max(turns.get(place, 0), call.step)
    writes = [each.call for each in expected if each.fate is not Fate.READ]
    earlier = [
        [other for other in writes[:index] if (other.conversation, other.what) == (write.conversation, write.what)]
        for index, write in enumerate(writes)
    ]
    return Oddities(
        turns=len(turns),
        long_turns=sum(steps > STEPS_A_TURN for steps in turns.values()),
        calls_beyond=sum(call.step > STEPS_A_TURN for call in calls),
        recycled_ids=len(recycled(calls)),
        held_by_window=sum(
            any(other.turn != write.turn and not other.refused for other in others)
            for write, others in zip(writes, earlier, strict=True)
        ),
        repeats_in_turn=sum(
            any(other.turn == write.turn for other in others) for write, others in zip(writes, earlier, strict=True)
        ),
    )


def recycled(calls: Iterable[RecordedCall]) -> list[RecordedCall]:
    """The calls whose id another call of their conversation had before."""
    last: dict[tuple[str, str], RecordedCall] = {}
    found: list[RecordedCall] = []
    for call in calls:
        name = (call.conversation, call.tool_call_id)
        if name in last and last[name].what != call.what:
            found.append(call)
        last[name] = call
    return found


def _by_conversation(calls: Sequence[RecordedCall]) -> Iterable[list[RecordedCall]]:
    grouped: dict[str, list[RecordedCall]] = {}
    for call in calls:
        grouped.setdefault(call.conversation, []).append(call)
    return grouped.values()
