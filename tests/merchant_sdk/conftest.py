"""What every merchant test needs: a clock it can turn, a gateway that signs, a client without a socket."""

from __future__ import annotations

import base64
import importlib.util
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from merchant_sdk import CallKey, Line, RequestKey, Shop, SQLiteStore, once, request_key, sign

ROOT = Path(__file__).parents[2]
START = 1_796_000_000.0
ORDERS = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, buyer TEXT, item TEXT);"


@dataclass
class Clock:
    at: float = START

    def __call__(self) -> float:
        return self.at


@dataclass
class Response:
    status: int
    body: bytes
    headers: dict[bytes, bytes]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Gateway:
    """Signs and sends as the gateway would; `send` posts any bytes with any headers."""

    secret: str
    clock: Clock
    sent: list[tuple[list[tuple[bytes, bytes]], bytes]] = field(default_factory=list)

    async def call(
        self, app: Any, tool: str, arguments: Any, *, key: str | None, conversation: str = "c-1"
    ) -> Response:
        context = {"company": "acme", "conversation": conversation, "turn": "t-1", "tool_call_id": "x", "attempt": 1}
        body = json.dumps({"tool": tool, "arguments": arguments, "context": context}).encode()
        return await self.send(app, self.headers(body, key), body)

    def headers(self, body: bytes, key: str | None) -> list[tuple[bytes, bytes]]:
        msg_id, stamp = key or "read", int(self.clock())
        signature = sign(self.secret, msg_id, stamp, body)
        signed = {"webhook-id": msg_id, "webhook-timestamp": str(stamp), "webhook-signature": signature}
        signed["content-type"] = "application/json"
        if key is not None:
            signed["idempotency-key"] = key
        return [(name.encode(), value.encode()) for name, value in signed.items()]

    async def send(
        self, app: Any, headers: list[tuple[bytes, bytes]], body: bytes, *, method: str = "POST"
    ) -> Response:
        self.sent.append((headers, body))
        chunks = [body[i : i + 65536] for i in range(0, len(body), 65536)] or [b""]
        messages = [{"type": "http.request", "body": c, "more_body": True} for c in chunks]
        messages[-1]["more_body"] = False
        out: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            out.append(message)

        await app({"type": "http", "method": method, "path": "/tools", "headers": headers}, receive, send)
        whole = b"".join(message.get("body", b"") for message in out[1:])
        return Response(out[0]["status"], whole, dict(out[0]["headers"]))


@pytest.fixture
def secret() -> str:
    return "whsec_" + base64.b64encode(b"the gateway signs with this key.").decode()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gateway(secret: str, clock: Clock) -> Gateway:
    return Gateway(secret, clock)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def store(database: Path) -> SQLiteStore:
    return SQLiteStore(database, schema=ORDERS)


@pytest.fixture
def rows(database: Path) -> Callable[..., list[Any]]:
    """Read the database as a stranger would, past the SDK."""

    def read(sql: str = "SELECT id, buyer, item FROM orders ORDER BY id") -> list[Any]:
        with closing(sqlite3.connect(database)) as db:
            return db.execute(sql).fetchall()

    return read


@pytest.fixture
def shop(store: SQLiteStore, secret: str, clock: Clock) -> Shop:
    """One tool, `place_order(item)`: the buyer is the conversation, twenty minutes are a repeat."""
    shop = Shop(store, secrets=[secret], now=clock)

    def purchase(work: Any, item: str) -> Any:
        buyer = work.call.context.conversation
        return request_key("place_order", buyer=buyer, cart=[Line(item, 1)], window_s=20 * 60)

    @shop.tool(side_effecting=True, key=purchase, order_again="Ask for it again with a new session.")
    def place_order(work: Any, item: str) -> Any:
        buyer = work.call.context.conversation
        row = work.db.execute("INSERT INTO orders (buyer, item) VALUES (?, ?)", (buyer, item))
        return {"order_id": f"O-{row.lastrowid}"}

    return shop


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Load a file of examples/, or the demo shop, by its name, fresh each time."""

    def load(name: str) -> ModuleType:
        folder = ROOT / ("gateway/demo" if name == "shop" else "examples")
        spec = importlib.util.spec_from_file_location(f"example_{name}", folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def place(store: SQLiteStore, clock: Any) -> Callable[..., Any]:
    """Place one order under a call key, a purchase, or both; the committed answer's result."""

    def place(call: str | None = None, purchase: RequestKey | None = None, *, item: str = "pizza") -> Any:
        key = CallKey(call, f"order {item}") if call else purchase
        assert key is not None
        with once(store, key, now=clock) as work:
            bound = call and purchase and work.bind(purchase, order_again="Say so.")
            if not work.done and not bound:
                row = work.db.execute("INSERT INTO orders (buyer, item) VALUES ('b-1', ?)", (item,))
                work.reply({"order_id": f"O-{row.lastrowid}"})
        return work.answer.result

    return place
