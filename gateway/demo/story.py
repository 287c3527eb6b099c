"""What the demo shows: one purchase, and everything that usually turns one order into two."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from gateway.demo.processes import Counting, GatewayProcess
from gateway.demo.stage import COMPANY, Say, stage
from gateway.runtime import Answer, AsyncOncegate

CONVERSATION, TURN = "chat-1", "turn-3"
ORDER = {"address": "12 MG Road, Kochi", "phone": "9812345678"}


async def tell(ledger: str, say: Say) -> bool:
    """Run the demo on `ledger`, one line of `say` at a time. True if exactly one order exists at the end.

    On `memory` nothing survives a restart, so that part is left out, and said to be.
    Raises GatewayDidNotStart.
    """
    async with stage(ledger, say) as on:
        await _purchase(on.gateway, on.shop, ledger, say)
        return _verdict(on.orders(), on.shop, say)


async def _purchase(gateway: GatewayProcess, shop: Counting, ledger: str, say: Say) -> None:
    async with AsyncOncegate(gateway.url, "dev") as client:

        async def call(id_: str, tool: str, step: int, arguments: dict[str, Any], attempt: int = 1) -> Answer:
            before = shop.requests.total()
            answer = await client.call(
                COMPANY, CONVERSATION, tool, arguments, tool_call_id=id_, turn=TURN, step=step, attempt=attempt
            )
            _line(say, tool, id_, answer, shop.requests.total() - before)
            return answer

        say("\n1. The assistant looks at the menu and fills the cart.")
        await call("call_1", "get_menu", 1, {})
        await call("call_2", "add_to_cart", 2, {"item": "masala-dosa", "quantity": 2})

        say('\n2. "Yes, order it." The assistant calls place_order, and the connection breaks before the answer.')
        await _ask_and_hang_up(gateway.url, "call_3", ORDER, shop)
        say("     place_order   call_3   answer lost: was it ordered, or not?")
        say("   It asks again under the same id.")
        await call("call_3", "place_order", 3, ORDER)

        say("\n3. The model repeats itself: the same call once more.")
        await call("call_3", "place_order", 3, ORDER)

        attempt = 1
        if ledger == "memory":
            say("\n4. (A restart of the gateway is left out: the memory ledger forgets. Try --ledger local:DIR.)")
        else:
            say("\n4. The gateway is killed with SIGKILL and started again; the assistant starts its turn over.")
            await gateway.kill()
            await gateway.start()
            attempt = 2
            await call("call_3", "place_order", 3, ORDER, attempt)

        say("\n5. The model asks for the same order under a new id.")
        await call("call_4", "place_order", 4, ORDER, attempt)


def _line(say: Say, tool: str, id_: str, answer: Answer, sends: int) -> None:
    did = {
        "proceed": "sent to the shop",
        "replay": "replayed from the ledger",
        "blocked": "BLOCKED: a repeat, first result shown",
    }.get(answer.decision, answer.decision)
    if answer.decision == "proceed" and not sends:
        did = "answered"
    say(f"     {tool:13} {id_:8} {did:38} {_short(answer)}")


def _short(answer: Answer) -> str:
    result = answer.result
    if result is None and answer.first is not None:
        result = answer.first.result
    if isinstance(result, dict):
        for name in ("order_id", "total"):
            if name in result:
                return f"{name} {result[name]}"
        return ", ".join(str(item.get("item")) for item in result.get("items", [])) or answer.message
    return answer.message


def _verdict(orders: int, shop: Counting, say: Say) -> bool:
    sends = shop.requests["place_order"]
    say("\nWhat really happened")
    say(f"  place_order requests that reached the shop: {sends}")
    say(f"  orders in the shop's database:              {orders}")
    if orders == 1 and sends == 1:
        say("\nOne order. Every repeat was answered with it, and none reached the shop.")
        return True
    say("\nFAILED: there should be exactly one order, from one request.")
    return False


async def _ask_and_hang_up(url: str, id_: str, arguments: dict[str, Any], shop: Counting) -> None:
    """Send the call on a connection of its own and close it as soon as the shop was reached."""
    host, port = url.removeprefix("http://").split(":")
    body = {
        "company": COMPANY,
        "conversation": CONVERSATION,
        "tool_call_id": id_,
        "tool": "place_order",
        "arguments": arguments,
        "turn": TURN,
        "step": 3,
        "attempt": 1,
    }
    raw = json.dumps(body).encode()
    head = (
        f"POST /v1/calls HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer dev\r\n"
        f"content-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
    )
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + raw)
    await writer.drain()
    async with asyncio.timeout(20):
        await shop.reached("place_order")
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
