"""A turn of six steps whose runtime is killed, at every place where it waits for somebody, and run again."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from flow_client import Api
from flow_merchant import Connection, RawMerchant, Request, reply
from flow_processes import clean_environment

RUNTIME = Path(__file__).with_name("flow_turn_runtime.py")
READS = ("get_menu", "get_order")
ADDRESS = {"address": "12 MG Road"}


def call(id_: str | None, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}


SCRIPT: tuple[dict[str, Any], ...] = (
    {"tool_calls": [call("call_0", "get_menu", {})]},
    # Ids that start again in each step, two calls side by side.
    {"tool_calls": [call("call_0", "add_to_cart", {"sku": "A"}), call("call_1", "add_to_cart", {"sku": "B"})]},
    {"tool_calls": [call("call_0", "place_order", {"address": "nowhere"})]},  # which the merchant refuses
    {"tool_calls": [call(None, "place_order", ADDRESS)]},
    {"tool_calls": [call("call_0", "pay_order", {"amount": 12.50}), call("call_1", "no_such_tool", {})]},
    {"tool_calls": [call("call_0", "get_order", {}), call("call_1", "place_order", ADDRESS)]},  # a repeat: held
    {"content": "Ordered, once."},
)
EFFECTS = {
    ("add_to_cart", '{"sku": "A"}'),
    ("add_to_cart", '{"sku": "B"}'),
    ("place_order", '{"address": "nowhere"}'),
    ("place_order", '{"address": "12 MG Road"}'),
    ("pay_order", '{"amount": 12.5}'),
}


class Model:
    """Replies to a conversation by how far it is, and counts how often it was asked for which reply."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()

    async def __call__(self, request: Request, connection: Connection) -> bytes | None:
        step = sum(message["role"] == "assistant" for message in request.json["messages"])
        self.asked[request.tool, step] += 1
        return reply({"role": "assistant", "content": None, **SCRIPT[step]})


class Shop:
    """Answers by what it is asked alone, so that conversations can be compared; counts what reached it."""

    def __init__(self) -> None:
        self.hits: Counter[tuple[str, str, str]] = Counter()

    async def __call__(self, request: Request, connection: Connection) -> bytes | None:
        arguments = request.json["arguments"]
        self.hits[request.json["context"]["conversation"], request.tool, json.dumps(arguments)] += 1
        if arguments.get("address") == "nowhere":
            return reply({"error": "we do not deliver there"}, status=422)
        return reply({"done": request.tool, "with": arguments})

    def of(self, conversation: str) -> Counter[tuple[str, str]]:
        return Counter(
            {(tool, arguments): hits for (where, tool, arguments), hits in self.hits.items() if where == conversation}
        )


@pytest.fixture
async def world(api: Api, new_merchant: Any) -> tuple[Api, Shop, Model, RawMerchant]:
    shop, model = Shop(), Model()
    merchant, asked = await new_merchant(), await new_merchant()
    merchant.behave, asked.behave = shop, model
    for tool in ("get_menu", "add_to_cart", "place_order", "pay_order", "get_order"):
        await api.register(tool, merchant.url, timeout_s=20)
    return api, shop, model, asked


async def run_killed(api: Api, asked: RawMerchant, turn: str) -> list[dict[str, Any]]:
    """What `flow_turn_runtime` tells of a turn: that of a run left alone, then of those killed and run again."""
    orders = {"gateway": api.url, "model": asked.url, "company": api.company, "turn": turn}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(RUNTIME),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(),
    )
    said, complained = await process.communicate(json.dumps(orders).encode())
    assert process.returncode == 0, complained.decode()
    return [json.loads(line) for line in said.splitlines()]


async def test_p7_2_a_turn_killed_at_any_place_and_run_again_does_nothing_twice(
    world: tuple[Api, Shop, Model, RawMerchant],
) -> None:
    """7.2, 2.1, 2.7: at every place, among them those between a claim and its outcome: each effect reached the
    merchant once, the model was asked once for each reply (but for the one it was cut off at), and the transcript is
    that of a turn that was left alone."""
    api, shop, model, asked = world
    whole, *killed = await run_killed(api, asked, "six_steps")
    assert len(killed) == whole["places"] > 80
    assert [message["role"] for message in whole["messages"]].count("assistant") == len(SCRIPT)
    assert "Repeated call" not in str(whole["messages"])
    assert "already succeeded" in whole["messages"][-3]["content"], "the repeat of step 6 is held"
    asked_again = 0
    for run in killed:
        conversation = run["conversation"]
        hits = shop.of(conversation)
        assert {each: hits[each] for each in EFFECTS} == dict.fromkeys(EFFECTS, 1), conversation
        assert all(hits[read, "{}"] in (1, 2) for read in READS), conversation
        asks = [model.asked[conversation, step] for step in range(len(SCRIPT))]
        assert sorted(asks)[:-1] == [1] * (len(SCRIPT) - 1), (conversation, asks)
        assert max(asks) <= 2, (conversation, asks)
        asked_again += max(asks) - 1
        assert run["messages"] == whole["messages"], conversation
        assert run["text"] == "Ordered, once."
    assert 0 < asked_again <= 3 * len(SCRIPT), "killed before the model's reply was recorded, and only then"


async def test_p7_2_a_streamed_reply_is_whole_however_often_its_runtime_is_killed(
    world: tuple[Api, Shop, Model, RawMerchant],
) -> None:
    """7.2: killed between any two pieces; what is shown in the end is the one reply, and a value drawn before it is
    drawn once. The model is asked again only if the first reply was not whole."""
    api, _, model, asked = world
    words = "Your order O-1 is on its way and will be with you soon."

    async def says(request: Request, connection: Connection) -> bytes:
        model.asked[request.tool, 0] += 1
        return reply({"content": words})

    asked.behave = says
    whole, *killed = await run_killed(api, asked, "streamed")
    assert len(killed) == whole["places"] > 20
    asked_again = [model.asked[run["conversation"], 0] - 1 for run in killed]
    assert {run["text"] for run in killed} == {words + " "}
    assert len({run["drawn"] for run in killed}) == len(killed), "random numbers, one a turn"
    assert set(asked_again) == {0, 1}
