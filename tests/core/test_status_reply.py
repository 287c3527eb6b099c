"""What a status endpoint's answer means (promise 5.4): the whole table, and that nothing else settles anything."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.outcome import Reason, Seen, SeenKind
from gateway.core.record import Outcome, Status
from gateway.core.status_reply import NOT_EXECUTED, TABLE, Said, told_by

JSON = "application/json"
DONE = Status.SUCCEEDED


def answer(body: object, status: int = 200, content_type: str = JSON, **more: object) -> Seen:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Seen(SeenKind.REPLY, Reason.REPLIED, True, status, content_type, None, "", raw, **more)


SETTLES = [
    ({"status": "committed", "result": {"order": "O-1"}}, Said.COMMITTED, Outcome(DONE, b'{"order": "O-1"}')),
    ({"status": "committed", "result": "O-1", "note": 1}, Said.COMMITTED, Outcome(DONE, b'"O-1"')),
    ({"result": [1], "status": "committed"}, Said.COMMITTED, Outcome(DONE, b"[1]")),
    ({"status": "committed"}, Said.COMMITTED, Outcome(DONE, b"null")),
    ({"status": "committed", "result": None}, Said.COMMITTED, Outcome(DONE, b"null")),
    (b'{"status":"committed","result":1.50e400}', Said.COMMITTED, Outcome(DONE, b"1.50e400")),
    (b'{"status":"committed","result":{"a":1,"a":2}}', Said.COMMITTED, Outcome(DONE, b'{"a":1,"a":2}')),
    (
        b'{"status":"committed","result":12345678901234567890123}',
        Said.COMMITTED,
        Outcome(DONE, b"12345678901234567890123"),
    ),
    ({"status": "void"}, Said.VOID, Outcome(Status.FAILED, fault=NOT_EXECUTED)),
    ({"status": "void", "result": "ignored"}, Said.VOID, Outcome(Status.FAILED, fault=NOT_EXECUTED)),
    ({"status": "in_progress"}, Said.IN_PROGRESS, None),
]


@pytest.mark.parametrize("status", [200, 201, 299])
@pytest.mark.parametrize(("body", "said", "outcome"), SETTLES)
def test_p5_4_the_three_words_and_what_each_settles(body, said, outcome, status):
    """5.4, 2.10: a result is kept digit for digit; committed without one has the empty result."""
    told = told_by(answer(body, status))
    assert (told.said, told.outcome) == (said, outcome)


NOTHING = [
    *((answer({"status": "void"}, status), f"http_{status}") for status in (199, 301, 400, 401, 404, 409, 410, 429)),
    *((answer({"status": "committed"}, status), f"http_{status}") for status in (500, 503)),
    (answer({"status": "unknown"}), "unknown_status"),
    (answer({"status": "Void"}), "unknown_status"),
    (answer({"status": " void"}), "unknown_status"),
    (answer({"status": None}), "not_the_form"),
    (answer({"status": ["void"]}), "not_the_form"),
    (answer({"state": "void"}), "not_the_form"),
    (answer(["void"]), "not_the_form"),
    (answer("void"), "not_the_form"),
    (answer(None), "not_the_form"),
    (answer(b'{"status":"void","status":"committed"}'), "said_twice"),
    (answer(b'{"status":"committed","result":1,"result":2}'), "said_twice"),
    (answer(b'{"status":"void"'), "malformed_json"),
    (answer(b'{"status":"void"}x'), "malformed_json"),
    (answer(b'{"status":"committed","result":' + b"[" * 70 + b"]" * 70 + b"}"), "nested_too_deep"),
    (answer(b"void", content_type="text/plain"), "text"),
    (answer({"status": "void"}, content_type="text/plain"), "text"),
    (answer(b"<html>void", content_type="text/html"), "html"),
    (answer(b""), "empty"),
    (answer(b'{"status":"\xff"}'), "undecodable"),
    (Seen(SeenKind.REPLY, Reason.REPLIED, True, 200, JSON, None, "gzip", b'{"status":"void"}'), "content_encoding"),
    (Seen(SeenKind.TIMEOUT, Reason.TIMED_OUT, True), "timed_out"),
    (Seen(SeenKind.BROKEN, Reason.REPLY_TRUNCATED, True, 200), "reply_truncated"),
    (Seen(SeenKind.NOT_CONNECTED, Reason.ADDRESS_REFUSED, False), "address_refused"),
]


@pytest.mark.parametrize(("seen", "reason"), NOTHING)
def test_p5_4_anything_else_says_nothing(seen, reason):
    """5.4: a 404 for a key that is not known least of all: the call may still be on its way."""
    told = told_by(seen)
    assert (told.said, told.outcome, told.reason) == (Said.NOTHING, None, reason)


@pytest.mark.parametrize(
    ("body", "content_type", "said"),
    [
        (b' {"status" : "committed", "result": "aaa', JSON, Said.COMMITTED),
        (b'{"result":"aaa', JSON, Said.NOTHING),
        (b'{"status":"void","result":"aaa', JSON, Said.NOTHING),
        (b'{"status":"in_progress","result":"aaa', JSON, Said.NOTHING),
        (b'{"status":"committed","result":"aaa', "text/html", Said.NOTHING),
    ],
)
def test_p5_4_an_answer_too_long_to_read_counts_only_where_committed_came_first(body, content_type, said):
    """5.4, 4.12: it was done, and its result is dropped."""
    told = told_by(answer(body, content_type=content_type, too_large=True))
    assert told.said is said
    assert told.outcome == (Outcome(DONE, dropped=True) if said is Said.COMMITTED else None)


@pytest.mark.parametrize(("size", "dropped"), [(98, False), (99, True)])
def test_p5_4_a_result_over_the_cap_is_dropped(size, dropped):
    """5.4, 4.12: the cap counts its JSON text, two quotes included."""
    told = told_by(answer({"status": "committed", "result": "a" * size}), result_cap=100)
    assert told.outcome is not None
    assert told.outcome.dropped == dropped
    assert (told.outcome.result is None) == dropped


def test_p5_4_how_long_the_merchant_wants_to_be_left_alone():
    """5.4"""
    assert told_by(answer({"status": "in_progress"}, retry_after=("7",))).retry_after_s == 7
    assert told_by(answer(b"", 503, retry_after=("7",))).retry_after_s == 7
    assert told_by(answer({"status": "in_progress"})).retry_after_s is None


STATUSES = st.sampled_from([*TABLE, "x", "", None, 1, True])
BODIES = st.binary(max_size=40) | st.builds(
    lambda status, more: json.dumps({"status": status, **more}).encode(),
    STATUSES,
    st.dictionaries(st.sampled_from(["result", "note"]), st.none() | st.text(max_size=5) | st.integers()),
)


@given(
    seen=st.builds(
        Seen,
        st.sampled_from(SeenKind),
        st.sampled_from(Reason),
        st.booleans(),
        st.none() | st.integers(100, 599),
        st.sampled_from([JSON, "", "text/plain", "application/x+json"]),
        st.sampled_from([None, "utf-8", "latin-1", "nonsense"]),
        st.sampled_from(["", "gzip"]),
        BODIES,
        st.booleans(),
        st.tuples() | st.tuples(st.text(max_size=5)),
    )
)
def test_p5_4_no_answer_raises_and_only_a_whole_2xx_settles(seen):
    """5.4, 9.4: any bytes give an answer, and none of them sends the call again."""
    told = told_by(seen)
    if told.outcome is not None:
        assert seen.kind is SeenKind.REPLY
        assert seen.status is not None
        assert 200 <= seen.status < 300
        assert told.outcome.status in (Status.SUCCEEDED, Status.FAILED)
    assert (told.outcome is not None) == (told.said in (Said.COMMITTED, Said.VOID))
    assert bool(told.reason) == (told.said is Said.NOTHING)
