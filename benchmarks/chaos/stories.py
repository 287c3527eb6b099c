"""Whether the event log tells what the records say, event by event; and one call's story in words. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from benchmarks.chaos.checks import UNSETTLED, Violation
from benchmarks.chaos.sight import Row, Sight, name_of

OTHER_STORY: Final = "the event log tells another story than the record"
A, X, U, H = "absent", "executing", "indeterminate", "awaiting_approval"
MOVES: Final[dict[str, dict[str, str]]] = {
    "effect.executing": {A: X, U: X, H: X},
    "effect.awaiting_approval": {A: H},
    "effect.succeeded": {X: "succeeded", U: "succeeded", A: "succeeded"},
    "effect.failed": {X: "failed"},
    "effect.indeterminate": {X: U},
    "effect.released": {X: A, U: A},
    "effect.denied": {H: "denied"},
}
"""For each event that moves an effect: from where, and to where (4.1)."""


def check_stories(sight: Sight) -> list[Violation]:
    """The log against the records, the listing of unknown outcomes and what reached the merchants."""
    return [*_ended(sight), *_told(sight), *_listed(sight), *_started(sight)]


def _by_effect(events: dict[str, list[Row]]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for page in events.values():
        for event in page:
            if event["effect_id"] is not None:
                found[event["effect_id"]].append(event)
    return found


def _ended(sight: Sight) -> Iterable[Violation]:
    """The sweep alone, before anybody asked again, has left nothing executing (4.5)."""
    for effect, events in _by_effect(sight.early).items():
        state, _ = _walk(events)
        if state == X:
            yield Violation(UNSETTLED, _owner(sight, effect), f"effect {effect} is still executing by its events")
    for effect, record in sight.records.items():
        if record["status"] == X:
            yield Violation(UNSETTLED, _owner(sight, effect), f"effect {effect} is still executing by its record")


def _told(sight: Sight) -> Iterable[Violation]:
    for place, events in sight.events.items():
        numbers = [event["seq"] for event in events]
        if numbers != list(range(1, len(numbers) + 1)):
            yield Violation(OTHER_STORY, place, f"the events are numbered {numbers}")
    for effect, events in _by_effect(sight.events).items():
        state, wrong = _walk(events)
        record = sight.records.get(effect)
        stands = record["status"] if record is not None else A
        if wrong is not None:
            yield Violation(OTHER_STORY, _owner(sight, effect), f"effect {effect}: {wrong}")
        elif state != stands:
            yield Violation(
                OTHER_STORY, _owner(sight, effect), f"effect {effect} is {state} by events, {stands} by record"
            )
    for effect in sight.records.keys() - _by_effect(sight.events).keys():
        yield Violation(OTHER_STORY, _owner(sight, effect), f"effect {effect} has a record and no events")


def _walk(events: list[Row]) -> tuple[str, str | None]:
    """Where the events lead, and the first that does not fit."""
    state = A
    for event in events:
        moves = MOVES.get(event["type"])
        if moves is None:
            continue
        if state not in moves:
            return state, f"{event['type']} (seq {event['seq']}) while {state}"
        state = moves[state]
    return state, None


def _listed(sight: Sight) -> Iterable[Violation]:
    unknown = {effect for effect, record in sight.records.items() if record["status"] == U}
    for effect in unknown ^ sight.unknown:
        where = "recorded, not listed" if effect in unknown else "listed, not recorded"
        yield Violation(OTHER_STORY, _owner(sight, effect), f"effect {effect} as unknown: {where}")


def _started(sight: Sight) -> Iterable[Violation]:
    """7.6: no request reaches a merchant whose start the log does not have; one start each under at_most_once."""
    starts = {
        effect: sum(event["type"] == "effect.executing" for event in events)
        for effect, events in _by_effect(sight.events).items()
    }
    for row in sight.arrivals:
        if not starts.get(row["key"]):
            yield Violation(OTHER_STORY, name_of(row), f"{row['request']} reached the merchant, and no event says so")


def _owner(sight: Sight, effect: str) -> str:
    named = (answer.ask.intent.name for answer in sight.answers if answer.effect == effect)
    keyed = (name_of(row) for row in sight.arrivals if row["key"] == effect)
    return next(named, next(keyed, f"effect {effect}"))


def story(sight: Sight, name: str) -> str:
    """All that is known of one intent, in order of time."""
    return "\n".join(_lines(sight, name))


def _lines(sight: Sight, name: str) -> Iterator[str]:
    intent = next((each for each in sight.intents if each.name == name), None)
    if intent is None:
        yield f"  {name}: no intent of this name"
        return
    yield f"  {name}: {intent.tool} of {intent.terms.company} {intent.arguments} {intent.terms}"
    effects = set()
    for answer in sight.answers_by_intent().get(intent, []):
        effects.add(answer.effect)
        ask = answer.ask
        place = f"{ask.tool_call_id} turn={ask.turn} step={ask.step} attempt={ask.attempt}"
        at = f"{_clock(answer.sent)} .. {_clock(answer.heard)} {answer.at}{' (calm)' if answer.calm else ''}"
        yield f"    {at} {answer.request} {place}: {answer.said}"
    for row in sight.arrivals:
        if name_of(row) == name:
            effects.add(row["key"])
            yield f"    merchant got {row['request']} key={row['key'][:12]} answered {row['status']} {row['arguments']}"
    for row in sight.orders:
        if name_of(row) == name:
            yield f"    merchant has order {row['number']} key={row['key'][:12]} {row['quantity']} x {row['price']}"
    for event in [event for page in sight.events.values() for event in page]:
        if event["effect_id"] in effects and event["effect_id"] is not None:
            said = {k: v for k, v in event.items() if k not in ("seq", "type", "at", "effect_id")}
            yield f"    {event['at'][11:23]} {event['effect_id'][:12]} {event['type']} {said}"
    for effect in effects & sight.records.keys():
        record = sight.records[effect]
        kept = f"{record['tool_call_id']} {record['result']} {record['error']}"
        yield f"    record {effect[:12]} {record['status']} {kept}"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]
