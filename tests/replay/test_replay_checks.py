"""The checks of a replay, shown to fail: each case spoils one thing in a run in which all went well."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.replay.__main__ import main
from benchmarks.replay.assistant import Arrival, Seen
from benchmarks.replay.checks import NO_ANSWER, NOT_ONCE, RECYCLED, STRAY, WRONG_ANSWER, WRONG_FACT, check
from benchmarks.replay.expected import Expected, Fate, expect
from benchmarks.replay.recorded import BadRecording, RecordedCall, load
from benchmarks.replay.shop import Delivery

READ_ONLY = {"get_menu", "think", "calculate", "list_tables"}


@dataclass
class Run:
    """What a replay saw; `at` finds a call by turn and step."""

    expected: list[Expected]
    seen: list[Seen]
    deliveries: list[Delivery]

    def at(self, conversation: str, turn: str, step: int) -> RecordedCall:
        found = [
            each.call for each in self.expected if each.call.name.startswith(f"{conversation} turn {turn} step {step} ")
        ]
        return found[0]

    def change(self, call: RecordedCall, **body: Any) -> None:
        """Overwrite fields of every answer to this call."""
        self.seen = [replace(one, body={**one.body, **body}) if one.expected.call is call else one for one in self.seen]


@pytest.fixture
def good_run(own_recording: Path) -> Run:
    calls = load(own_recording)
    expected = expect(calls, {call.tool for call in calls} - READ_ONLY)
    deliveries = [
        Delivery(each.call, None if each.fate is Fate.READ else f"key of {each.call.name}")
        for each in expected
        if each.fate in (Fate.SENT, Fate.READ)
    ]
    arrivals = (Arrival.FIRST, Arrival.AT_ONCE, Arrival.AFTER_DROP, Arrival.AFTER_RESTART)
    seen = [Seen(each, arrival, 200, _answer(each, arrival)) for each in expected for arrival in arrivals]
    return Run(expected, seen, deliveries)


def _answer(each: Expected, arrival: Arrival) -> dict[str, Any]:
    call, shown = each.call, _outcome(each.answer_of)
    body = {
        "effect_id": None if each.fate is Fate.READ else f"effect of {call.name}",
        "conversation": call.conversation,
        "tool_call_id": call.tool_call_id,
        "tool": call.tool,
        "side_effecting": each.fate is not Fate.READ,
        "recorded": each.fate is not Fate.READ,
    }
    if each.fate is Fate.HELD:
        return {**body, "decision": "blocked", "status": "awaiting_approval", "first": shown}
    if each.fate is Fate.READ or (each.fate is Fate.SENT and arrival is Arrival.FIRST):
        return {**body, **shown, "decision": "proceed"}
    return {**body, **shown, "decision": "replay", "replay": {"matched": "tool_call_id"}}


def _outcome(call: RecordedCall) -> dict[str, Any]:
    if not call.refused:
        return {"status": "succeeded", "result": call.shown, "error": None}
    details = {"status": ("number", "422"), "body": call.result}
    return {"status": "failed", "result": None, "error": {"code": "merchant_refused", "details": details}}


def test_a_run_in_which_all_went_well_has_no_failures(good_run: Run) -> None:
    assert check(good_run.expected, good_run.seen, good_run.deliveries) == []


def _sent_twice(run: Run) -> None:
    run.deliveries.append(next(each for each in run.deliveries if each.key))


def _sent_twice_under_another_key(run: Run) -> None:
    run.deliveries.append(replace(next(each for each in run.deliveries if each.key), key="another"))


def _never_sent(run: Run) -> None:
    run.deliveries.remove(next(each for each in run.deliveries if each.key))


def _two_effects_under_one_key(run: Run) -> None:
    same = [run.at("dinner", "t-1", 2), run.at("dinner", "t-1", 3)]
    run.deliveries = [replace(each, key="one") if each.call in same else each for each in run.deliveries]


def _a_hold_was_sent(run: Run) -> None:
    run.deliveries.append(Delivery(run.at("lunch", "2", 4), "key of the held one"))


def _a_read_never_came(run: Run) -> None:
    run.deliveries.remove(next(each for each in run.deliveries if not each.key))


def _a_read_came_with_a_key(run: Run) -> None:
    run.deliveries = [replace(each, key=each.key or "a key") for each in run.deliveries]


def _unsigned(run: Run) -> None:
    run.deliveries[0] = replace(run.deliveries[0], note="signature: no_match")


def _nobody_asked(run: Run) -> None:
    run.deliveries.append(Delivery(None, "k", "not among the recorded calls"))


def _one_digit_off(run: Run) -> None:
    run.change(
        run.at("lunch", "2", 3),
        result={"order_id": "MO-1", "number": ("number", "12345678901234567000"), "total": ("number", "241.00")},
    )


def _refusal_as_success(run: Run) -> None:
    run.change(run.at("lunch", "2", 2), status="succeeded", result=None, error=None)


def _hold_that_ran(run: Run) -> None:
    call = run.at("lunch", "2", 4)
    run.change(call, **_outcome(call), decision="replay")


def _hold_without_first(run: Run) -> None:
    run.change(run.at("lunch", "4", 1), first=None)


def _recycled_refused(run: Run) -> None:
    call = run.at("lunch", "3", 1)
    run.seen = [replace(one, status=422) if one.expected.call is call else one for one in run.seen]


def _recycled_got_anothers_result(run: Run) -> None:
    run.change(run.at("lunch", "1", 2), **_outcome(run.at("lunch", "3", 1)))


def _proceeded_twice(run: Run) -> None:
    run.change(run.at("lunch", "1", 2), decision="proceed", replay=None)


def _proceeded_after_the_restart(run: Run) -> None:
    run.seen = [
        replace(one, body={**one.body, "decision": "proceed"})
        if one.arrival is Arrival.AFTER_RESTART and one.expected.call.tool == "add_to_cart"
        else one
        for one in run.seen
    ]


def _two_effect_ids(run: Run) -> None:
    last = next(one for one in reversed(run.seen) if one.expected.fate is Fate.SENT)
    run.seen[run.seen.index(last)] = replace(last, body={**last.body, "effect_id": "another"})


def _said_to_be_read_only(run: Run) -> None:
    run.change(run.at("lunch", "1", 2), side_effecting=False)


def _never_answered(run: Run) -> None:
    call = run.at("dinner", "t-2", 1)
    run.seen = [one for one in run.seen if one.expected.call is not call]


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (_sent_twice, NOT_ONCE),
        (_sent_twice_under_another_key, NOT_ONCE),
        (_never_sent, NOT_ONCE),
        (_two_effects_under_one_key, NOT_ONCE),
        (_a_hold_was_sent, NOT_ONCE),
        (_a_read_never_came, NO_ANSWER),
        (_a_read_came_with_a_key, STRAY),
        (_unsigned, STRAY),
        (_nobody_asked, STRAY),
        (_one_digit_off, WRONG_ANSWER),
        (_refusal_as_success, WRONG_ANSWER),
        (_hold_that_ran, WRONG_ANSWER),
        (_hold_without_first, WRONG_ANSWER),
        (_recycled_refused, RECYCLED),
        (_recycled_got_anothers_result, RECYCLED),
        (_proceeded_twice, WRONG_FACT),
        (_proceeded_after_the_restart, WRONG_FACT),
        (_two_effect_ids, WRONG_FACT),
        (_said_to_be_read_only, WRONG_FACT),
        (_never_answered, NO_ANSWER),
    ],
    ids=lambda each: each.__name__.strip("_") if callable(each) else "",
)
def test_what_went_wrong_is_found(good_run: Run, spoil: Callable[[Run], None], rule: str) -> None:
    spoil(good_run)
    found = check(good_run.expected, good_run.seen, good_run.deliveries)
    assert {failure.rule for failure in found} == {rule}


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"conversation": "c"}',
        '{"conversation": "c", "calls": [{"turn": 1, "step": 0, "tool_call_id": "a", "tool": "t", "arguments": "{}", '
        '"result": ""}]}',
        '{"conversation": "c", "calls": [{"turn": 1, "step": 1, "tool_call_id": "a", "tool": "t", "arguments": "[]", '
        '"result": ""}]}',
        "",
    ],
)
def test_a_file_that_cannot_be_replayed_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(BadRecording):
        load(path)


CALL = {"turn": 1, "step": 1, "tool_call_id": "a", "tool": "t", "arguments": "{}", "result": ""}
_NO_IDS = ("", "\ud800", "x" * 1_025)


@pytest.mark.parametrize(
    ("conversation", "wrong"),
    [
        *((name, {}) for name in (None, 5, ["c"], *_NO_IDS)),
        *(("c", {"turn": turn}) for turn in (None, True, [1], {}, *_NO_IDS)),
        *(("c", {"tool_call_id": name}) for name in _NO_IDS),
        *(("c", {"tool": name}) for name in ("", "\ud800", "x" * 129, "a\0b", " t")),
        ("c", {"step": 1_000_000_001}),
        ("c", {"result": "\ud800"}),
    ],
)
def test_what_no_call_can_say_is_refused_with_its_line_before_anything_is_started(
    tmp_path: Path, conversation: Any, wrong: dict[str, Any]
) -> None:
    path = tmp_path / "calls.jsonl"
    good = json.dumps({"conversation": "good", "calls": [CALL]})
    path.write_text(f"{good}\n{json.dumps({'conversation': conversation, 'calls': [CALL | wrong]})}\n")
    with pytest.raises(BadRecording, match=r"calls\.jsonl, line 2: "):
        load(path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000], ids=["not UTF-8", "deep"])
def test_a_file_that_cannot_be_read_is_status_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """Status 1 would say that a write did not reach the shop once."""
    path = tmp_path / "calls.jsonl"
    path.write_bytes(content)
    assert main([str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("calls.jsonl")


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\u2029"])
def test_a_line_ends_where_json_lines_end_and_not_in_a_text(tmp_path: Path, character: str) -> None:
    path = tmp_path / "calls.jsonl"
    call = CALL | {"result": f"one{character}two"}
    path.write_text(json.dumps({"conversation": "c", "calls": [call]}, ensure_ascii=False) + "\r\n", encoding="utf-8")
    assert [each.result for each in load(path)] == [f"one{character}two"]
