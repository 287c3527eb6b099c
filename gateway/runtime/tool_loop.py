"""One customer turn with any chat model: model reply, tool calls, results, at most six times (7.1)."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

from gateway.runtime.answer import Answer
from gateway.runtime.calling import called
from gateway.runtime.errors import OncegateError, Problem
from gateway.runtime.loop_record import InTurn, LoopRecord, Messages, Unrecorded
from gateway.runtime.replies import DIALECTS, Asked, Reply, Unreadable, read_reply
from gateway.runtime.turn import Turn
from gateway.runtime.turn_calls import TurnCall, TurnResult
from gateway.runtime.wording import (
    AFTER_PROBLEM,
    DEFAULT_INSTRUCTION,
    FAULT,
    NO_TEXT,
    STEP_LIMIT_NOTICE,
    STEP_LIMIT_REFUSAL,
    UNREADABLE_NOTICE,
)

Model = Callable[[list[dict[str, Any]], list[dict[str, Any]]], Awaitable[Any] | Any]


class Gateway(Protocol):
    """What the loop needs of a client; `AsyncOncegate` has it."""

    async def call(
        self,
        company: str,
        conversation: str,
        tool: str,
        arguments: Mapping[str, Any] | str,
        *,
        tool_call_id: str | None,
        turn: str | None = None,
        step: int | None = None,
        attempt: int | None = None,
        call_id_scope: str | None = None,
    ) -> Answer: ...

    async def tools(self, company: str, format: str = "openai") -> list[dict[str, Any]]: ...  # noqa: A002


@runtime_checkable
class TurnMaker(Protocol):
    """What a loop needs besides that makes its turns resumable; `AsyncOncegate` has it."""

    def turn(self, company: str, conversation: str, turn: str, attempt: int = 1) -> Turn: ...


class ToolLoop:
    """Runs turns of one conversation.

    `model` takes (messages, tools) and gives an assistant message as a dict, OpenAI-like or
    Anthropic-like; async, or a plain function, which then runs in a thread. What it raises is raised.
    `tools` is the list the model is given, by default the company's, asked of the gateway each turn in
    `dialect` (`openai` or `anthropic`); a name outside that list is handed back to the model, not sent.
    `instruction` goes first, as (part of) a system message.

    Calls of one reply run side by side and are answered in the reply's order, each under its own id, with
    turn, step and attempt stated. A call without an id is sent without one: turn and attempt identify it
    (2.7). Nothing malformed is repaired or run: it goes back to the model, as does every problem, in
    words that say what is known of the outcome. After `max_steps` the model is asked once more, without
    tools, for a closing text.

    `resumable`: every reply of the model, and what it was told of its calls, is recorded in a `Turn`. Run again
    after a crash, with the same messages, turn and attempt, the turn goes on where it stopped: the model is not
    asked again for what it answered, nothing done is done again, and the messages come out the same. `model_name`
    is what the record and the policy call the model."""

    def __init__(
        self,
        client: Gateway,
        company: str,
        conversation: str,
        model: Model,
        tools: Sequence[dict[str, Any]] | None = None,
        max_steps: int = 6,
        instruction: str | None = DEFAULT_INSTRUCTION,
        *,
        dialect: str = "openai",
        call_id_scope: str | None = None,
        resumable: bool = False,
        model_name: str = "model",
    ) -> None:
        if resumable and not isinstance(client, TurnMaker):
            raise ValueError("a loop is resumable with a client that has turns, as AsyncOncegate has")
        if dialect not in DIALECTS:
            raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}")
        if max_steps < 1:
            raise ValueError("max_steps must be at least 1")
        self._client = client
        self._company = company
        self._conversation = conversation
        self._model = model
        self._tools = None if tools is None else list(tools)
        self._max_steps = max_steps
        self._instruction = instruction
        self._dialect = DIALECTS[dialect]
        self._call_id_scope = call_id_scope
        self._resumable = resumable
        self._model_name = model_name

    async def run(self, messages: Sequence[dict[str, Any]], *, turn: str, attempt: int = 1) -> TurnResult:
        """Answer the last message. `turn` never recurs in the conversation; `attempt` is one more than
        the last run's where a crashed turn starts over (semantics 1), and the same where a resumable one goes on.

        Raises OncegateError only if the tools cannot be fetched, before the model is asked; ValueError
        for a blank turn, an attempt below 1 or tools without names. A resumable turn also raises what keeps it from
        being recorded: the gateway out of reach, a rule against the model (EffectStopped), a later attempt (Problem
        `attempt_superseded`). Run it again."""
        if not turn.strip() or attempt < 1:
            raise ValueError("a turn needs an id that is not blank, and an attempt from 1")
        record = self._record_of(turn, attempt)
        tools = self._tools
        if tools is None:
            tools = await record.tools(lambda: self._client.tools(self._company, self._dialect.tools_format))
        names = _names_of(tools)
        transcript = list(messages)
        calls: list[TurnCall] = []
        for step in range(1, self._max_steps + 1):
            reply = read_reply(await self._ask(record, step, transcript, tools), step)
            if isinstance(reply, Unreadable):
                transcript.append(self._dialect.notice(UNREADABLE_NOTICE.format(fault=reply.fault)))
                continue
            if not reply.asked:
                return TurnResult([*transcript, reply.message], reply.text, step - 1, tuple(calls))
            asked = [_known(call, names) for call in reply.asked]
            made = await record.calls(step, asked, partial(self._run_all, asked, turn, step, attempt))
            calls += made
            transcript += _answered(reply, made)
        return await self._close(record, transcript, tuple(calls))

    def _record_of(self, turn: str, attempt: int) -> LoopRecord:
        if not self._resumable or not isinstance(self._client, TurnMaker):
            return Unrecorded()
        return InTurn(self._client.turn(self._company, self._conversation, turn, attempt), self._model_name)

    async def _close(
        self, record: LoopRecord, transcript: list[dict[str, Any]], calls: tuple[TurnCall, ...]
    ) -> TurnResult:
        transcript.append(self._dialect.notice(STEP_LIMIT_NOTICE))
        step = self._max_steps + 1
        reply = read_reply(await self._ask(record, step, transcript, []), step)
        text = reply.text if isinstance(reply, Reply) else ""
        if isinstance(reply, Reply) and not reply.asked:
            return TurnResult([*transcript, reply.message], text, self._max_steps, calls)
        if isinstance(reply, Reply):
            refused = [_unsent(call, step, STEP_LIMIT_REFUSAL, "step limit") for call in reply.asked]
            transcript += _answered(reply, refused)
            calls += tuple(refused)
        # A text that came with calls was written before their refusal: it may promise what was not done.
        transcript.append({"role": "assistant", "content": NO_TEXT})
        return TurnResult(transcript, NO_TEXT, self._max_steps, calls)

    async def _ask(self, record: LoopRecord, step: int, transcript: Messages, tools: Messages) -> Any:
        messages = _with_instruction(transcript, self._instruction)
        return await record.reply(step, messages, tools, lambda: called(self._model, messages, list(tools)))

    async def _run_all(self, asked: Sequence[Asked], turn: str, step: int, attempt: int) -> list[TurnCall]:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._run_one(call, turn, step, attempt)) for call in asked]
        return [task.result() for task in running]

    async def _run_one(self, asked: Asked, turn: str, step: int, attempt: int) -> TurnCall:
        if asked.fault:
            return _unsent(asked, step, FAULT.format(fault=asked.fault), asked.fault)
        done = TurnCall(step, asked.tool_call_id, asked.tool, asked.arguments, "")
        try:
            answer = await self._client.call(
                self._company,
                self._conversation,
                asked.tool,
                asked.arguments,
                tool_call_id=asked.tool_call_id,
                turn=turn,
                step=step,
                attempt=attempt,
                call_id_scope=self._call_id_scope,
            )
        except OncegateError as error:
            return replace(done, error=error, message=_noted(f"{_sentence(error.message)} {_what_now(error)}", asked))
        return replace(done, answer=answer, message=_noted(answer.message, asked))


def _unsent(asked: Asked, step: int, message: str, fault: str) -> TurnCall:
    return TurnCall(step, asked.tool_call_id, asked.tool, asked.arguments, _noted(message, asked), fault=fault)


def _noted(message: str, asked: Asked) -> str:
    return f"{message}\n{asked.note}" if asked.note else message


def _sentence(message: str) -> str:
    """`message`, ended, so that what follows it does not run into it."""
    ended = message.rstrip()
    return ended if ended.endswith((".", "!", "?", "…")) else f"{ended}."


def _what_now(error: OncegateError) -> str:
    outcome = error.outcome
    if isinstance(error, Problem) and error.status == 500:
        outcome = "unknown"  # a fault inside the gateway may strike after the merchant was asked
    if outcome is None and isinstance(error, Problem) and error.status < 500:
        outcome = "not_sent"  # a refusal recorded nothing (semantics 8)
    if outcome == "not_sent" and not error.retryable:
        return AFTER_PROBLEM["refused"]
    return AFTER_PROBLEM.get(outcome or "unknown", AFTER_PROBLEM["unknown"])


def _answered(reply: Reply, made: Sequence[TurnCall]) -> list[dict[str, Any]]:
    triples = [
        (asked, call.message, call.answer is None or call.answer.error is not None)
        for asked, call in zip(reply.asked, made, strict=True)
    ]
    return [reply.message, *reply.dialect.answers(triples)]


def _known(asked: Asked, names: Sequence[str]) -> Asked:
    if asked.fault or asked.tool in names:
        return asked
    near = difflib.get_close_matches(asked.tool, names, n=3)
    hint = f"; tools with a name like it: {', '.join(near)}" if near else ""
    return replace(asked, fault=f"there is no tool of that name{hint}")


def _names_of(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    names = []
    for tool in tools:
        function = tool.get("function")
        name = function.get("name") if isinstance(function, Mapping) else tool.get("name")
        if not isinstance(name, str):
            raise ValueError("a tool without a name: give the list in the openai or the anthropic form")
        names.append(name)
    return names


def _with_instruction(messages: Sequence[dict[str, Any]], instruction: str | None) -> list[dict[str, Any]]:
    if not instruction:
        return list(messages)
    first = messages[0] if messages else {}
    if first.get("role") == "system" and isinstance(first.get("content"), str):
        # Into the shop's own system message: some chat templates know only one.
        return [{**first, "content": f"{first['content']}\n\n{instruction}"}, *messages[1:]]
    return [{"role": "system", "content": instruction}, *messages]
