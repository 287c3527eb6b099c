"""The tool loop with scripted models against a gateway on the loopback."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.runtime import DEFAULT_INSTRUCTION, AsyncOncegate, Resend, ToolLoop
from gateway.runtime.wording import NO_TEXT, SAME_ID_NOTE, STEP_LIMIT_NOTICE

ASKS = [{"role": "user", "content": "The red one, please. Yes, order it."}]


def call(id_, name="place_order", arguments='{"sku": "A"}', **more):
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def asking(*calls, content=None):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def saying(text="Done."):
    return {"role": "assistant", "content": text}


class Scripted:
    """Replies in order; keeps what it was shown."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.shown = []
        self.offered = []

    async def __call__(self, messages, tools):
        self.shown.append(messages)
        self.offered.append(tools)
        return self.replies.pop(0)


def tool_messages(result):
    return [message for message in result.messages if message["role"] == "tool"]


async def test_p7_1_a_turn_states_turn_step_and_attempt_and_ends_in_text(client, played):
    """7.1: each pass of the loop is one step, counted from 1."""
    model = Scripted(asking(call("a")), asking(call("b", "get_order", {"id": 1})), saying("Ordered: MO-1001."))
    result = await ToolLoop(client, "acme", "c-42", model).run(ASKS, turn="t-7", attempt=2)
    stated = [(one["tool_call_id"], one["turn"], one["step"], one["attempt"]) for one in played.ran]
    assert stated == [("a", "t-7", 1, 2), ("b", "t-7", 2, 2)]
    assert (result.text, result.steps) == ("Ordered: MO-1001.", 2)
    assert [message["role"] for message in result.messages] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert [(made.step, made.tool, made.answer.succeeded) for made in result.calls] == [
        (1, "place_order", True),
        (2, "get_order", True),
    ]
    assert ASKS == [{"role": "user", "content": "The red one, please. Yes, order it."}]


async def test_p8_the_model_is_shown_the_message_of_the_answer(client):
    """8: `message` is the text for the tool message, replay mark included."""
    model = Scripted(asking(call("a")), asking(call("a")), saying())
    result = await ToolLoop(client, "acme", "c-42", model).run(ASKS, turn="t-7")
    assert [message["content"] for message in tool_messages(result)] == [
        "Order MO-1001 placed.",
        "Order MO-1001 placed. (Repeated call: nothing new was done.)",
    ]
    assert not result.superseded


async def test_p2_5_a_run_started_over_finds_what_the_first_one_did(client, played):
    """2.1, 2.5: the crashed run's effects are replayed, not repeated."""

    async def crashes(messages, tools):
        if len(messages) > 2:
            raise ConnectionResetError("the model went away")
        return asking(call("a"))

    with pytest.raises(ConnectionResetError):
        await ToolLoop(client, "acme", "c-42", crashes).run(ASKS, turn="t-7", attempt=1)
    result = await ToolLoop(client, "acme", "c-42", Scripted(asking(call("a")), saying())).run(
        ASKS, turn="t-7", attempt=2
    )
    assert len(played.ran) == 1
    assert result.calls[0].answer.replay.matched == "tool_call_id"


async def test_calls_of_one_reply_run_side_by_side_and_answer_in_its_order(client, played):
    """K1-02: the first call is held until the others were answered; the tool messages keep the reply's
    order."""
    others = asyncio.Event()
    arrived = []

    async def hold_the_first(one):
        arrived.append(one["tool_call_id"])
        if one["tool_call_id"] == "a":
            await others.wait()
        elif len(arrived) == 3:
            others.set()

    played.before = hold_the_first
    asked = [call(id_, arguments=f'{{"sku": "{id_}"}}') for id_ in "abc"]
    result = await ToolLoop(client, "acme", "c-42", Scripted(asking(*asked), saying())).run(ASKS, turn="t-1")
    assert [message["tool_call_id"] for message in tool_messages(result)] == ["a", "b", "c"]
    assert [one["tool_call_id"] for one in played.ran][-1] == "a"
    assert [json.loads(made.answer.raw)["tool_call_id"] for made in result.calls] == ["a", "b", "c"]


