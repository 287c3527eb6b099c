"""A turn that can be gone on with: whatever it did is recorded, and found again when it is run again (7.2)."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from gateway.runtime.answer import Answer
from gateway.runtime.calling import called
from gateway.runtime.errors import EffectOverruled
from gateway.runtime.model_request import NOISE, question_of
from gateway.runtime.recording import Effects, Recorded, Recording

Work = Callable[[], Awaitable[Any] | Any]
Ask = Callable[[Mapping[str, Any]], Awaitable[Any] | Any]
AskStreaming = Callable[[Mapping[str, Any]], Awaitable[AsyncIterator[Any]] | AsyncIterator[Any]]


class TurnClient(Effects, Protocol):
    """What a turn needs of a client; `AsyncOncegate` has it."""

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


class Turn:
    """One attempt of one turn of a conversation; made by `AsyncOncegate.turn`.

        turn = client.turn("acme", "c-42", "t-7")
        now = await turn.step("now", lambda: datetime.now(UTC).isoformat())
        reply = await turn.model("a-model", {"messages": messages}, ask)

    Run it again after a crash, with the same ids: what was recorded comes back without being done, one request each,
    and the rest is done. It has to ask in the same way for the same: take what changes between runs (the time, a
    random choice, a setting) from a step. `attempt` stays the same for a turn that goes on; a higher one finds the
    effects of the earlier ones too, and ends them (2.5, 2.6).

    Values are any JSON, and come back in the record's form also when they were made just now: tuples are lists, and
    of numbers with a point `exact` decides, Decimal or float. Each method raises what its work raises, EffectStopped
    kinds, and what the client raises (Problem `attempt_superseded`, `call_in_flight`, ...).

    While the work runs its claim is renewed in the background, with `sleep` in between. `fresh` makes the tokens of
    what is done at most once. Raises ValueError for blank ids and an attempt below 1."""

    def __init__(
        self,
        client: TurnClient,
        company: str,
        conversation: str,
        turn: str,
        attempt: int = 1,
        *,
        noise: frozenset[str] = NOISE,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        fresh: Callable[[], str] = secrets.token_hex,
    ) -> None:
        if not company.strip() or not conversation.strip() or not turn.strip() or attempt < 1:
            raise ValueError(
                "a turn needs a company, a conversation and an id that are not blank, and an attempt from 1"
            )
        self._client = client
        self._place = (company, conversation)
        self.id = turn
        self.attempt = attempt
        self._noise = noise
        self._recording = Recording(client, company, conversation, turn, attempt, fresh=fresh, sleep=sleep)

    async def step(
        self,
        name: str,
        work: Work,
        args: Mapping[str, Any] | None = None,
        *,
        step: int | None = None,
        at_most_once: bool = False,
        exact: bool = True,
    ) -> Any:
        """A value of the runtime's own: what `work` gives, async or plain. `args` is what it depends on; the same
        name with other `args` is another value, the same twice in a turn are two values.

        `at_most_once`: a run that was cut off is not tried again; it raises EffectUnknown until it is resolved."""
        return (await self.recorded(name, work, args, step=step, at_most_once=at_most_once, exact=exact)).value

    async def recorded(
        self,
        name: str,
        work: Work,
        args: Mapping[str, Any] | None = None,
        *,
        step: int | None = None,
        at_most_once: bool = False,
        exact: bool = True,
    ) -> Recorded:
        """`step`, with the effect's id and whether it was replayed."""
        return await self._do("local", name, dict(args or {}), work, step, at_most_once=at_most_once, exact=exact)

    async def model(self, target: str, request: Mapping[str, Any], ask: Ask, *, step: int | None = None) -> Any:
        """What the model `target` replied to `request`: `ask(request)`, async or plain, unless it is recorded.

        The question is `request` without its noise (`stream`, `user`, `metadata`, ...; the table is
        `gateway.runtime.model_request`). Numbers come back as floats, so that any JSON writer takes the reply."""
        return (await self.asked(target, request, ask, step=step)).value

    async def asked(self, target: str, request: Mapping[str, Any], ask: Ask, *, step: int | None = None) -> Recorded:
        """`model`, with the effect's id and whether it was replayed."""

        async def work() -> Any:
            return await called(ask, request)

        return await self._do("llm_call", target, question_of(request, self._noise), work, step, exact=False)

    async def stream(
        self,
        target: str,
        request: Mapping[str, Any],
        ask: AskStreaming,
        *,
        step: int | None = None,
        whole: Callable[[list[Any]], Any] | None = None,
    ) -> AsyncIterator[Any]:
        """The pieces of the model's reply as they come; the whole is recorded once the last one was taken.

        `ask(request)` gives an async iterator, or an awaitable of one. Pieces of text are recorded as one text, others
        as a list; `whole` makes of the pieces what is recorded instead. A replay gives what is recorded: a list
        piece by piece, anything else as one. `model` and `stream` know each other's records.

        A stream that breaks or is left early is not recorded: run again, the model is asked anew, and what was
        shown of the first reply is void. Raises EffectOverruled where another run of this turn was first: what it
        recorded is not what was streamed here."""
        question = question_of(request, self._noise)
        async with self._recording.effect("llm_call", target, question, step=step, exact=False) as claimed:
            if claimed.done is not None:
                for piece in _pieces(claimed.done.value):
                    yield piece
                return
            taken: list[Any] = []
            made = ask(request)
            source = await made if inspect.isawaitable(made) else made
            async with aclosing(_passed(source)) as pieces:
                async for piece in pieces:
                    taken.append(piece)
                    yield piece
            kept = await claimed.settle((whole or _joined)(taken))
            if kept.replay is not None:
                raise EffectOverruled(
                    "another run of this turn recorded another reply", code="overruled", effect_id=kept.effect_id
                )

    async def tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        work: Work,
        *,
        tool_call_id: str | None = None,
        step: int | None = None,
    ) -> Any:
        """What a tool gave that this runtime has itself. Run at most once, unless the gateway knows that it reads or
        may be tried again; held as a repeat like any call (4.9). `tool_call_id`: the model's, if it gave one."""
        done = await self._do(
            "tool_call", name, dict(arguments), work, step, at_most_once=True, tool_call_id=tool_call_id
        )
        return done.value

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str,
        *,
        tool_call_id: str | None,
        step: int | None = None,
        call_id_scope: str | None = None,
    ) -> Answer:
        """A tool call that the gateway runs (`AsyncOncegate.call`), at this turn and attempt. Side-effecting ones
        replay; what only reads is not recorded, and reads again (3.6)."""
        return await self._client.call(
            *self._place,
            tool,
            arguments,
            tool_call_id=tool_call_id,
            turn=self.id,
            step=step,
            attempt=self.attempt,
            call_id_scope=call_id_scope,
        )

    async def _do(
        self,
        kind: str,
        target: str,
        args: Mapping[str, Any],
        work: Work,
        step: int | None,
        *,
        at_most_once: bool = False,
        tool_call_id: str | None = None,
        exact: bool = True,
    ) -> Recorded:
        async with self._recording.effect(
            kind, target, args, step=step, at_most_once=at_most_once, tool_call_id=tool_call_id, exact=exact
        ) as claimed:
            if claimed.done is None:
                return await claimed.settle(await called(work))
            return claimed.done


async def _passed(source: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """`source`, closed when this is."""
    try:
        async for piece in source:
            yield piece
    finally:
        close = getattr(source, "aclose", None) or getattr(source, "close", None)
        left = close() if close is not None else None
        if inspect.isawaitable(left):
            await left


def _joined(pieces: Sequence[Any]) -> Any:
    return "".join(pieces) if pieces and all(isinstance(piece, str) for piece in pieces) else list(pieces)


def _pieces(whole: Any) -> list[Any]:
    return whole if isinstance(whole, list) else [whole]
