"""The assistant's side of a replay: asks for every recorded call, and asks again as broken networks make one ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from benchmarks.processes import DEV_KEY, LOOPBACK
from benchmarks.replay.exact import exact
from benchmarks.replay.expected import Expected
from benchmarks.replay.recorded import RecordedCall

COMPANY: Final = "replay"
SIDE_BY_SIDE: Final = 8
"""Conversations that run at the same time; the calls of one run in order."""


class Arrival(StrEnum):
    """How a request came."""

    FIRST = "first"
    AT_ONCE = "at once"
    DROPPED = "reply dropped"
    AFTER_DROP = "after the dropped reply"
    AFTER_RESTART = "after a restart"


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer that was read, beside what was expected."""

    expected: Expected
    arrival: Arrival
    status: int
    body: Any
    """An `exact` value."""


class Assistant:
    """Speaks to one gateway process; made anew after each restart."""

    def __init__(self, url: str, seen: list[Seen]) -> None:
        self._url = url
        self._seen = seen
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {DEV_KEY}"}, timeout=aiohttp.ClientTimeout(total=60)
        )
        self.dropped = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def converse(self, expected: Sequence[Expected]) -> None:
        """Every call in order. By turns, it is the first reply that is dropped, or that of a repeat."""

        async def one(each: Expected, index: int) -> None:
            if index % 2:
                await self._ask_and_hang_up(each.call)
                await self._side_by_side(each, Arrival.AFTER_DROP, Arrival.AT_ONCE)
            else:
                await self._side_by_side(each, Arrival.FIRST, Arrival.AT_ONCE)
                await self._ask_and_hang_up(each.call)
                await self._ask(each, Arrival.AFTER_DROP)

        await self._each_in_order(expected, one)

    async def again(self, expected: Sequence[Expected]) -> None:
        """Every call once more, in order: what a runtime does that does not know what the last gateway did."""

        async def one(each: Expected, index: int) -> None:
            await self._ask(each, Arrival.AFTER_RESTART)

        await self._each_in_order(expected, one)

    async def put(self, path: str, document: dict[str, Any]) -> Any:
        """A setting; raises RuntimeError unless it is taken."""
        return await self._set("PUT", path, document)

    async def post(self, path: str, document: dict[str, Any]) -> Any:
        """The same with POST."""
        return await self._set("POST", path, document)

    async def _set(self, method: str, path: str, document: dict[str, Any]) -> Any:
        async with self._session.request(method, self._url + path, json=document) as response:
            text = await response.text()
            if response.status not in (200, 201):
                raise RuntimeError(f"{method} {path} was answered {response.status}: {text[:500]}")
            return json.loads(text)

    async def _each_in_order(self, expected: Sequence[Expected], one: Any) -> None:
        places = asyncio.Semaphore(SIDE_BY_SIDE)

        async def conversation(some: list[tuple[int, Expected]]) -> None:
            async with places:
                for index, each in some:
                    await one(each, index)

        async with asyncio.TaskGroup() as group:
            for some in _by_conversation(expected):
                group.create_task(conversation(some))

    async def _side_by_side(self, each: Expected, *arrivals: Arrival) -> None:
        await asyncio.gather(*(self._ask(each, arrival) for arrival in arrivals))

    async def _ask(self, each: Expected, arrival: Arrival) -> None:
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._url + "/v1/calls", data=_body(each.call), headers=headers) as response:
            raw = await response.read()
            try:
                body = exact(raw)
            except ValueError:
                body = raw.decode(errors="replace")
            self._seen.append(Seen(each, arrival, response.status, body))

    async def _ask_and_hang_up(self, call: RecordedCall) -> None:
        """The whole request, then gone: nobody reads the answer."""
        body = _body(call)
        port = int(self._url.rpartition(":")[2])
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        head = (
            f"POST /v1/calls HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\nAuthorization: Bearer {DEV_KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        self.dropped += 1


def _body(call: RecordedCall) -> bytes:
    return json.dumps(
        {
            "company": COMPANY,
            "conversation": call.conversation,
            "tool_call_id": call.tool_call_id,
            "tool": call.tool,
            "arguments": call.arguments,
            "turn": call.turn,
            "step": call.step,
        }
    ).encode()


def _by_conversation(expected: Iterable[Expected]) -> Iterable[list[tuple[int, Expected]]]:
    grouped: dict[str, list[tuple[int, Expected]]] = {}
    for index, each in enumerate(expected):
        grouped.setdefault(each.call.conversation, []).append((index, each))
    return grouped.values()