async def test_p7_1_after_six_steps_the_model_is_asked_once_more_without_tools(client, played):
    """7.1: at most six steps, then a closing text."""
    replies = [asking(call(f"c{n}", arguments=json.dumps({"n": n}))) for n in range(6)]
    model = Scripted(*replies, saying("I placed six orders."))
    result = await ToolLoop(client, "acme", "c-42", model).run(ASKS, turn="t-1")
    assert (len(played.ran), result.steps, result.text) == (6, 6, "I placed six orders.")
    assert [bool(tools) for tools in model.offered] == [True] * 6 + [False]
    assert model.shown[-1][-1] == {"role": "system", "content": STEP_LIMIT_NOTICE}


@pytest.mark.parametrize("closing", [asking(call("late"), content="All done!"), None, saying(" ")])
async def test_a_closing_reply_that_is_no_text_runs_nothing_and_claims_nothing(client, played, closing):
    """7.1: calls past the limit are refused, and a text written before that refusal is not passed on."""
    model = Scripted(asking(call("a")), closing)
    result = await ToolLoop(client, "acme", "c-42", model, max_steps=1).run(ASKS, turn="t-1")
    assert (len(played.ran), result.text, result.messages[-1]["content"]) == (1, NO_TEXT, NO_TEXT)
    ids = [message["tool_call_id"] for message in tool_messages(result)]
    assert ids == (["a", "late"] if isinstance(closing, dict) and "tool_calls" in closing else ["a"])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (call("a", arguments='{"sku": "A",}'), "not valid JSON"),
        (call("a", arguments='{"items": [{"sku": "A"'), "cut off"),
        (call("a", arguments='{"price": NaN}'), "not valid JSON"),
        (call("a", arguments=None), "neither an object"),
        (call("a", arguments=[1]), "neither an object"),
        (call("a", arguments={"when": object()}), "not valid JSON"),
        (call("a", name=None), "names no tool"),
        (call("a", name=" "), "names no tool"),
        (call("a", name=7), "names no tool"),
        (call("a", name="place_oder"), "there is no tool of that name; tools with a name like it: place_order"),
        ({"id": "a", "type": "custom", "custom": {}}, "not a function call"),
        ({"id": "a"}, "not a function call"),
    ],
)
async def test_k2_06_k2_07_a_malformed_call_is_handed_back_and_never_run(client, played, asked, words):
    """K2-06, K2-07, 2.9: never repaired, never guessed; the model gets its own tool message."""
    model = Scripted(asking(asked, call("b", "get_order")), saying())
    result = await ToolLoop(client, "acme", "c-42", model).run(ASKS, turn="t-1")
    assert [one["tool_call_id"] for one in played.ran] == ["b"]
    refused, fine = tool_messages(result)
    assert (refused["tool_call_id"], fine["tool_call_id"]) == ("a", "b")
    assert words in refused["content"]
    assert "Nothing was done" in refused["content"]
    assert result.calls[0].fault
    assert result.calls[0].answer is None


@pytest.mark.parametrize(
    "reply",
    [
        None, 7, "text", [], {}, {"role": "user", "content": "hi"}, {"content": 5}, {"tool_calls": {}, "content": "x"},
        {"content": "", "tool_calls": []}, {"content": [{"type": "image"}]},
        {"content": [{"type": "tool_use", "id": "x", "name": "place_order", "input": {}}], "tool_calls": [call("a")]},
    ],
)  # fmt: skip
async def test_a_reply_that_is_no_message_is_handed_back_and_costs_a_step(client, played, reply):
    """7.1: a model that talks nonsense is told so, within the same bound of steps."""
    model = Scripted(reply, saying("Sorry. How can I help?"))
    result = await ToolLoop(client, "acme", "c-42", model).run(ASKS, turn="t-1")
    assert (result.text, result.steps, played.ran) == ("Sorry. How can I help?", 1, [])
    assert "could not be read" in result.messages[1]["content"]
    assert len(result.messages) == 3


async def test_content_that_is_no_block_is_dropped_from_the_transcript(client):
    """A provider would refuse the whole conversation for one stray part."""
    part = {"type": "text", "text": "Ordering."}
    model = Scripted(asking(call("a"), content=[None, part, 7]), {"content": ["x", {"type": "text", "text": "Done."}]})
    result = await ToolLoop(client, "acme", "c-42", model).run(ASKS, turn="t-1")
    assert result.messages[1]["content"] == [part]
    assert (result.messages[-1]["content"], result.text) == ([{"type": "text", "text": "Done."}], "Done.")


