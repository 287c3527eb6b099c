"""The assistant runtime's client of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from gateway.runtime.answer import Answer, read_answer
from gateway.runtime.asking import rows_of
from gateway.runtime.call import Call, body_of, path_of
from gateway.runtime.effect_calls import EffectCalls
from gateway.runtime.errors import Problem
from gateway.runtime.exact_json import encode
from gateway.runtime.model_request import NOISE
from gateway.runtime.reading import read_problem, unreadable
from gateway.runtime.turn import Turn


class AsyncOncegate(EffectCalls):
    """One gateway, spoken to with one key.

        async with AsyncOncegate("https://gateway.example", key) as gateway:
            answer = await gateway.call("acme", "c-42", "place_order", {"sku": "A"}, tool_call_id="call_9f")

    **What is sent again.** When the connection breaks or times out, when something other than the gateway
    answers (a proxy's page), and on 409 `call_in_flight`, the client sends the very same bytes again, at
    most `resend.times` more. That is safe because the call carries an identity, so that the gateway takes
    the second send for the same call: it replays the outcome, or waits for it, and the merchant sees one
    request (promises 2.1, 2.7, 4.8). A call with neither a `tool_call_id` nor turn and attempt has no
    identity. The gateway runs such a call only if it is read-only, but the client cannot see that, so it
    does not send it again; unless no connection was made or the gateway said 503, when nothing can have
    run. `rate_limited` and `merchant_not_ready` are sent again only if the gateway says when. A
    `Retry-After` longer than `resend.longest_wait_s` is raised, not waited for.

    `timeout_s` bounds each try; keep it above the gateway's tool deadlines (10 s by default), or waits
    for a running call are cut short. Cancelling a call here does not stop it at the gateway (5.3): ask
    again under the same id.

    `session` is a caller's own aiohttp session, left open at the end. `headers` is called for each
    request and may add `traceparent` or `Request-Id`. `sleep` and `jitter` are handed in for tests. The
    client belongs to one event loop. Raises ValueError for an address or a key that cannot be used. Every
    method raises OncegateError kinds only, but for RuntimeError once the client is closed."""

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
    ) -> Answer:
        """Run one tool call, or get the outcome it already has. The fields are those of `Call`.

        Raises Problem where the gateway recorded nothing, NoAnswer where no answer came, BadCall where
        `arguments` are not JSON.
        """
        call = Call(company, conversation, tool, arguments, tool_call_id, turn, step, attempt, call_id_scope)
        document, raw = await self._ask(
            "POST", path_of("v1", "calls"), body_of(call.document()), identified=call.identified
        )
        try:
            return read_answer(document, raw)
        except ValueError:
            raise unreadable(200, identified=call.identified) from None

    async def batch(self, calls: Iterable[Call]) -> list[Answer | Problem]:
        """Run several calls side by side; one entry each, in order, a `Problem` (returned, not raised)
        where that call recorded nothing.

        The batch as a whole is sent again as one call is, if every call in it has an identity. A `Problem`
        entry is not: look at its `retryable`.
        """
        asked = list(calls)
        if not asked:
            return []
        identified = all(call.identified for call in asked)
        body = body_of({"calls": [call.document() for call in asked]})
        document, _ = await self._ask("POST", path_of("v1", "calls", "batch"), body, identified=identified)
        try:
            entries = rows_of(document, "answers")
            if len(entries) != len(asked):
                raise ValueError("answers do not match the calls")
            return [_batch_entry(entry) for entry in entries]
        except ValueError:
            raise unreadable(200, identified=identified) from None

    async def lookup(
        self, company: str, conversation: str, tool_call_id: str, *, turn: str | None = None, step: int | None = None
    ) -> list[dict[str, Any]]:
        """The stored records under an id, with their events; empty if there are none. Runs nothing."""
        query = {"company": company, "conversation": conversation, "tool_call_id": tool_call_id}
        return await self._list(path_of("v1", "calls", **query, turn=turn, step=step), "calls", "records")

    async def tools(self, company: str, format: str = "openai") -> list[dict[str, Any]]:  # noqa: A002
        """The company's tools, ready to hand to a model: `openai`, `anthropic`, `gemini`, `mcp` or
        `oncegate`. Numbers in them are plain floats, so that any JSON writer takes the list."""
        path = path_of("v1", "companies", company, "tools", format=format)
        return await self._list(path, "tools", exact=False)

    async def events(
        self, company: str, conversation: str, *, after: int | None = None, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """One page of a conversation's events in order (7.6): those whose `seq` is above `after`, at most
        `limit`."""
        path = path_of("v1", "events", company=company, conversation=conversation, after=after, limit=limit)
        return await self._list(path, "events")

    def turn(
        self,
        company: str,
        conversation: str,
        turn: str,
        attempt: int = 1,
        *,
        noise: frozenset[str] = NOISE,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> Turn:
        """A turn whose model calls and values are recorded, so that it goes on where it stopped when it is run
        again. The fields are those of `Turn`."""
        return Turn(self, company, conversation, turn, attempt, noise=noise, sleep=sleep)


def _batch_entry(entry: dict[str, Any]) -> Answer | Problem:
    return read_answer(entry, encode(entry)) if "decision" in entry else read_problem(entry)
