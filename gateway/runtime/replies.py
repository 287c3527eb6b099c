"""What a chat model replied, read without guessing: two dialects, one shape.

A reply is a dict as an OpenAI-like chat API gives it (`content`, `tool_calls`) or as an Anthropic-like
one does (`content` blocks, `tool_use` among them). Reading never raises on what a model wrote. Each call
that cannot be run is kept, with its fault, so that it gets its tool message; a reply that is no message
at all is `Unreadable`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gateway.runtime.exact_json import decode, encode
from gateway.runtime.wording import SAME_ID_NOTE

UNREADABLE_NAME = "unreadable_call"


@dataclass(frozen=True, slots=True)
class Asked:
    """One call a reply asks for, the `place`-th in it.

    `tool_call_id` is what the model gave, None if it gave none (2.7); `shown_id` names the call in the
    transcript, where providers want every id filled and unique. `fault` says why it must not be run,
    `note` goes with its result, `source` is the entry as the model wrote it."""

    place: int
    source: Any
    tool_call_id: str | None
    tool: str
    arguments: Mapping[str, Any] | str
    fault: str | None = None
    note: str | None = None
    shown_id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """`message` is the assistant message for the transcript; every call in it is in `asked`, in order."""

    text: str
    asked: tuple[Asked, ...]
    message: dict[str, Any]
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class Unreadable:
    fault: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of writing messages. `tools_format` is what the gateway calls it; `notice_role` is who says
    what the runtime itself has to say; `answers` turns (call, text, failed) triples into messages."""

    tools_format: str
    notice_role: str
    read_call: Callable[[int, Any], Asked]
    write_calls: Callable[[dict[str, Any], Sequence[Asked]], dict[str, Any]]
    answers: Callable[[Sequence[tuple[Asked, str, bool]]], list[dict[str, Any]]]

    def notice(self, text: str) -> dict[str, Any]:
        return {"role": self.notice_role, "content": text}


def read_reply(reply: object, step: int) -> Reply | Unreadable:
    """The reply of step `step`. Calls that carry one id twice in one reply become one: said twice the
    same, it is the same call; with other contents, the second is not run and the first's note says so."""
    if not isinstance(reply, dict):
        return Unreadable("it is not a message")
    if reply.get("role", "assistant") != "assistant":
        return Unreadable("its role is not assistant")
    content, calls = reply.get("content"), reply.get("tool_calls")
    if content is not None and not isinstance(content, str | list):
        return Unreadable("its content is neither text nor a list of blocks")
    if calls is not None and not isinstance(calls, list):
        return Unreadable("its tool_calls are not a list")
    used = [block for block in content if _is_block(block, "tool_use")] if isinstance(content, list) else []
    if used and calls:
        return Unreadable("it asks for tools in two ways at once")
    dialect = ANTHROPIC if isinstance(content, list) and not calls else OPENAI
    read = [dialect.read_call(place, entry) for place, entry in enumerate(calls or used)]
    asked = _one_per_id(read, step)
    text = _text_of(content) or _text_of(reply.get("refusal"))
    if not asked and not text.strip():
        return Unreadable("it holds neither text nor a tool call")
    message = {name: value for name, value in reply.items() if name != "tool_calls"} | {"role": "assistant"}
    if isinstance(content, list):
        message["content"] = [block for block in content if isinstance(block, dict)]
    return Reply(text, asked, dialect.write_calls(message, asked), dialect)


def _asked(place: int, source: Any, given_id: Any, name: Any, arguments: Any) -> Asked:
    fault = _fault_of(given_id, name, arguments)
    return Asked(
        place=place,
        source=source,
        tool_call_id=given_id if isinstance(given_id, str) and given_id.strip() else None,
        tool=name if isinstance(name, str) and name.strip() else UNREADABLE_NAME,
        arguments=arguments if isinstance(arguments, str) or (isinstance(arguments, dict) and not fault) else {},
        fault=fault,
    )


def _fault_of(given_id: Any, name: Any, arguments: Any) -> str | None:
    if given_id is not None and not isinstance(given_id, str):
        return "the call's id is not text"  # never made into text: 1 and "1" would meet (2.8)
    if not isinstance(name, str) or not name.strip():
        return "the call names no tool"
    try:
        if isinstance(arguments, dict):
            encode(arguments)
        elif not isinstance(arguments, str):
            return "the arguments are neither an object nor JSON text"
        elif arguments.strip():
            decode(arguments)
    except ValueError:
        return "the arguments are not valid JSON, or were cut off"
    return None


