"""Whatever a model replies, the loop answers: no exception, one tool message per id, nothing malformed
sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.runtime import Answer, ToolLoop

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("place_order", "get_order")]

json_ish = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ids = st.sampled_from(["a", "b", "unnamed_1_0", "unnamed_2_1", "", " ", None, 7]) | json_ish
names = st.sampled_from(["place_order", "get_order", "place_oder", "", None]) | json_ish
arguments = (
    st.sampled_from(["", "{}", '{"a": 1}', '{"a": 1.0}', '{"a": true}', '{"a":', "NaN", '"{}"', {"a": 1}]) | json_ish
)
kinds = st.sampled_from(["function", None, "custom"])
function_calls = st.fixed_dictionaries(
    {},
    optional={
        "id": ids,
        "type": kinds,
        "function": st.fixed_dictionaries({}, optional={"name": names, "arguments": arguments}) | json_ish,
    },
)
tool_uses = st.fixed_dictionaries(
    {"type": st.just("tool_use")}, optional={"id": ids, "name": names, "input": arguments}
)
blocks = tool_uses | st.fixed_dictionaries({"type": st.just("text"), "text": json_ish}) | json_ish
replies = (
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.just("assistant") | json_ish,
            "content": st.text(max_size=5) | st.lists(blocks, max_size=4) | json_ish,
            "tool_calls": st.lists(function_calls | json_ish, max_size=4) | json_ish,
        },
    )
    | st.fixed_dictionaries({"content": st.none(), "tool_calls": st.lists(function_calls, min_size=1, max_size=4)})
    | st.fixed_dictionaries({"content": st.lists(tool_uses, min_size=1, max_size=4)})
    | json_ish
)


class Listening:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, str, Any]] = []

    async def call(
        self, company: str, conversation: str, tool: str, arguments: Any, *, tool_call_id: Any, **_: Any
    ) -> Answer:
        self.calls.append((tool_call_id, tool, arguments))
        return Answer(decision="proceed", status="succeeded", message=f"ran {tool}")

    async def tools(self, company: str, format: str = "openai") -> list[dict[str, Any]]:  # noqa: A002
        return TOOLS


def asked_and_answered(messages: list[dict[str, Any]]) -> list[tuple[list[str], list[str]]]:
    """For each assistant message that asks: its ids, and the ids answered before the next message that is none
    of its answers."""
    turns: list[tuple[list[str], list[str]]] = []
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        if message["role"] == "assistant":
            asked = [one["id"] for one in message.get("tool_calls") or []]
            asked += [block["id"] for block in parts if block.get("type") == "tool_use"]
            turns.append((asked, []))
        elif message["role"] == "tool":
            turns[-1][1].append(message["tool_call_id"])
        elif parts:
            turns[-1][1].extend(block["tool_use_id"] for block in parts)
    return [turn for turn in turns if turn != ([], [])]


def readable_ids(reply: Any) -> set[str]:
    """The ids of a reply that is a message at all: one that is not is handed back whole."""
    if not isinstance(reply, dict) or reply.get("role", "assistant") != "assistant":
        return set()
    content, calls = reply.get("content"), reply.get("tool_calls")
    if not isinstance(content, str | list | None) or not isinstance(calls, list | None):
        return set()
    used = (
        [block for block in content if isinstance(block, dict) and block.get("type") == "tool_use"]
        if isinstance(content, list)
        else []
    )
    if used and calls:
        return set()
    entries = [entry for entry in (calls or used) if isinstance(entry, dict)]
    return {entry["id"] for entry in entries if isinstance(entry.get("id"), str) and entry["id"].strip()}


@settings(max_examples=300)
@given(said=st.lists(replies, min_size=1, max_size=3))
def test_p7_1_any_reply_is_answered_and_every_id_gets_one_tool_message(said: list[Any]) -> None:
    """7.1, 2.8, 2.9: never an exception, never a call left without its message, never a malformed call
    sent."""
    left = list(said)

    async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        return left.pop(0) if left else {"role": "assistant", "content": "The end."}

    gateway = Listening()
    result = asyncio.run(ToolLoop(gateway, "acme", "c", model, tools=TOOLS, max_steps=2).run([], turn="t-1"))

    assert isinstance(result.text, str)
    assert result.text.strip()
    assert result.messages[-1]["role"] == "assistant"
    turns = asked_and_answered(result.messages)
    for asked, answered in turns:
        assert asked == answered
        assert len(set(asked)) == len(asked)
    heard = [reply for reply in said[: len(said) - len(left)] if readable_ids(reply)]
    by_reply = [set(asked) for asked, _ in turns]
    assert all(any(readable_ids(reply) <= ids for ids in by_reply) for reply in heard)
    for tool_call_id, tool, arguments in gateway.calls:
        assert tool_call_id is None or (isinstance(tool_call_id, str) and tool_call_id.strip())
        assert tool in ("place_order", "get_order")
        assert isinstance(arguments, dict) or not arguments.strip() or json.loads(arguments) is not ...
    assert len(result.calls) == sum(len(asked) for asked, _ in turns)
