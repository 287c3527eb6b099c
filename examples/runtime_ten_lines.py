"""An assistant's turn through the gateway. Start `oncegate serve --dev`, then run this file."""

import asyncio
import os

from gateway.runtime import AsyncOncegate, ToolLoop


async def answer(model, conversation, messages, turn):
    url, key = os.environ.get("ONCEGATE_URL", "http://127.0.0.1:8080"), os.environ.get("ONCEGATE_KEY", "dev")
    async with AsyncOncegate(url, key) as gateway:
        result = await ToolLoop(gateway, "acme", conversation, model).run(messages, turn=turn)
    return result.text


def model(messages, tools):  # put your chat model here; this one only lists what it could call
    return {"role": "assistant", "content": "Tools: " + ", ".join(tool["function"]["name"] for tool in tools)}


if __name__ == "__main__":
    print(asyncio.run(answer(model, "c-1", [{"role": "user", "content": "What can you do?"}], turn="t-1")))
