"""How the tool loop's work is recorded, or is not: its tools, the model's replies, and what its calls came to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, Protocol

from gateway.runtime.canonical import canonical, digest
from gateway.runtime.exact_json import encode
from gateway.runtime.replies import Asked
from gateway.runtime.turn import Turn
from gateway.runtime.turn_calls import TurnCall, call_document, read_call
from gateway.runtime.wording import REPEAT_MARK

Messages = list[dict[str, Any]]
DEEPEST: Final = 56
"""Levels of a reply that is kept: a recorded one may have 64, those around it counted (9.4)."""
LONGEST_NUMBER: Final = 10**999
ROOM: Final = 700_000
"""Bytes of JSON that one record of the loop may take: with what goes around it, under the 1 MiB of a request (9.4)."""
CUT: Final = "… (cut: it was too long to keep)"


class LoopRecord(Protocol):
    """What the loop does between its own lines."""

    async def tools(self, fetch: Callable[[], Awaitable[Messages]]) -> Messages: ...
    async def reply(self, step: int, messages: Messages, tools: Messages, ask: Callable[[], Awaitable[Any]]) -> Any: ...
    async def calls(
        self, step: int, asked: Sequence[Asked], run: Callable[[], Awaitable[list[TurnCall]]]
    ) -> list[TurnCall]: ...


class Unrecorded:
    """Everything is done, each time."""

    async def tools(self, fetch: Callable[[], Awaitable[Messages]]) -> Messages:
        return await fetch()

    async def reply(self, step: int, messages: Messages, tools: Messages, ask: Callable[[], Awaitable[Any]]) -> Any:
        return await ask()

    async def calls(
        self, step: int, asked: Sequence[Asked], run: Callable[[], Awaitable[list[TurnCall]]]
    ) -> list[TurnCall]:
        return await run()


class InTurn:
    """Everything is recorded in `turn`, one effect each: the list of tools, each reply of the model, and what the calls
    of each reply came to.

    The calls have records of their own at the gateway. What the model was told of them has to be kept as well: a call
    that was refused, and a read, would otherwise be made when the turn is run again, after the model has gone on with
    another answer. While that is not recorded yet, calls that were made are found by their ids."""

    def __init__(self, turn: Turn, model: str) -> None:
        self._turn = turn
        self._model = model
        self._asked_at: str | None = None
        """When the model was asked for the reply at hand, where that was found recorded."""

    async def tools(self, fetch: Callable[[], Awaitable[Messages]]) -> Messages:
        async def fetching() -> Any:
            return await fetch()

        tools: Messages = await self._turn.step("loop.tools", fetching, exact=False)
        return tools

    async def reply(self, step: int, messages: Messages, tools: Messages, ask: Callable[[], Awaitable[Any]]) -> Any:
        """A reply that cannot be kept is None, which the loop takes for what it is: no message."""

        async def asking(_: object) -> Any:
            reply = await ask()
            return reply if keepable(reply) and len(encode(reply)) <= ROOM else None

        done = await self._turn.asked(self._model, {"messages": messages, "tools": tools}, asking, step=step)
        self._asked_at = done.replay.first_at if done.replay is not None else None
        return done.value

    async def calls(
        self, step: int, asked: Sequence[Asked], run: Callable[[], Awaitable[list[TurnCall]]]
    ) -> list[TurnCall]:
        if all(call.fault for call in asked):
            return await run()

        async def making() -> Any:
            return fitted([call_document(call) for call in as_first_told(await run(), self._asked_at)])

        which = [[call.tool_call_id, call.tool, call.arguments, call.fault is not None] for call in asked]
        args = {"step": step, "calls": digest(canonical(which))}
        told = await self._turn.step("loop.calls", making, args, step=step)
        return [read_call(step, call, document) for call, document in zip(asked, told, strict=True)]


def as_first_told(made: Sequence[TurnCall], asked_at: str | None) -> list[TurnCall]:
    """The calls as a run that was not cut off had told them.

    A run that goes on behind a recorded reply finds the calls which the run before it made for that reply: they come
    as replays, and are no repeats. Theirs are the effects first made since the model was asked (`asked_at`, by the
    ledger's clock); what is older, or was answered with another call's effect, stays marked."""
    told, seen = [], set()
    for call in made:
        answer = call.answer
        replay = answer.replay if answer is not None else None
        if answer is not None and replay is not None and asked_at is not None and answer.effect_id not in seen:
            own = replay.first_at is not None and replay.first_at >= asked_at
            if own and call.message.startswith(answer.message):
                noted = call.message[len(answer.message) :]
                call = replace(call, message=answer.message.removesuffix(REPEAT_MARK) + noted)
        if answer is not None:
            seen.add(answer.effect_id)
        told.append(call)
    return told


def fitted(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls of one reply, in the room that there is. The results go first, for their text is in the messages; then
    the messages are cut. The model is shown what is kept, so that it is shown the same when the turn is run again."""
    if len(encode(documents)) <= ROOM:
        return documents
    bare = [{**one, "answer": None if one["answer"] is None else _bare(one["answer"])} for one in documents]
    if len(encode(bare)) <= ROOM:
        return bare
    # What an answer holds besides is small, but for what an error tells of the merchant's words: those are in the
    # message too.
    share = ROOM // len(bare) // 2
    return [{**one, "message": _cut(one["message"], share)} for one in bare]


def _bare(answer: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in answer.items() if name not in ("result", "message")}
    for name in ("error", "first"):
        if isinstance(kept.get(name), dict):
            kept[name] = {part: value for part, value in kept[name].items() if part not in ("details", "result")}
    return {**kept, "message": ""}


def _cut(message: str, room: int) -> str:
    if (size := len(encode(message))) <= room:
        return message
    kept = message[: room * len(message) // size]
    while len(encode(kept + CUT)) > room:
        kept = kept[: len(kept) * 9 // 10]
    return kept + CUT


def keepable(value: Any, depth: int = 0) -> bool:
    """Whether a model's reply, whatever it is, can be recorded: JSON, not too deep, no half surrogate pairs."""
    match value:
        case None | bool():
            return True
        case str():
            return _whole(value)
        case int():
            return abs(value) < LONGEST_NUMBER
        case float():
            return value - value == 0
        case Decimal():
            return value.is_finite() and len(str(value)) < 1_000
        case dict():
            return depth < DEEPEST and all(
                isinstance(name, str) and _whole(name) and keepable(item, depth + 1) for name, item in value.items()
            )
        case list() | tuple():
            return depth < DEEPEST and all(keepable(item, depth + 1) for item in value)
    return False


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
