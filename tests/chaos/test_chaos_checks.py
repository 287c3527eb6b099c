"""The checks of chaos, shown to fail: each case spoils one thing in a block in which all went well."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos.checks import (
    CHAIN,
    CHANGED,
    FAULTY,
    MIXED_UP,
    RERUN,
    TWICE,
    UNSETTLED,
    UNTRUE_NO,
    UNTRUE_SUCCESS,
    check,
)
from benchmarks.chaos.plan import TOOLS, Ask, Intent, script
from benchmarks.chaos.report import text
from benchmarks.chaos.run import Report, figures
from benchmarks.chaos.sight import Row, Sight
from benchmarks.chaos.stories import OTHER_STORY, check_stories, story
from benchmarks.chaos.traffic import Answer
from gateway.core.event_chain import after, start_of
from gateway.core.identity import conversation_digest

DONE = Intent("c.1", "c", "place_order", 2, "1.50")
REFUSED = Intent("c.2", "c", "place_order", 13, "1.50")
UNKNOWN = Intent("c.3", "c", "place_order", 3, "2.50")
RETRIED = Intent("c.4", "c", "buy_item", 4, "2.50")
RIVAL = Intent("c.5", "c", "place_order", 5, "2.50", rivals="c.5")
OTHER_RIVAL = Intent("c.6", "c", "place_order", 6, "2.50", rivals="c.5")
ENDS = {DONE: "succeeded", REFUSED: "failed", UNKNOWN: "indeterminate", RETRIED: "succeeded", RIVAL: "succeeded"}
UNKNOWN_ERROR = {"code": "outcome_unknown"}


def _result(intent: Intent, number: int) -> dict[str, Any]:
    return {"id": number, "name": intent.name, "quantity": str(intent.quantity), "price": intent.price}


def _body(intent: Intent, number: int, decision: str) -> dict[str, Any]:
    status = ENDS[intent]
    error = {"succeeded": None, "failed": {"code": "merchant_refused"}, "indeterminate": UNKNOWN_ERROR}[status]
    result = _result(intent, number) if status == "succeeded" else None
    place = {"effect_id": f"e-{intent.name}", "decision": decision, "recorded": True, "first": None}
    return {**place, "status": status, "result": result, "error": error}


def _events(intent: Intent, first: int) -> list[Row]:
    types = ("effect.proposed", "effect.executing", f"effect.{ENDS[intent]}")
    at = "2026-01-01T00:00:00.000Z"
    return [
        {"seq": first + place, "type": kind, "at": at, "effect_id": f"e-{intent.name}"}
        for place, kind in enumerate(types)
    ]


@pytest.fixture
def good() -> Sight:
    sight = Sight(unknown={f"e-{UNKNOWN.name}"}, events={"careless/c": []})
    for number, intent in enumerate(ENDS, start=1):
        ask = Ask(intent, f"call_{number}", "t", 1, 1)
        sight.asks.append(ask)
        for place, decision in enumerate(("proceed", "replay", "replay")):
            answer = Answer(
                ask,
                f"r{number}-{place}",
                place * 2.0,
                place * 2.0 + 1,
                "gateway 0",
                200,
                _body(intent, number, decision),
            )
            sight.answers.append(replace(answer, calm=place == 2))
        key, status = f"e-{intent.name}", {"failed": 422, "indeterminate": None}.get(ENDS[intent], 200)
        arguments = f'{{"order": "{intent.name}"}}'
        sight.arrivals.append({"request": f"r{number}-0", "key": key, "arguments": arguments, "status": status})
        if ENDS[intent] != "failed":
            ordered = {"name": intent.name, "quantity": str(intent.quantity), "price": intent.price}
            sight.orders.append({"number": number, "key": key, **ordered})
        record = {"status": ENDS[intent], "tool_call_id": ask.tool_call_id, "result": None, "error": None}
        sight.records[key] = record
        sight.events["careless/c"] += _events(intent, 3 * number - 2)
    refused = {"code": "tool_call_id_reused", "outcome": "not_sent", "retryable": False}
    other = Ask(OTHER_RIVAL, "call_5", "t", 1, 1)
    sight.asks.append(other)
    sight.answers.append(Answer(other, "r6-0", 2.0, 3.0, "gateway 1", 422, refused, calm=True))
    sight.early = {"careless/c": list(sight.events["careless/c"])}
    return sight


def test_a_block_in_which_all_went_well_has_no_violations(good: Sight) -> None:
    """An outcome that stays unknown is none, though the merchant has the order."""
    assert [*check(good), *check_stories(good)] == []


def _another_arrival(intent: Intent, **changes: Any) -> Callable[[Sight], None]:
    def spoil(sight: Sight) -> None:
        row = next(row for row in sight.arrivals if f'"{intent.name}"' in row["arguments"])
        sight.arrivals.append({**row, "request": "r9-9", **changes})

    return spoil


def _another_order(intent: Intent) -> Callable[[Sight], None]:
    return lambda sight: sight.orders.append({**_order(sight, intent), "number": 99})


def _order(sight: Sight, intent: Intent) -> Row:
    return next(row for row in sight.orders if row["name"] == intent.name)


def _no_order(sight: Sight) -> None:
    sight.orders.remove(_order(sight, DONE))


def _order_with_other_digits(sight: Sight) -> None:
    _order(sight, DONE)["price"] = "1.5"


def _order_all_the_same(sight: Sight) -> None:
    key = f"e-{REFUSED.name}"
    sight.orders.append({"number": 99, "key": key, "name": REFUSED.name, "quantity": "13", "price": "1.50"})


def _answered(intent: Intent, place: int, status: int = 200, **body: Any) -> Callable[[Sight], None]:
    """Another answer in that place of the intent's."""

    def spoil(sight: Sight) -> None:
        mine = [index for index, answer in enumerate(sight.answers) if answer.ask.intent == intent]
        answer = sight.answers[mine[place]]
        kept = answer.body if status == 200 else {}
        sight.answers[mine[place]] = replace(answer, status=status, body={**kept, **body})

    return spoil


