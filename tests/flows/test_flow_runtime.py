"""The runtime's client against a real gateway: what is done at most once, and customers who approve."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from flow_client import Api
from flow_merchant import RawMerchant
from flow_processes import GatewayProcess, RedisProcess, clean_environment

from gateway.runtime import AsyncOncegate, EffectUnknown, Problem, Resend, ToolLoop

Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]
ORDER = {"id": "a", "type": "function", "function": {"name": "place_order", "arguments": '{"sku": "A"}'}}
TWICE = {"role": "assistant", "tool_calls": [ORDER]}, {"role": "assistant", "tool_calls": [{**ORDER, "id": "b"}]}
QUESTION = {"role": "assistant", "content": "You have one on its way. Do you want another?"}


async def test_p4_6_a_step_at_most_once_that_was_cut_off_is_unknown_and_not_run_again(
    api: Api, redis_process: RedisProcess, start_gateway: Callable[..., GatewayProcess]
) -> None:
    """4.6, 7.2, 4.5: the first run never reports. The second waits for it, and is told once its lease has lapsed."""
    gateway = start_gateway(redis_process.url, settings={"EFFECTS_LEASE_S": "5"})
    begun = asyncio.Event()
    times = 0

    async def pay() -> None:
        nonlocal times
        times += 1
        begun.set()
        await asyncio.Event().wait()

    async with AsyncOncegate(gateway.url, "dev", resend=Resend(times=20)) as client:
        running = asyncio.create_task(client.turn(api.company, "c-1", "t-1").step("pay", pay, at_most_once=True))
        await begun.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        for attempt in (1, 1, 2):
            with pytest.raises(EffectUnknown) as raised:
                await client.turn(api.company, "c-1", "t-1", attempt).step("pay", pay, at_most_once=True)
            assert (raised.value.code, raised.value.retryable) == ("outcome_unknown", False)
        assert times == 1
        named = raised.value.effect_id
        said = {"company": api.company, "conversation": "c-1", "outcome": "succeeded", "result": "R-1", "note": "seen"}
        assert (await api.send("POST", f"/v1/effects/{named}/resolve", said)).status == 200
        assert await client.turn(api.company, "c-1", "t-1", 2).step("pay", pay, at_most_once=True) == "R-1"


@pytest.mark.parametrize("attempt", [1, 2])
async def test_p2_5_a_turn_that_crashed_finds_its_work_in_this_attempt_and_in_the_next(
    shop: Api, merchant: RawMerchant, gateway: GatewayProcess, attempt: int
) -> None:
    """2.5, 2.6, 7.2: the replies are recorded, so the next attempt words nothing differently; the one before it can
    start nothing new."""
    asked: list[int] = []

    async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        step = sum(message["role"] == "assistant" for message in messages)
        asked.append(step)
        if asked == [0, 1]:
            raise ConnectionError("the runtime lost its model")
        # Worded anew each time: what was not recorded would be another order.
        return QUESTION if step else {"role": "assistant", "tool_calls": [_order(f"sku-{len(asked)}")]}

    async with AsyncOncegate(gateway.url, "dev") as client:
        loop = ToolLoop(client, shop.company, "c-1", model, resumable=True)
        asks = [{"role": "user", "content": "Order it."}]
        with pytest.raises(ConnectionError):
            await loop.run(asks, turn="t-1")
        result = await loop.run(asks, turn="t-1", attempt=attempt)
        assert (result.text, asked, merchant.hits) == (QUESTION["content"], [0, 1, 1], 1)
        assert [made.message for made in result.calls] == ['{"order": "O-1"}']
        if attempt == 2:
            with pytest.raises(Problem, match="attempt_superseded"):
                await loop.run([{"role": "user", "content": "Something else."}], turn="t-1")
        assert merchant.hits == 1


def _order(sku: str) -> dict[str, Any]:
    return {**ORDER, "function": {"name": "place_order", "arguments": json.dumps({"sku": sku})}}


@pytest.fixture(scope="module")
def runtime_key(redis_process: RedisProcess) -> str:
    made = subprocess.run(
        [
            *(sys.executable, "-m", "gateway.cli", "keys", "create", "--role", "runtime", "--company", "*"),
            *("--principal", "the-runtime", "--ledger", redis_process.url, "--json"),
        ],
        env=clean_environment(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    return str(json.loads(made.stdout)["key"])


@pytest.mark.parametrize("customer", [True, False], ids=["the customer may", "operators only"])
async def test_p7_4_the_customers_yes_is_an_approval_where_the_company_lets_it(
    shop: Api, merchant: RawMerchant, gateway: GatewayProcess, runtime_key: str, eventually: Eventually, customer: bool
) -> None:
    """7.4, 4.9: a repeat is held, the customer is asked, and says yes. The runtime's key decides in the customer's
    name, with the customer's words, once; the gateway runs the stored call."""
    settings = {"customer_may_approve": customer}
    assert (await shop.send("PUT", f"/v1/companies/{shop.company}", settings)).status == 200
    async with AsyncOncegate(gateway.url, runtime_key) as client:

        async def known() -> bool:  # the gateway may not have looked since the key was made
            try:
                return bool(await client.tools(shop.company))
            except Problem as problem:
                if problem.status != 401:
                    raise
                return False

        await eventually(known)
        replies = [*TWICE, QUESTION]
        loop = ToolLoop(client, shop.company, "c-1", lambda *_: replies.pop(0), resumable=True)
        result = await loop.run([{"role": "user", "content": "Order it. Order it!"}], turn="t-1")
        assert (result.text, merchant.hits) == (QUESTION["content"], 1)
        held = result.calls[1].answer
        assert held is not None
        assert held.approval is not None
        assert [each.id for each in result.awaiting_customer] == ([held.approval.id] if customer else [])
        assert [row["id"] for row in await client.approvals(shop.company)] == [held.approval.id]
        if not customer:
            with pytest.raises(Problem) as raised:
                await client.grant(held.approval.id, customer_message="Yes, go ahead")
            assert (raised.value.status, merchant.hits) == (403, 1)
            return
        with pytest.raises(Problem, match="400") as raised:
            await client.grant(held.approval.id)
        assert merchant.hits == 1
        for _ in range(2):  # as after a lost reply
            verdict = await client.grant(held.approval.id, customer_message="Yes, go ahead")
            assert (verdict.decision, verdict.by, verdict.status) == ("granted", "customer", "succeeded")
        assert (merchant.hits, verdict.result) == (2, {"order": "O-2"})
        assert (await client.approval(held.approval.id))["status"] == "succeeded"
        again = await client.call(
            shop.company, "c-1", "place_order", {"sku": "A"}, tool_call_id="b", turn="t-1", step=2
        )
        assert (again.result, merchant.hits) == ({"order": "O-2"}, 2)
    (granted,) = [event for event in await shop.events() if event["type"] == "approval.granted"]
    assert (granted["customer_message"], granted["via"], granted["by"]) == ("Yes, go ahead", "the-runtime", "customer")
