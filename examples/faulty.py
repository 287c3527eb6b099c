"""Things that go wrong between a shop's commit and its customer, as an ASGI wrapper around an honest shop.

app = Faulty(create_app(path, secrets), scripted({"place_order": [DROP_REPLY, None]}))
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Fault:
    """What to do to one request. The shop always does its work in full; `reply` is what becomes of its answer.

    `drop` begins the answer and breaks the connection off, `error` sends a 500 in its place. Sleeps are in
    seconds, before the shop sees the request and after it has committed.
    """

    reply: Literal["send", "drop", "error"] = "send"
    sleep_before_s: float = 0.0
    sleep_after_s: float = 0.0


DROP_REPLY = Fault(reply="drop")
ERROR_AFTER_COMMIT = Fault(reply="error")

Faults = Callable[[str | None], Fault | None]


def scripted(faults: dict[str, Iterable[Fault | None]]) -> Faults:
    """For each tool, what befalls its first request, its second, and so on; nothing when the list ends."""
    left = {tool: iter(listed) for tool, listed in faults.items()}
    return lambda tool: next(left.get(tool or "", iter(())), None)


class Faulty:
    """Asks `faults(tool)` at each request. `sleep` is handed in so that a test need not wait."""

    def __init__(self, app: Any, faults: Faults, *, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep) -> None:
        self._app = app
        self._faults = faults
        self._sleep = sleep

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        messages = [await receive()]
        while messages[-1]["type"] == "http.request" and messages[-1].get("more_body"):
            messages.append(await receive())
        body = b"".join(message.get("body", b"") for message in messages)
        fault = self._faults(_tool(body)) or Fault()
        replay = iter(messages)

        async def receive_again() -> Any:
            message = next(replay, None)
            return message if message is not None else await receive()

        answer: list[Any] = []

        async def keep(message: Any) -> None:
            answer.append(message)

        if fault.sleep_before_s:
            await self._sleep(fault.sleep_before_s)
        await self._app(scope, receive_again, keep)
        if fault.sleep_after_s:
            await self._sleep(fault.sleep_after_s)
        for message in _spoilt(answer, fault):
            await send(message)


def _spoilt(answer: list[Any], fault: Fault) -> list[Any]:
    if not answer or fault.reply == "send":
        return answer
    if fault.reply == "drop":
        # The head promises a body that never comes; the server then breaks the connection.
        return answer[:1]
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"21")]
    start = {"type": "http.response.start", "status": 500, "headers": headers}
    return [start, {"type": "http.response.body", "body": b"Internal Server Error"}]


def _tool(body: bytes) -> str | None:
    try:
        return str(json.loads(body)["tool"])
    except (ValueError, KeyError, TypeError):
        return None
