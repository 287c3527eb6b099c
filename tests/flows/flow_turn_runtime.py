"""A runtime that is killed, for test_flow_turns.py: run as a program, its orders as JSON on standard input.

It runs a turn once to the end and counts the places where it waits for somebody. Then, for each of these places, it
forks a child that runs the turn in a conversation of its own and is killed there (SIGKILL), and another that runs the
turn again. Forking keeps the cost of a start to a few milliseconds. One JSON line of standard output a conversation.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from aiohttp.client_reqrep import ClientResponse

from gateway.runtime import AsyncOncegate, ToolLoop

ORDERS = json.loads(sys.stdin.read())
HANG_S = 60
"""A child that is not done by then is ended by its own alarm, and the test fails."""


class Places:
    """Counts the places passed; at the `last` the process is gone."""

    def __init__(self, last: int) -> None:
        self.passed = 0
        self._last = last

    def pass_one(self) -> None:
        self.passed += 1
        if self.passed == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def counting(places: Places) -> None:
    """A place in each exchange: its request has left, and nothing of its answer was read."""
    start = ClientResponse.start

    async def started(self: ClientResponse, connection: Any) -> ClientResponse:
        await asyncio.sleep(0)  # by now the request is the kernel's
        places.pass_one()
        return await start(self, connection)

    ClientResponse.start = started  # type: ignore[method-assign]


async def six_steps(conversation: str, places: Places) -> dict[str, Any]:
    """The tool loop's turn; the model is asked over HTTP, so that it can count."""
    async with (
        aiohttp.ClientSession(trust_env=False, auto_decompress=False) as session,
        AsyncOncegate(ORDERS["gateway"], "dev", session=session) as gateway,
    ):

        async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
            asked = {"tool": conversation, "messages": messages, "tools": tools}
            async with session.post(ORDERS["model"], json=asked) as answer:
                reply = await answer.json()
            places.pass_one()
            return reply

        for name in ("call", "submit", "complete"):
            setattr(gateway, name, passing(getattr(gateway, name), places))
        loop = ToolLoop(gateway, ORDERS["company"], conversation, model, resumable=True, model_name="scripted")
        result = await loop.run([{"role": "user", "content": "Two of each, please."}], turn="t-1")
    return {"conversation": conversation, "messages": result.messages, "text": result.text, "places": places.passed}


async def streamed(conversation: str, places: Places) -> dict[str, Any]:
    """A reply that is streamed, and a value that goes with it."""
    request = {"messages": [{"role": "user", "content": "Tell me."}], "stream": True}
    async with aiohttp.ClientSession(trust_env=False) as session, AsyncOncegate(ORDERS["gateway"], "dev") as gateway:

        async def ask(request: Any) -> AsyncIterator[str]:
            async with session.post(ORDERS["model"], json={**request, "tool": conversation}) as answer:
                words = (await answer.json())["content"].split(" ")
            return pieces(words)

        async def pieces(words: list[str]) -> AsyncIterator[str]:
            for word in words:
                yield word + " "

        turn = gateway.turn(ORDERS["company"], conversation, "t-1")
        drawn = await turn.step("draw", lambda: random.random(), exact=False)
        shown = []
        async for piece in turn.stream("scripted", {**request, "drawn": drawn}, ask):
            shown.append(piece)
            places.pass_one()
        sent = await turn.step("sent", lambda: "".join(shown), {"drawn": drawn})
    assert sent == "".join(shown)
    return {"conversation": conversation, "text": sent, "drawn": str(drawn), "places": places.passed}


def passing(method: Callable[..., Any], places: Places) -> Callable[..., Any]:
    async def passed(*args: Any, **options: Any) -> Any:
        answer = await method(*args, **options)
        places.pass_one()
        return answer

    return passed


async def run(conversation: str, places: Places) -> dict[str, Any]:
    counting(places)
    places.pass_one()
    return await {"six_steps": six_steps, "streamed": streamed}[ORDERS["turn"]](conversation, places)


def child(conversation: str, last: int) -> tuple[int, str]:
    """How a process ended that ran the turn, and the line it left."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(HANG_S)
        with os.fdopen(writing, "w") as told:
            told.write(json.dumps(asyncio.run(run(conversation, Places(last)))))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as telling:
        line = telling.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), line


def told(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    ended, line = child("whole", 0)
    assert ended == 0, ended
    whole = json.loads(line)
    told(whole)
    for last in range(1, whole["places"] + 1):
        killed, nothing = child(f"killed-{last}", last)
        assert (killed, nothing) == (-signal.SIGKILL, ""), (last, killed)
        ended, line = child(f"killed-{last}", 0)
        assert ended == 0, (last, ended)
        told(json.loads(line))


if __name__ == "__main__":
    main()
