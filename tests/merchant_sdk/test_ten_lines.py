"""The first thing a merchant copies has to be right: it runs here on a real server."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvicorn

import merchant_sdk

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def serve(app: Any) -> AsyncIterator[str]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none"))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/tools"
        server.should_exit = True
        await running


@pytest.fixture
def merchant(example: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secret: str) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_SECRET", secret)
    return example("merchant_ten_lines")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "orders.db"


async def post(session: aiohttp.ClientSession, url: str, gateway: Any, key: str, conversation: str = "c-1") -> Any:
    body = (
        b'{"tool": "place_order", "arguments": {"item": "pizza", "quantity": 2},'
        b' "context": {"company": "acme", "conversation": "%s", "turn": null, "tool_call_id": "x", "attempt": 1}}'
    ) % conversation.encode()
    headers = {name.decode(): value.decode() for name, value in gateway.headers(body, key)}
    async with session.post(url, data=body, headers=headers) as response:
        return await response.json()


async def test_the_ten_lines_place_one_order_when_the_reply_is_lost(
    merchant: Any, gateway: Any, rows: Any, example: Callable[[str], Any]
) -> None:
    """K1-13: on a real socket: the connection breaks after the commit, the customer says yes again."""
    merchant.shop.now = gateway.clock
    faulty = example("faulty")
    app = faulty.Faulty(merchant.app, faulty.scripted({"place_order": [faulty.DROP_REPLY]}))
    async with serve(app) as url, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await post(session, url, gateway, "k1")
        assert len(rows("SELECT id, item, quantity FROM orders")) == 1
        assert (await post(session, url, gateway, "k1")) == {"order_id": 1}
        assert (await post(session, url, gateway, "k2"))["already_done"]
        assert (await post(session, url, gateway, "k3", "c-2")) == {"order_id": 2}
    assert rows("SELECT id, item, quantity FROM orders") == [(1, "pizza", 2), (2, "pizza", 2)]


def test_the_docs_show_the_file_that_is_tested() -> None:
    """README and docs quote it: the quotation is the file, and it has ten lines."""
    source = (ROOT / "examples" / "merchant_ten_lines.py").read_text()
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "merchants.md").read_text(), re.DOTALL)
    assert shown[0] == source
    assert len([line for line in source.splitlines() if line.strip()]) == 10


def test_the_docs_name_only_what_the_sdk_has() -> None:
    """A name in the docs that does not exist costs its reader an hour."""
    text = (ROOT / "docs" / "merchants.md").read_text()
    for name in (
        "issue_token",
        "redeem",
        "request_key",
        "once",
        "CallKey",
        "fingerprint",
        "Refused",
        "NoReply",
        "RequestKey",
        "ReplyBeforeCommit",
    ):
        assert name in text
        assert name in merchant_sdk.__all__
