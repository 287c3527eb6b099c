"""What `oncegate demo --crash` shows: an assistant killed in the middle of its turn, and the turn run again."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from gateway.demo.assistant import CALLED, REPLIES
from gateway.demo.stage import Say, Stage, stage

FATAL = "place_order"
"""The assistant is killed once the shop has this request, and before the assistant has its answer."""
BOUND_S = 60.0


async def tell_crash(ledger: str, say: Say) -> bool:
    """Run the story on `ledger`. True if one request made one order, the model was asked once for each of its replies,
    and the second run finished the turn. Raises GatewayDidNotStart."""
    async with stage(ledger, say) as on, asyncio.timeout(BOUND_S):
        say("\n1. A customer orders. The assistant works on its turn, each step through the gateway.")
        asked, _ = await _run(on, say, kill=True)
        say("   The shop has the request; the assistant's process is gone (SIGKILL) before it hears of it.")
        say("\n2. The turn is run again, from its beginning, under the same ids.")
        again, text = await _run(on, say, kill=False)
        say(f"\n   To the customer: {text}")
        return _verdict(on, asked + again, text, say)


async def _run(on: Stage, say: Say, *, kill: bool) -> tuple[int, str]:
    """How often the model was asked, and the text for the customer, empty if the process was killed before."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.demo.assistant", on.gateway.url),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    if kill:
        on.shop.before = partial(_kill, process)
    asked, text = 0, ""
    try:
        async for did in _lines(process):
            asked += did["did"] == "asked"
            text = did.get("text", text)
            if (line := _line(did)) is not None:
                say(line)
        # Said all, it ends by itself. Killed in that moment, it may be found dead by whoever kills, and whoever waits
        # for it then finds nothing, and says so in the middle of the story.
        await process.wait()
    finally:
        on.shop.before = None
        if process.returncode is None:
            process.kill()
        await process.wait()
    return asked, text


async def _kill(process: asyncio.subprocess.Process, tool: str) -> None:
    if tool == FATAL:
        process.kill()
        await process.wait()


async def _lines(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
    assert process.stdout is not None
    async for line in process.stdout:
        yield json.loads(line)


def _line(did: dict[str, Any]) -> str | None:
    match did:
        case {"did": "asked", "step": step}:
            return f"     step {step}   the model       asked"
        case {"did": "recorded", "kind": "llm_call", "step": step}:
            return f"     step {step}   the model       not asked: its reply is recorded"
        case {"did": "recorded", "step": step}:
            tool = CALLED[step - 1]
            return f"     step {step}   {tool:15} not called: what it gave is recorded"
        case {"did": "called", "tool": tool, "step": step, "decision": "replay"}:
            return f"     step {step}   {tool:15} found done: not sent again"
        case {"did": "called", "tool": tool, "step": step}:
            return f"     step {step}   {tool:15} sent to the shop"
    return None


def _verdict(on: Stage, asked: int, text: str, say: Say) -> bool:
    orders, sends = on.orders(), on.shop.requests
    say("\nWhat really happened")
    say(f"  requests that reached the shop:  {', '.join(f'{tool} {times}' for tool, times in sends.items())}")
    say(f"  orders in the shop's database:   {orders}")
    say(f"  the model was asked:             {asked} times, for {len(REPLIES)} replies")
    if orders == sends[FATAL] == sends["add_to_cart"] == 1 and asked == len(REPLIES) and text:
        say("\nOne order. What the first run had done, the second one found.")
        return True
    say("\nFAILED: each of these should have happened once.")
    return False
