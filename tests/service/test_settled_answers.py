"""The answers a process keeps for a moment, and the guess whether a call is new: both bounded."""

from __future__ import annotations

import msgspec
import pytest

from gateway.core.identity import Kind, Place, Scope, read_arguments
from gateway.core.record import Effect, Fault, Mode, Outcome, Status
from gateway.service.recent_ids import MOST_KEPT, RecentIds
from gateway.service.settled_answers import KEPT_FOR_S, LARGEST, MOST_BYTES, SettledAnswers, key_of
from gateway.service.settled_answers import MOST_KEPT as ANSWERS

PLACE = Place("t1", 1, 1)
EFFECT = Effect(
    format=1,
    effect_id=b"e" * 32,
    company="acme",
    conversation="c",
    kind=Kind.TOOL_CALL,
    target="place_order",
    fingerprint=b"f" * 32,
    tool_call_id="x",
    turn="t1",
    step=1,
    attempt=1,
    occurrence=0,
    fields={},
    mode=Mode.AT_MOST_ONCE,
    tool_version=1,
    endpoint="https://shop.example",
    status=Status.SUCCEEDED,
    outcome=Outcome(Status.SUCCEEDED, b'"ok"'),
)


def key(id_: str = "x", place: Place = PLACE):
    return key_of("acme", "c", id_, place, Scope.AUTO, "place_order", read_arguments({"a": 1}))


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("place", [Place(), Place("t1"), Place("t1", 1), Place("t1", None, 1), Place(None, None, None)])
def test_p4_10_a_request_that_leaves_something_out_always_asks_the_ledger(place):
    """4.10, 2.3: what is left out may come to mean another call."""
    assert key("x", place) is None
    assert key(None) is None


def test_p4_10_an_answer_is_kept_for_its_time_and_its_age_is_the_ledgers():
    """4.10: after that the ledger is asked again."""
    clock = Clock()
    answers = SettledAnswers(clock)
    answers.put(key(), EFFECT, 5_000)
    clock.now += 2
    assert answers.get(key()) == (EFFECT, 7_000)
    clock.now += KEPT_FOR_S
    assert answers.get(key()) is None


@pytest.mark.parametrize("status", [s for s in Status if s not in (Status.SUCCEEDED, Status.FAILED, Status.DENIED)])
def test_p4_10_only_what_is_final_is_kept(status):
    """4.1: anything else may still change."""
    answers = SettledAnswers(Clock())
    answers.put(key(), msgspec.structs.replace(EFFECT, status=status), 0)
    assert answers.get(key()) is None


def test_p9_4_what_is_kept_is_bounded_in_bytes_and_large_results_are_not_kept():
    """9.4: the oldest go first."""
    answers = SettledAnswers(Clock())
    half = msgspec.structs.replace(EFFECT, outcome=Outcome(Status.SUCCEEDED, b"x" * (LARGEST // 2)))
    most = MOST_BYTES // (LARGEST // 2)
    for number in range(2 * most):
        answers.put(key(f"x{number}"), half, 0)
        assert len(answers) <= most
    assert answers.get(key("x0")) is None
    assert answers.get(key(f"x{2 * most - most // 3}")) is not None
    answers.put(key("big"), msgspec.structs.replace(EFFECT, outcome=Outcome(Status.SUCCEEDED, b"x" * LARGEST)), 0)
    assert answers.get(key("big")) is None


def test_p9_4_the_ids_remembered_are_bounded():
    """9.4: a wrong guess costs time, never correctness."""
    recent = RecentIds()
    for number in range(MOST_KEPT + 10):
        assert not recent.known(number.to_bytes(16, "big"))
        assert len(recent) <= MOST_KEPT
    assert recent.known((MOST_KEPT).to_bytes(16, "big"))
    assert recent.known((MOST_KEPT // 2 + 10).to_bytes(16, "big"))
    assert not recent.known((0).to_bytes(16, "big"))
    assert not recent.known(None)


def test_p9_4_small_answers_are_bounded_in_number_and_the_oldest_go_first():
    """9.4"""
    answers = SettledAnswers(Clock())
    for number in range(ANSWERS + 10):
        answers.put(key(f"x{number}"), EFFECT, 0)
        assert len(answers) <= ANSWERS
    assert answers.get(key("x0")) is None
    assert answers.get(key(f"x{ANSWERS // 2 + 10}")) is not None
    assert answers.get(key(f"x{ANSWERS + 9}")) is not None


def test_p4_10_an_answer_that_is_put_again_is_the_later_one():
    """4.10: whichever half the earlier one is in by then."""
    answers = SettledAnswers(Clock())
    answers.put(key("x"), EFFECT, 0)
    for number in range(ANSWERS // 2):
        answers.put(key(f"y{number}"), EFFECT, 0)
    assert answers.get(key("x")) == (EFFECT, 0)
    answers.put(key("x"), EFFECT, 1_000)
    assert answers.get(key("x")) == (EFFECT, 1_000)


@pytest.mark.parametrize(
    "changed",
    [
        {"company": "other"},
        {"conversation": "other"},
        {"tool_call_id": "other"},
        {"tool": "other"},
        {"scope": Scope.TURN},
        {"place": Place("t2", 1, 1)},
        {"place": Place("t1", 2, 1)},
        {"place": Place("t1", 1, 2)},
        {"arguments": read_arguments({"a": 2})},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_p9_1_an_answer_is_kept_for_that_very_request_and_no_other(changed):
    """9.1, 2.1, 2.3: above all not for another company's, whatever else is the same."""
    asked = {
        "company": "acme",
        "conversation": "c",
        "tool_call_id": "x",
        "place": PLACE,
        "scope": Scope.AUTO,
        "tool": "place_order",
        "arguments": read_arguments({"a": 1}),
    }
    answers = SettledAnswers(Clock())
    answers.put(key_of(**asked), EFFECT, 0)
    assert answers.get(key_of(**asked)) is not None
    assert answers.get(key_of(**{**asked, **changed})) is None


def test_p9_4_what_a_refusal_holds_is_counted_too():
    """9.4: its details may be as large as any result."""
    answers = SettledAnswers(Clock())
    details = b'{"status":422,"body":"' + b"x" * 60_000 + b'"}'
    refused = msgspec.structs.replace(
        EFFECT, status=Status.FAILED, outcome=Outcome(Status.FAILED, fault=Fault("merchant_refused", "no", details))
    )
    for number in range(2 * MOST_BYTES // 60_000):
        answers.put(key(f"x{number}"), refused, 0)
        assert len(answers) <= MOST_BYTES // 60_000
