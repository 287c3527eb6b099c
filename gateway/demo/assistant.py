"""The assistant of `oncegate demo --crash`, a process that can be killed:

    python -m gateway.demo.assistant http://127.0.0.1:8080

It runs one resumable turn with a scripted model, and says on standard output, a JSON line each, what it does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from gateway.demo.stage import COMPANY
from gateway.runtime import Answer, AsyncOncegate, Effect, Submitted, ToolLoop

CONVERSATION, TURN = "chat-2", "turn-1"
CUSTOMER = [{"role": "user", "content": "Two masala dosas to 12 MG Road, Kochi, please. Yes, order them."}]


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_menu", {}),
    ("add_to_cart", {"item": "masala-dosa", "quantity": 2}),
    ("place_order", {"address": "12 MG Road, Kochi", "phone": "9812345678"}),
)
CALLED = [tool for tool, _ in CALLS]
REPLIES: tuple[dict[str, Any], ...] = (
    *(
        {"content": None, "tool_calls": [{"id": "call_1", "function": {"name": tool, "arguments": json.dumps(given)}}]}
        for tool, given in CALLS
    ),
    {"content": "Two masala dosas are on their way to 12 MG Road."},
)


async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Replies by how far the turn is, and says that it was asked."""
    step = sum(message["role"] == "assistant" for message in messages)
    _tell(did="asked", step=step + 1)
    reply: dict[str, Any] = REPLIES[step]
    return reply


class Telling(AsyncOncegate):
    """A client that says what the gateway decided."""

    async def submit(self, effect: Effect, *, exact: bool = True) -> Submitted:
        said = await super().submit(effect, exact=exact)
        if said.decision == "replay" and effect.step is not None:
            _tell(did="recorded", kind=effect.kind, step=effect.step)
        return said

    async def call(self, company: str, conversation: str, tool: str, arguments: Any, **where: Any) -> Answer:
        answer = await super().call(company, conversation, tool, arguments, **where)
        _tell(did="called", tool=tool, step=where["step"], decision=answer.decision)
        return answer


async def run(url: str) -> None:
    async with Telling(url, "dev") as gateway:
        loop = ToolLoop(gateway, COMPANY, CONVERSATION, model, resumable=True, model_name="scripted")
        result = await loop.run(CUSTOMER, turn=TURN)
    _tell(did="finished", text=result.text)


def _tell(**said: Any) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
