"""The tool loop with its turn recorded: run again, it goes on where it stopped."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal

import pytest

from gateway.runtime import (
    Answer,
    Approval,
    AsyncOncegate,
    BadCall,
    EffectDenied,
    NoAnswer,
    Problem,
    Replay,
    Resend,
    ToolLoop,
    TurnCall,
    TurnResult,
)
from gateway.runtime.exact_json import encode
from gateway.runtime.loop_record import CUT, ROOM, as_first_told, fitted, keepable
from gateway.runtime.replies import Asked
from gateway.runtime.turn_calls import call_document, read_call
from gateway.runtime.wording import REPEAT_MARK

ASKS = [{"role": "user", "content": "Yes, order it."}]


def call(id_, name="place_order", arguments='{"sku": "A"}'):
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def asking(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


SAYING = {"role": "assistant", "content": "Done."}


class Scripted:
    """Replies by how far the conversation is. An exception among the replies is raised, once: a crash."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []

    async def __call__(self, messages, tools):
        step = sum(message["role"] == "assistant" for message in messages)
        self.asked.append(step)
        reply = self.replies[step]
        if isinstance(reply, Exception):
            self.replies[step] = SAYING
            raise reply
        return reply


def loop(client, model, **options):
    return ToolLoop(client, "acme", "c-1", model, resumable=True, **options)