def _rival_sent_too(sight: Sight) -> None:
    sight.arrivals.append(
        {"request": "r6-0", "key": "e-c.6", "arguments": f'{{"order": "{OTHER_RIVAL.name}"}}', "status": 200}
    )


def _never_asked_again(sight: Sight) -> None:
    sight.answers = [a for a in sight.answers if not (a.calm and a.ask.intent == DONE)]


def _one_effect_for_two(sight: Sight) -> None:
    _answered(RETRIED, 1, effect_id=f"e-{DONE.name}")(sight)


def _event(kind: str, change: str | None) -> Callable[[Sight], None]:
    """Drop the first event of that kind, or make it another."""

    def spoil(sight: Sight) -> None:
        events = sight.events["careless/c"]
        place = next(n for n, event in enumerate(events) if event["type"] == kind)
        if change is None:
            del events[place]
        else:
            events[place] = {**events[place], "type": change}

    return spoil


def _record(intent: Intent, status: str) -> Callable[[Sight], None]:
    def spoil(sight: Sight) -> None:
        sight.records[f"e-{intent.name}"]["status"] = status

    return spoil


def _not_swept(sight: Sight) -> None:
    sight.early["careless/c"] = [e for e in sight.early["careless/c"] if e["type"] != "effect.indeterminate"]


NOT_SENT = {"code": "ledger_unavailable", "outcome": "not_sent"}

SPOILS: list[tuple[Callable[[Sight], None], str]] = [
    (_another_arrival(DONE), TWICE),
    (_another_arrival(UNKNOWN), TWICE),
    (_another_arrival(DONE, key="another"), TWICE),
    (_another_order(RETRIED), TWICE),
    (_another_order(DONE), TWICE),
    (_no_order, UNTRUE_SUCCESS),
    (_order_with_other_digits, UNTRUE_SUCCESS),
    (_order_all_the_same, UNTRUE_NO),
    (_answered(DONE, 0, 503, **NOT_SENT), UNTRUE_NO),
    (_answered(DONE, 0, decision="blocked"), UNTRUE_NO),
    (_answered(DONE, 2, 422, code="attempt_superseded", outcome="not_sent"), UNTRUE_NO),
    (_answered(DONE, 1, result=_result(RETRIED, 4)), MIXED_UP),
    (_answered(DONE, 1, 422, code="tool_call_id_reused"), MIXED_UP),
    (_one_effect_for_two, MIXED_UP),
    (_rival_sent_too, MIXED_UP),
    (_answered(UNKNOWN, 1, decision="proceed"), RERUN),
    (_answered(DONE, 2, result=_result(DONE, 7)), CHANGED),
    (_record(DONE, "indeterminate"), CHANGED),
    (_answered(DONE, 2, 409, code="call_in_flight"), UNSETTLED),
    (_answered(DONE, 2, 0), UNSETTLED),
    (_never_asked_again, UNSETTLED),
    (_not_swept, UNSETTLED),
    (_record(UNKNOWN, "executing"), UNSETTLED),
    (_answered(DONE, 1, 500, code="internal"), FAULTY),
    (_event("effect.succeeded", None), OTHER_STORY),
    (_event("effect.executing", None), OTHER_STORY),
    (_event("effect.succeeded", "effect.failed"), OTHER_STORY),
    (lambda sight: sight.unknown.clear(), OTHER_STORY),
    (lambda sight: sight.unknown.add(f"e-{DONE.name}"), OTHER_STORY),
]