@pytest.mark.parametrize("blank", [{"id": None}, {"id": ""}, {"id": "  "}, {}])
async def test_k1_06_p2_7_a_call_without_an_id_goes_without_one_and_still_gets_its_message(client, played, blank):
    """K1-06, 2.7: turn and attempt identify it; the transcript needs an id of its own, which never leaves
    here."""
    bare = {"type": "function", "function": {"name": "place_order", "arguments": '{"sku": "A"}'}} | blank
    other = {"type": "function", "function": {"name": "place_order", "arguments": '{"sku": "B"}'}} | blank
    model = Scripted(asking(bare, other, call("unnamed_1_0", arguments='{"sku": "C"}')), saying())
    result = await ToolLoop(client, "acme", "c-42", model).run(ASKS, turn="t-1")
    sent = {one["arguments"]: one["tool_call_id"] for one in played.ran}
    assert sent == {'{"sku": "A"}': None, '{"sku": "B"}': None, '{"sku": "C"}': "unnamed_1_0"}
    shown = [one["id"] for one in result.messages[1]["tool_calls"]]
    assert shown == [message["tool_call_id"] for message in tool_messages(result)]
    assert len(set(shown)) == 3


async def test_p2_8_an_id_that_is_no_text_is_not_made_into_one(client, played):
    """2.8: 1 and "1" would meet."""
    model = Scripted(asking(call(1), call("1")), saying())
    result = await ToolLoop(client, "acme", "c-42", model).run(ASKS, turn="t-1")
    assert [one["tool_call_id"] for one in played.ran] == ["1"]
    assert "id is not text" in tool_messages(result)[0]["content"]


async def test_k1_01_one_call_surfaced_twice_in_a_reply_is_one_call(client, played):
    """K1-01: the same id with the same contents, however spaced, is one call with one message."""
    twice = asking(call("a"), call("a", arguments='{"sku":"A"}'))
    result = await ToolLoop(client, "acme", "c-42", Scripted(twice, saying())).run(ASKS, turn="t-1")
    assert (len(played.ran), len(tool_messages(result)), len(result.messages[1]["tool_calls"])) == (1, 1, 1)
    assert SAME_ID_NOTE not in tool_messages(result)[0]["content"]


@pytest.mark.parametrize("arguments", ['{"sku": "B"}', '{"sku": true}', "{"])
async def test_k1_03_one_id_for_two_calls_of_a_reply_runs_the_first_and_says_so(client, played, arguments):
    """K1-03: which of the two would win at the gateway is chance, so the second is not sent."""
    reply = asking(call("call_1", arguments='{"sku": 1}'), call("call_1", arguments=arguments))
    result = await ToolLoop(client, "acme", "c-42", Scripted(reply, saying())).run(ASKS, turn="t-1")
    assert [one["arguments"] for one in played.ran] == ['{"sku": 1}']
    assert tool_messages(result)[0]["content"].endswith(SAME_ID_NOTE)
    assert len(tool_messages(result)) == 1


@pytest.mark.parametrize(
    ("code", "status", "more", "words"),
    [
        ("rate_limited", 429, {"retryable": True}, "may be tried again later"),
        ("tool_call_id_reused", 422, {}, "Do not repeat this call unchanged"),
        ("call_in_flight", 409, {"outcome": "in_flight"}, "Do not call it again"),
        ("forbidden", 403, {"outcome": None}, "Nothing was done"),
        ("internal", 500, {"outcome": "not_sent"}, "not known whether this was done"),
        ("strange", 502, {"outcome": None}, "not known whether this was done"),
        ("stranger", 400, {"outcome": "odd"}, "not known whether this was done"),
    ],
)
async def test_p8_a_problem_becomes_a_tool_message_that_says_what_is_known(
    client, played, as_problem, code, status, more, words
):
    """8: no result, so the model is told in plain words what happened and what not to do."""
    played.refusals["place_order"] = (status, as_problem(code, status, message="The gateway's words.", **more))
    result = await ToolLoop(client, "acme", "c-42", Scripted(asking(call("a")), saying())).run(ASKS, turn="t-1")
    assert tool_messages(result)[0]["content"].startswith("The gateway's words. ")
    assert words in tool_messages(result)[0]["content"]
    assert result.calls[0].error.code == code


async def test_no_answer_after_the_work_is_told_as_not_known_and_not_to_be_repeated(played, key):
    """2.1, 8: a silent gateway may have run it; the model must not try under a new id."""
    played.faults.extend([None, "drop_after"])
    async with AsyncOncegate(played.url, key, resend=Resend(times=0)) as client:
        result = await ToolLoop(client, "acme", "c", Scripted(asking(call("a")), saying())).run(ASKS, turn="t-1")
    shown = tool_messages(result)[0]["content"]
    assert "not known whether this was done. Do not call it again" in shown
    assert key not in shown
    assert len(played.ran) == 1