def _one_per_id(asked: Sequence[Asked], step: int) -> tuple[Asked, ...]:
    given = {call.tool_call_id for call in asked}
    kept: dict[str, Asked] = {}
    for call in asked:
        shown = call.tool_call_id or f"unnamed_{step}_{call.place}"
        while call.tool_call_id is None and shown in given:
            shown += "_"
        first = kept.get(shown)
        if first is None:
            kept[shown] = replace(call, shown_id=shown)
        elif not _same(first, call):
            kept[shown] = replace(first, note=SAME_ID_NOTE)
    return tuple(kept.values())


def _same(one: Asked, other: Asked) -> bool:
    if one.fault or other.fault or one.tool != other.tool:
        return False
    try:
        return bool(_comparable(one.arguments) == _comparable(other.arguments))
    except (ValueError, ArithmeticError, RecursionError):
        return False


def _comparable(arguments: Mapping[str, Any] | str) -> Any:
    text = arguments if isinstance(arguments, str) else encode(arguments)
    return json.loads(text.strip() or "{}", parse_int=_number, parse_float=_number)


def _number(digits: str) -> tuple[Decimal]:
    return (Decimal(digits),)  # in a tuple, for Python holds True to equal 1


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(
        block["text"] for block in content if _is_block(block, "text") and isinstance(block.get("text"), str)
    )


def _is_block(block: Any, kind: str) -> bool:
    return isinstance(block, dict) and block.get("type") == kind


def _read_openai(place: int, entry: Any) -> Asked:
    given = entry.get("id") if isinstance(entry, dict) else None
    function = entry.get("function") if isinstance(entry, dict) else None
    if not isinstance(function, dict) or (entry.get("type") or "function") != "function":
        return replace(_asked(place, entry, given, None, {}), fault="the call is not a function call")
    return _asked(place, entry, given, function.get("name"), function.get("arguments"))


def _write_openai(message: dict[str, Any], asked: Sequence[Asked]) -> dict[str, Any]:
    return {**message, "tool_calls": [_openai_entry(call) for call in asked]} if asked else message


def _openai_entry(call: Asked) -> dict[str, Any]:
    # What else an entry carries (a provider's signature) has to come back to that provider with it.
    entry = call.source if isinstance(call.source, dict) else {}
    function = entry.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = (call.arguments.strip() if isinstance(call.arguments, str) else call.arguments) or "{}"
    return {
        **entry,
        "id": call.shown_id,
        "type": "function",
        "function": {**function, "name": call.tool, "arguments": arguments},
    }


def _answer_openai(answers: Sequence[tuple[Asked, str, bool]]) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": call.shown_id, "content": text} for call, text, _ in answers]


def _read_anthropic(place: int, block: Any) -> Asked:
    return _asked(place, block, block.get("id"), block.get("name"), block.get("input"))


def _write_anthropic(message: dict[str, Any], asked: Sequence[Asked]) -> dict[str, Any]:
    by_place = {call.place: call for call in asked}
    blocks: list[dict[str, Any]] = []
    place = -1
    for block in message["content"]:
        if not _is_block(block, "tool_use"):
            blocks.append(block)
            continue
        place += 1
        if (call := by_place.get(place)) is not None:
            blocks.append({**block, "id": call.shown_id, "name": call.tool, "input": _object_of(call)})
    return {**message, "content": blocks}


def _object_of(call: Asked) -> Mapping[str, Any]:
    if isinstance(call.arguments, str):
        parsed = None if call.fault else decode(call.arguments.strip() or "{}", exact=False)
        return parsed if isinstance(parsed, dict) else {}
    return call.arguments


def _answer_anthropic(answers: Sequence[tuple[Asked, str, bool]]) -> list[dict[str, Any]]:
    if not answers:
        return []
    blocks = [
        {"type": "tool_result", "tool_use_id": call.shown_id, "content": text, "is_error": failed}
        for call, text, failed in answers
    ]
    return [{"role": "user", "content": blocks}]


OPENAI = Dialect("openai", "system", _read_openai, _write_openai, _answer_openai)
ANTHROPIC = Dialect("anthropic", "user", _read_anthropic, _write_anthropic, _answer_anthropic)
DIALECTS: Mapping[str, Dialect] = {"openai": OPENAI, "anthropic": ANTHROPIC}