@pytest.mark.parametrize(("spoil", "rule"), SPOILS, ids=[f"{n}-{rule}" for n, (_, rule) in enumerate(SPOILS)])
def test_what_must_not_be_is_found(good: Sight, spoil: Callable[[Sight], None], rule: str) -> None:
    """2.1, 4.2, 4.5, 4.6, 7.6: every rule finds what goes against it, and names the call."""
    spoil(good)
    found = [*check(good), *check_stories(good)]
    assert rule in {violation.rule for violation in found}
    assert all(story(good, violation.intent) for violation in found)


def test_a_merchants_no_or_not_now_is_no_second_send(good: Sight) -> None:
    """A refusal is not done (5), and what was put off may come again under its key."""
    _another_arrival(DONE, key="another", status=422)(good)
    _another_arrival(DONE, status=429)(good)
    assert check(good) == []


def test_an_unknown_outcome_that_was_released_may_run_after_all(good: Sight) -> None:
    """4.1: the only token ever issued may prove that nothing was sent, however late."""
    events = good.events["careless/c"]
    events.append({"seq": len(events) + 1, "type": "effect.released", "at": "", "effect_id": f"e-{UNKNOWN.name}"})
    _answered(UNKNOWN, 1, decision="proceed")(good)
    assert RERUN not in {violation.rule for violation in check(good)}


def test_a_report_is_told_in_words_and_as_json(good: Sight) -> None:
    """A violation is shown with its call, its story and the folder that was kept."""
    _no_order(good)
    found = check(good)
    report = Report(7, rounds=3, faults=Counter({"Redis killed": 2}), bytes_met=Counter(cut=1), violations=found)
    report.figures, report.stories = figures(good), [story(good, DONE.name)]
    assert json.loads(json.dumps(report.document))["violations"][0]["intent"] == DONE.name
    told = text(report, Path("/kept"))
    for part in ("Redis killed", UNTRUE_SUCCESS, "seed 7", "/kept", "r1-0 call_1", "effect.executing"):
        assert part in told
    assert "OK" in text(Report(7), Path("/kept"))


def test_conversations_are_the_same_for_the_same_seed() -> None:
    """A run can be told again by its seed; every tool, repeats, attempts, recycled ids and rivals come up."""
    made = [script(3, number) for number in range(200)]
    assert [each.stages for each in made] == [script(3, number).stages for number in range(200)]
    assert made[0].stages != script(4, 0).stages
    asks = [ask for each in made for ask in each.asks]
    assert {ask.intent.tool for ask in asks} == set(TOOLS)
    assert {ask.attempt for ask in asks} == {None, 1, 2}
    names = {ask.intent.name: ask.intent for ask in asks}
    assert len(names) == len({ask.intent for ask in asks})
    assert any(intent.rivals for intent in names.values())
    assert any(intent.wanted == 2 for intent in names.values())
    recycled = {(a.intent.conversation, a.tool_call_id) for a in asks}
    assert len(recycled) < len({(a.intent, a.tool_call_id) for a in asks})


def test_p7_6_a_sealed_event_that_is_missing_or_changed_is_found(good: Sight) -> None:
    """7.6: and a log whose seal holds is not."""
    events = good.events["careless/c"]
    head = start_of(conversation_digest("careless", "c"))
    for event in events[:5]:
        head = after(head, event)
    good.seals = {"careless/c": {"sealed": 5, "head": head.hex(), "at": None}}
    assert check(good) == []
    good.events["careless/c"] = [*events[:2], {**events[2], "note": "changed"}, *events[3:]]
    assert [each.rule for each in check(good)] == [CHAIN]
    good.events["careless/c"] = events[:4]
    assert CHAIN in [each.rule for each in check(good)]