async def test_p2_6_a_superseded_attempt_can_be_told(client, played, as_problem):
    """2.6: a later attempt speaks to the customer, this one should not."""
    played.refusals["place_order"] = (409, as_problem("attempt_superseded", 409, message="a later attempt runs"))
    result = await ToolLoop(client, "acme", "c", Scripted(asking(call("a")), saying())).run(ASKS, turn="t-1")
    assert result.superseded


async def test_arguments_the_client_cannot_write_are_handed_back(client, played):
    """2.9: lone surrogates are for the gateway to refuse; what has no JSON form does not leave."""
    model = Scripted(asking(call("a", arguments={1: "x"})), saying())
    result = await ToolLoop(client, "acme", "c", model).run(ASKS, turn="t-1")
    assert played.ran == []
    assert "Nothing was done" in tool_messages(result)[0]["content"]


async def test_the_same_loop_speaks_in_content_blocks(client, played):
    """Tool use in content blocks is read and answered in its own form, thinking blocks kept."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    reply = {
        "role": "assistant",
        "content": [
            thinking,
            {"type": "text", "text": "Ordering."},
            {"type": "tool_use", "id": "tu_1", "name": "place_order", "input": {"sku": "A"}},
            {"type": "tool_use", "id": "tu_2", "name": "fly", "input": {}},
            {"type": "tool_use", "id": "tu_3", "name": "place_order", "input": '{"sku": "B"}'},
            {"type": "tool_use", "id": "tu_1", "name": "place_order", "input": {"sku": "A"}},
        ],
    }
    model = Scripted(reply, "junk", {"role": "assistant", "content": [{"type": "text", "text": "Ordered."}]})
    loop = ToolLoop(client, "acme", "c", model, dialect="anthropic")
    result = await loop.run(ASKS, turn="t-1")
    assert sorted(one["tool_call_id"] for one in played.ran) == ["tu_1", "tu_3"]
    assert model.offered[0][0] == {"name": "place_order", "input_schema": {}}
    echoed, answers, notice = result.messages[1:4]
    assert echoed["content"][0] == thinking
    assert [block["input"] for block in echoed["content"][2:]] == [{"sku": "A"}, {}, {"sku": "B"}]
    assert [(block["tool_use_id"], block["is_error"]) for block in answers["content"]] == [
        ("tu_1", False),
        ("tu_2", True),
        ("tu_3", False),
    ]
    assert (answers["role"], notice["role"], result.text) == ("user", "user", "Ordered.")


async def test_what_else_a_call_carries_goes_back_to_its_provider(client):
    """A provider's signature on a call must come back with it, and empty arguments as an empty object."""
    model = Scripted(asking(call("a", arguments=" ", extra={"signature": "s"}, type=None)), saying())
    result = await ToolLoop(client, "acme", "c", model).run(ASKS, turn="t-1")
    echoed = result.messages[1]["tool_calls"][0]
    assert (echoed["extra"], echoed["function"]["arguments"]) == ({"signature": "s"}, "{}")


async def test_a_given_tool_list_is_the_fence(client, played):
    """A tool that the gateway knows but this assistant was not given is not called."""
    only = [{"type": "function", "function": {"name": "get_order"}}]
    model = Scripted(asking(call("a", "cancel_order")), saying())
    result = await ToolLoop(client, "acme", "c", model, tools=only).run(ASKS, turn="t-1")
    assert (played.ran, model.offered[0]) == ([], only)
    assert "no tool of that name" in tool_messages(result)[0]["content"]


async def test_the_instruction_goes_first_and_stays_out_of_the_transcript(client):
    """One system message at most, and none that piles up from turn to turn."""
    model = Scripted(saying(), saying(), saying())
    result = await ToolLoop(client, "acme", "c", model).run(ASKS, turn="t-1")
    assert model.shown[0][0] == {"role": "system", "content": DEFAULT_INSTRUCTION}
    assert result.messages == [*ASKS, saying()]
    shop = {"role": "system", "content": "You are Ada."}
    await ToolLoop(client, "acme", "c", model, instruction="Ask first.").run([shop, *ASKS], turn="t-2")
    assert model.shown[1][0]["content"] == "You are Ada.\n\nAsk first."
    await ToolLoop(client, "acme", "c", model, instruction=None).run(ASKS, turn="t-3")
    assert model.shown[2] == ASKS