async def test_p7_2_a_turn_that_crashed_goes_on_where_it_stopped(client, played):
    """7.2: replies and what was told of calls come from the record, one request each; the messages are the same."""
    model = Scripted(asking(call("a")), asking(call("b", "get_order", "{}")), ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        await loop(client, model).run(ASKS, turn="t-1")
    before = len(played.requests)
    result = await loop(client, model).run(ASKS, turn="t-1")
    told = [message["content"] for message in result.messages if message["role"] == "tool"]
    assert (told, result.text, result.steps) == (["Order MO-1001 placed.", "Order MO-1002 placed."], "Done.", 2)
    assert model.asked == [0, 1, 2, 2]
    assert len(played.ran) == 2
    assert len(played.requests) - before == 5 + 2, "tools, two replies, two steps' calls; then the last reply"
    assert [made.answer.status for made in result.calls] == ["succeeded", "succeeded"]
    again = await loop(client, model).run(ASKS, turn="t-1")
    assert (again.messages, again.calls, model.asked) == (result.messages, result.calls, [0, 1, 2, 2])


async def test_p7_2_what_was_not_done_is_not_done_later_behind_the_models_back(client, played, as_problem):
    """7.2: the model was told that the first shop was out of reach, and went on to another. Run again, with the first
    in reach, the turn must not order there as well."""
    out_of_reach = (502, as_problem("merchant_unreachable", 502, message="out of reach", retryable=True))
    played.refusals["place_order"] = out_of_reach
    model = Scripted(asking(call("a")), asking(call("b", "cancel_order", "{}")), ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        await loop(client, model).run(ASKS, turn="t-1")
    del played.refusals["place_order"]
    result = await loop(client, model).run(ASKS, turn="t-1")
    assert [one["tool"] for one in played.ran] == ["cancel_order"]
    error = result.calls[0].error
    assert isinstance(error, Problem)
    assert (error.code, error.status, error.outcome, error.retryable) == ("merchant_unreachable", 502, "not_sent", True)


async def test_a_read_is_not_read_again_once_the_model_was_told(client, played):
    """3.6: reads leave no record of their own; what the model went on with has to stay."""
    played.answers["get_order"] = {"message": "3 left", "side_effecting": False, "effect_id": None}
    model = Scripted(asking(call("a", "get_order", "{}")), ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        await loop(client, model).run(ASKS, turn="t-1")
    played.answers["get_order"] = {"message": "2 left"}
    result = await loop(client, model).run(ASKS, turn="t-1")
    assert (len(played.ran), result.messages[2]["content"]) == (1, "3 left")


async def test_the_tools_are_those_the_turn_began_with(client, played):
    """A tool that is registered meanwhile would make every question another one."""
    model = Scripted(asking(call("a")), ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        await loop(client, model).run(ASKS, turn="t-1")
    asked = [request.path for request in played.requests].count("/v1/companies/acme/tools")
    await loop(client, model).run(ASKS, turn="t-1")
    assert [request.path for request in played.requests].count("/v1/companies/acme/tools") == asked == 1


UNKEEPABLE = [None, "text", {"content": "\ud800"}, {"content": {1}}, {"content": float("nan")}, {"n": 10**2000}, {1: 2}]


@pytest.mark.parametrize("reply", UNKEEPABLE, ids=ascii)
async def test_a_reply_that_cannot_be_kept_is_handed_back_and_not_asked_for_again(client, reply):
    """9.4, 7.2: whatever a model writes, the turn goes on, and goes on the same."""
    model = Scripted(reply, reply, SAYING)

    async def by_count(messages, tools):
        model.asked.append(len(messages))
        return SAYING if len(messages) > 2 else reply

    first = await loop(client, by_count).run(ASKS, turn="t-1")
    asked = len(model.asked)
    again = await loop(client, by_count).run(ASKS, turn="t-1")
    assert (first.messages, first.text) == (again.messages, "Done.")
    assert len(model.asked) == asked == 2


async def test_a_reply_whose_every_call_is_faulty_needs_no_record_of_its_calls(client, played):
    model = Scripted(asking(call("a", "no_such_tool"), call("b", arguments="{")), SAYING)
    result = await loop(client, model).run(ASKS, turn="t-1")
    assert [made.fault is not None for made in result.calls] == [True, True]
    assert {sent["target"] for sent in played.effects.submitted} == {"loop.tools", "model"}


async def test_p7_3_a_rule_against_the_model_ends_the_turn_and_is_told(client, played):
    """7.3"""
    error = {"code": "policy_denied", "message": "not this model"}
    played.effects.said["dear-model"] = {"effect_id": None, "decision": "denied", "status": "denied", "error": error}
    model = Scripted(SAYING)
    with pytest.raises(EffectDenied, match="policy_denied"):
        await loop(client, model, model_name="dear-model").run(ASKS, turn="t-1")
    assert model.asked == []


async def test_a_later_attempt_asks_anew_in_a_record_of_its_own(client, played):
    """2.4: tokens are of one attempt."""
    model = Scripted(asking(call("a")), SAYING)
    for attempt in (1, 2):
        await loop(client, model).run(ASKS, turn="t-1", attempt=attempt)
    assert {sent["attempt"] for sent in played.effects.submitted} == {1, 2}
    assert len({sent["claim_token"] for sent in played.effects.submitted}) == 8


async def test_without_being_asked_nothing_is_recorded(client, played):
    await ToolLoop(client, "acme", "c-1", Scripted(asking(call("a")), SAYING)).run(ASKS, turn="t-1")
    assert played.effects.submitted == []


def test_a_client_without_turns_cannot_be_resumable():
    with pytest.raises(ValueError, match="has turns"):
        ToolLoop(object(), "acme", "c-1", Scripted(), resumable=True)


async def test_the_gateway_out_of_reach_ends_a_resumable_turn(key):
    """7.2: nothing is done that could not be recorded."""
    model = Scripted(SAYING)
    async with AsyncOncegate("http://127.0.0.1:1", key, resend=Resend(times=0)) as client:
        with pytest.raises(NoAnswer):
            await loop(client, model, tools=[]).run(ASKS, turn="t-1")
    assert model.asked == []


def answered(message, effect_id="e1", first_at=None, matched="tool_call_id", **more):
    replay = None if first_at is None else Replay(matched, first_at)
    raw = json.dumps({"decision": "proceed", "message": message})
    return Answer("proceed", "succeeded", message, effect_id=effect_id, replay=replay, raw=raw, **more)


def made(*answers, note=""):
    return [TurnCall(1, "a", "t", {}, answer.message + note, answer=answer) for answer in answers]


EARLY, ASKED, LATE = "2026-11-29T10:00:00.100Z", "2026-11-29T10:00:00.120Z", "2026-11-29T10:00:00.121Z"


@pytest.mark.parametrize(
    ("first_at", "asked_at", "plain"),
    [
        (LATE, ASKED, True),
        (ASKED, ASKED, True),
        (EARLY, ASKED, False),
        (LATE, None, False),
        (None, ASKED, True),
    ],
    ids=["made since", "made at once", "made before", "the reply is new", "made now"],
)
def test_p4_10_only_a_call_of_the_run_before_loses_its_mark(first_at, asked_at, plain):
    """4.10: what is older than the reply that asks for it is a repeat, and the model is told so."""
    mark = "" if first_at is None else REPEAT_MARK
    (told,) = as_first_told(made(answered(f"Placed.{mark}", first_at=first_at), note="\nnote"), asked_at)
    assert told.message == ("Placed." if plain else f"Placed.{REPEAT_MARK}") + "\nnote"


def test_p4_10_the_second_of_two_calls_with_one_effect_stays_marked():
    """4.10: it was answered with the first one's."""
    answers = [answered(f"Placed.{REPEAT_MARK}", first_at=LATE) for _ in range(2)]
    told = as_first_told(made(*answers), ASKED)
    assert [one.message for one in told] == ["Placed.", f"Placed.{REPEAT_MARK}"]


ERRORS = [
    Problem("m", code="rate_limited", status=429, retryable=True, outcome="not_sent", retry_after=2.0, body={"n": Decimal("1.50")}),
    Problem("m", code="x", status=500, retryable=False, outcome=None),
    NoAnswer("m", reason="lost", outcome="unknown", retryable=True),
    BadCall("m"),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_recorded_error_is_the_error_it_was(error):
    asked = Asked(0, {}, "a", "t", {})
    recorded = call_document(TurnCall(3, "a", "t", {}, "words", error=error))
    read = read_call(3, asked, json.loads(json.dumps(recorded, default=str)) | {"error": recorded["error"]})
    assert (type(read.error), vars(read.error), read.message) == (type(error), vars(error), "words")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"a": [1, 1.5, "é", None, True]}, True),
        ("\ud83d\ude00", False),
        ({"\ud800": 1}, False),
        (float("inf"), False),
        (Decimal("NaN"), False),
        (10**999, False),
        (10**998, True),
        (b"x", False),
    ],
    ids=ascii,
)
def test_p9_4_what_can_be_kept_of_a_reply(value, kept):
    """9.4: what the gateway would refuse is known before."""
    assert keepable(value) is kept


def test_p9_4_nesting_that_the_gateway_takes_is_kept_and_no_more():
    """9.4"""
    deep: object = 1
    for _ in range(56):
        deep = [deep]
    assert keepable(deep)
    assert not keepable([deep])


def blocked(id_, *approvers):
    return answered("wait", approval=Approval(id_, None, "Shall I?", approvers))


def test_p7_4_what_the_customer_may_approve_is_told_once():
    """7.4: what is for others, and what is not blocked, is left out."""
    waiting = [blocked("ap-1", "operator"), blocked("ap-2", "operator", "customer"), blocked("ap-2", "customer")]
    answers = [Answer("blocked", "awaiting_approval", "wait", approval=one.approval) for one in waiting]
    result = TurnResult([], "", 1, tuple(made(*answers, answered("done"))))
    assert [approval.id for approval in result.awaiting_customer] == ["ap-2"]


async def test_calls_of_one_reply_still_run_side_by_side(client, played):
    """K1-02"""
    both = asyncio.Barrier(2)

    async def meet(one):
        await both.wait()

    played.before = meet
    model = Scripted(asking(call("a"), call("b", "get_order", "{}")), SAYING)
    result = await loop(client, model).run(ASKS, turn="t-1")
    assert [one["tool_call_id"] for one in result.messages if one["role"] == "tool"] == ["a", "b"]


def told_of(message, **answer):
    return {
        "message": message,
        "fault": None,
        "error": None,
        "answer": {"decision": "proceed", "message": message} | answer,
    }


LONG = ["x" * 400_000, "नमस्ते" * 100_000, "\U0001f600" * 100_000, '"' * 900_000]


@pytest.mark.parametrize("calls", [1, 3, 64])
@pytest.mark.parametrize("text", LONG, ids=["ascii", "devanagari", "emoji", "quotes"])
def test_p9_4_what_calls_gave_is_made_to_fit_its_record(text, calls):
    """9.4: else a turn whose calls were made could never go on."""
    documents = [told_of(text, result=text, first={"effect_id": "e", "status": "s", "result": text})] * calls
    kept = fitted(documents)
    assert len(encode(kept)) <= ROOM
    for one in kept:
        assert one["message"] == text or one["message"].endswith(CUT)
        assert one["message"].removesuffix(CUT) == text[: len(one["message"].removesuffix(CUT))]
        assert len(one["message"]) > 400
        read_call(1, Asked(0, {}, "a", "t", {}), one)


def test_p9_4_what_fits_is_kept_whole_and_results_go_before_words():
    """9.4"""
    small = [told_of("Placed.", result={"order": 1})]
    assert fitted(small) is small
    (kept,) = fitted([told_of("x" * 400_000, result="y" * 400_000)])
    assert (len(kept["message"]), "result" in kept["answer"]) == (400_000, False)


async def test_p9_4_the_model_is_shown_what_is_kept_in_the_first_run_too(client, played):
    """9.4: or it would be asked another question when the turn is run again."""
    played.answers["place_order"] = {"message": "z" * 900_000}
    model = Scripted(asking(call("a")), ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        await loop(client, model).run(ASKS, turn="t-1")
    result = await loop(client, model).run(ASKS, turn="t-1")
    assert result.messages[2]["content"].endswith(CUT)
    assert model.asked == [0, 1, 1]
    assert max(map(len, played.bodies)) < 800_000
