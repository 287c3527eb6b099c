"""The assistant runtime's client of the gateway."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from gateway.runtime.answer import Answer, read_answer
from gateway.runtime.call import Call, body_of, path_of
from gateway.runtime.errors import OncegateError, Problem
from gateway.runtime.exact_json import encode
from gateway.runtime.exchange import exchange, new_session
from gateway.runtime.reading import after_a_lost_try, read_problem, read_seen, unreadable
from gateway.runtime.resend import Resend, wait_before_resend


class AsyncOncegate:
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

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_s: float = 30.0,
        session: aiohttp.ClientSession | None = None,
        resend: Resend | None = None,
        headers: Callable[[], Mapping[str, str]] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not timeout_s > 0:
            raise ValueError("timeout_s must be above zero")
        self._url = _checked_url(url)
        self._authorization = f"Bearer {_checked_key(key)}"
        self._timeout_s = timeout_s
        self._session = session
        self._owns_session = session is None
        self._closed = False
        self._resend = resend or Resend()
        self._headers = headers or dict
        self._sleep = sleep
        self._jitter = jitter

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    async def __aenter__(self) -> Self:
        self._open_session()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what this client opened. It cannot be used afterwards."""
        self._closed = True
        if self._owns_session and self._session is not None:
            await self._session.close()

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
            entries = _rows(document, "answers")
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

    async def _list(self, path: str, *names: str, exact: bool = True) -> list[dict[str, Any]]:
        document, _ = await self._ask("GET", path, None, identified=True, exact=exact)
        try:
            return _rows(document, *names)
        except ValueError:
            raise unreadable(200, identified=True) from None

    async def _ask(
        self, method: str, path: str, body: bytes | None, *, identified: bool, exact: bool = True
    ) -> tuple[Any, str]:
        session = self._open_session()
        headers = {**self._headers(), "Authorization": self._authorization}
        if body is not None:
            headers["Content-Type"] = "application/json"
        lost = False
        sent_again = 0
        while True:
            seen = await exchange(
                session, method, self._url + path, headers=headers, body=body, timeout_s=self._timeout_s
            )
            read = read_seen(seen, identified=identified, exact=exact)
            if not isinstance(read, OncegateError):
                return read
            wait = wait_before_resend(
                read, identified=identified, sent_again=sent_again, bounds=self._resend, jitter=self._jitter()
            )
            if wait is None:
                raise after_a_lost_try(read) if lost else read
            lost = lost or read.outcome == "unknown"
            sent_again += 1
            await self._sleep(wait)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("this client is closed")
        if self._session is None:
            self._session = new_session()
        return self._session


def _batch_entry(entry: dict[str, Any]) -> Answer | Problem:
    return read_answer(entry, encode(entry)) if "decision" in entry else read_problem(entry)


def _rows(document: object, *names: str) -> list[dict[str, Any]]:
    """The list in a body: bare, or under the first of `names` that is there."""
    rows: object = document
    if isinstance(document, dict):
        rows = next((document[name] for name in names if name in document), None)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("not a list of objects")
    return rows


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the gateway's address must be http:// or https:// with a host")
    if "@" in parts.netloc or parts.query or parts.fragment:
        # Never echo it: what stands there is often a password.
        raise ValueError("the gateway's address must hold no credentials, query or fragment")
    return url.rstrip("/")


def _checked_key(key: str) -> str:
    if not key or not all("!" <= letter <= "~" for letter in key):
        raise ValueError("the key must be visible ASCII text without spaces")
    return key