async def test_a_model_may_be_a_plain_function_and_cannot_change_the_transcript(client, played):
    """A blocking model runs in a thread, on copies of the lists."""
    replies = [asking(call("a")), saying("Done.")]

    def model(messages, tools):
        messages.clear()
        tools.clear()
        return replies.pop(0)

    result = await ToolLoop(client, "acme", "c", model, call_id_scope="step").run(ASKS, turn="t-1")
    assert (result.text, len(result.messages), played.ran[0]["call_id_scope"]) == ("Done.", 4, "step")


@pytest.mark.parametrize("resumable", [False, True])
async def test_a_plain_model_that_runs_out_of_replies_is_an_error_and_no_endless_wait(client, played, resumable):
    """No future takes a StopIteration: whoever waits for the thread would wait for ever."""
    replies = iter([asking(call("a"))])
    loop = ToolLoop(client, "acme", "c", lambda messages, tools: next(replies), resumable=resumable)
    async with asyncio.timeout(30):
        with pytest.raises(RuntimeError, match="raised StopIteration") as raised:
            await loop.run(ASKS, turn="t-1")
    assert isinstance(raised.value.__cause__, StopIteration)
    assert len(played.ran) == 1


@pytest.mark.parametrize("bad", [{"turn": " "}, {"turn": "t", "attempt": 0}])
async def test_a_turn_needs_an_id_and_an_attempt_from_one(client, bad):
    """1: turns are named, attempts count from 1."""
    with pytest.raises(ValueError, match="turn"):
        await ToolLoop(client, "acme", "c", Scripted()).run(ASKS, **bad)


@pytest.mark.parametrize("bad", [{"dialect": "latin"}, {"max_steps": 0}])
def test_a_loop_that_cannot_run_is_refused_at_once(bad):
    """Mistakes in the program show where they are made."""
    with pytest.raises(ValueError, match="must be"):
        ToolLoop(None, "acme", "c", Scripted(), **bad)


async def test_tools_without_names_are_refused_before_the_model_is_asked(client):
    """A list whose names cannot be read would make every call an unknown one."""
    with pytest.raises(ValueError, match="without a name"):
        await ToolLoop(client, "acme", "c", Scripted(), tools=[{"functionDeclarations": []}]).run(ASKS, turn="t")


def test_the_default_instruction_says_what_it_must():
    """Confirmation first, no retry of the unknown, no success without a result."""
    for words in ("clearly confirmed", "outcome is not known, do not call", "blocked", "only when a tool result says"):
        assert words in DEFAULT_INSTRUCTION


def test_the_default_instruction_is_plain_text_with_a_rule_a_line():
    """What a model reads is what a person would write: no escapes, no rule inside another's line."""
    title, *rules = DEFAULT_INSTRUCTION.split("\n")
    assert "\\" not in DEFAULT_INSTRUCTION
    assert title == "Rules for using tools."
    assert len(rules) == 5
    for rule in rules:
        assert rule.startswith("- ")
        assert rule.endswith(".")
        assert " - " not in rule
        assert "  " not in rule


async def test_p8_the_model_is_told_which_argument_is_wrong(client, played, as_problem):
    """8: the problem's message names it, and what follows begins a sentence of its own."""
    message = "The arguments do not fit the tool's parameters: /arguments/quantity is required."
    fields = [{"field": "/arguments/quantity", "problem": "is required"}]
    refusal = as_problem("invalid_arguments", 422, message=message, fields=fields)
    played.refusals["place_order"] = (422, refusal)
    result = await ToolLoop(client, "acme", "c-42", Scripted(asking(call("a")), saying())).run(ASKS, turn="t-1")
    assert [one["content"] for one in tool_messages(result)] == [
        f"{message} Nothing was done. Do not repeat this call unchanged."
    ]
    assert result.calls[0].error.fields == ("/arguments/quantity: is required",)


@pytest.mark.parametrize(("message", "shown"), [("no such tool", "no such tool. "), ("Gone!", "Gone! ")])
async def test_a_message_without_a_full_stop_gets_one(client, played, as_problem, message, shown):
    """The advice behind it is not run into it."""
    played.refusals["place_order"] = (404, as_problem("unknown_tool", 404, message=message))
    result = await ToolLoop(client, "acme", "c-42", Scripted(asking(call("a")), saying())).run(ASKS, turn="t-1")
    assert tool_messages(result)[0]["content"].startswith(f"{shown}Nothing was done.")
