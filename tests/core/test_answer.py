"""What the runtime is told (section 8; promises 4.10, 4.12)."""

from __future__ import annotations

import json

import msgspec
import pytest

from gateway.core.answer import (
    DROPPED_FAULT,
    UNKNOWN_FAULT,
    Answer,
    answer_bytes,
    fault_body,
    fault_of,
    first_body,
    iso,
    message_of,
    raw,
)
from gateway.core.identity import Kind
from gateway.core.record import FORMAT, Effect, Fault, Mode, Outcome, Status

REFUSED = Fault("merchant_refused", "The merchant refused.", b'{"status":402,"body":{"amount":12.50}}')


def effect(status, outcome=None):
    return Effect(
        format=FORMAT,
        effect_id=b"e" * 32,
        company="acme",
        conversation="c-1",
        kind=Kind.TOOL_CALL,
        target="place_order",
        fingerprint=b"f" * 32,
        tool_call_id="call_1",
        turn=None,
        step=None,
        attempt=1,
        occurrence=0,
        fields={},
        mode=Mode.AT_MOST_ONCE,
        tool_version=1,
        endpoint="https://shop.example/tools",
        status=status,
        first_at=1_764_410_400_120,
        outcome=outcome,
    )


@pytest.mark.parametrize(
    ("stands", "fault"),
    [
        (effect(Status.SUCCEEDED, Outcome(Status.SUCCEEDED, b"{}")), None),
        (effect(Status.SUCCEEDED, Outcome(Status.SUCCEEDED, dropped=True)), DROPPED_FAULT),
        (effect(Status.FAILED, Outcome(Status.FAILED, fault=REFUSED)), REFUSED),
        (effect(Status.INDETERMINATE), UNKNOWN_FAULT),
        (effect(Status.EXECUTING), None),
    ],
)
def test_p4_12_the_fault_of_a_record(stands, fault):
    """4.12: a dropped result is a fault to show, never a call to run again."""
    assert fault_of(stands) == fault


@pytest.mark.parametrize(
    ("result", "fault", "message"),
    [
        (b'"Order MO-1001 placed."', None, "Order MO-1001 placed."),
        (b'"say \\"hi\\""', None, 'say "hi"'),
        (b'{"order":2512292042121000001}', None, '{"order":2512292042121000001}'),
        (b"null", None, "Done."),
        (None, None, "Done."),
        (b"12.50", None, "12.50"),
        (None, UNKNOWN_FAULT, UNKNOWN_FAULT.message),
        (None, REFUSED, 'The merchant refused. {"status":402,"body":{"amount":12.50}}'),
    ],
)
def test_the_message_is_plain_text_for_the_tool_message(result, fault, message):
    assert message_of(result, fault) == message


def test_p4_10_a_stored_result_is_answered_digit_for_digit():
    """4.10, 2.10: no number passes through a float."""
    answer = Answer(
        effect_id="ee",
        company="acme",
        conversation="c-1",
        tool_call_id="call_1",
        tool="place_order",
        decision="replay",
        status="succeeded",
        side_effecting=True,
        result=raw(b'{"id":2512292042121000001,"amount":12.50,"n":1e2}'),
        error=fault_body(REFUSED),
    )
    assert b'"result":{"id":2512292042121000001,"amount":12.50,"n":1e2}' in answer_bytes(answer)
    assert b'"details":{"status":402,"body":{"amount":12.50}}' in answer_bytes(answer)
    assert json.loads(answer_bytes(answer))["recorded"] is True


@pytest.mark.parametrize(
    ("first", "shown"),
    [
        (effect(Status.SUCCEEDED, Outcome(Status.SUCCEEDED, b'"MO-1"')), {"result": "MO-1"}),
        (effect(Status.SUCCEEDED, Outcome(Status.SUCCEEDED, dropped=True)), {"error": {"code": "result_dropped"}}),
        (effect(Status.INDETERMINATE), {"error": {"code": "outcome_unknown"}}),
        (effect(Status.EXECUTING), {}),
    ],
)
def test_p4_9_a_held_repeat_shows_its_first_in_full(first, shown):
    """4.9"""
    body = json.loads(msgspec.json.encode(first_body(first)))
    assert body["effect_id"] == "65" * 32
    assert body["status"] == first.status.value
    assert body["first_at"] == "2025-11-29T10:00:00.120Z"
    assert body.get("result") == shown.get("result")
    assert body.get("error", {}).get("code") == shown.get("error", {}).get("code")


@pytest.mark.parametrize(
    ("ms", "text"), [(None, None), (0, "1970-01-01T00:00:00.000Z"), (1_764_410_400_007, "2025-11-29T10:00:00.007Z")]
)
def test_times_are_shown_in_utc_with_milliseconds(ms, text):
    assert iso(ms) == text
