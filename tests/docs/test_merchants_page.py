"""docs/merchants.md is true: its steps, run as written, end in a shop that takes orders, and its fragments run."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from merchant_sdk import sign

SECRET, OLD = ("whsec_" + base64.b64encode(32 * byte).decode() for byte in (b"n", b"o"))


@pytest.fixture(autouse=True)
def shop_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    monkeypatch.setenv("TOKEN_SECRET", OLD)
    return tmp_path


def run(source: str) -> dict[str, Any]:
    """A fragment as a module of its own."""
    names: dict[str, Any] = {"__name__": "fragment"}
    exec(compile(source, "docs/merchants.md", "exec", dont_inherit=True), names)
    return names


def call(app: Any, tool: str, arguments: Any, key: str, secret: str = SECRET) -> tuple[int, Any]:
    """What the gateway would send, without a socket."""
    context = {"company": "acme", "conversation": "c-1", "turn": "t-1", "tool_call_id": "x", "attempt": 1}
    body, stamp = json.dumps({"tool": tool, "arguments": arguments, "context": context}).encode(), int(time.time())
    signed = {"webhook-id": key, "webhook-timestamp": str(stamp), "webhook-signature": sign(secret, key, stamp, body)}
    headers = [(name.encode(), value.encode()) for name, value in (signed | {"idempotency-key": key}).items()]
    said: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    asyncio.run(app({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive, send))
    return said[0]["status"], json.loads(said[1]["body"])


def orders(folder: Path) -> list[Any]:
    with closing(sqlite3.connect(folder / "orders.db")) as db:
        return db.execute("SELECT item, quantity FROM orders").fetchall()


def test_the_steps_from_nothing_end_in_a_shop_that_takes_orders(terminal: Any, page: Any) -> None:
    """In order, each block into its terminal, beside a real gateway."""
    merchants = page("docs/merchants.md")
    (ten_lines,) = merchants.blocks("A merchant in ten lines", "python")
    installing, running, checking, registering = merchants.blocks("From nothing")
    environment, *_ = re.findall(r"^\. .*$", installing, re.M)

    terminal.start(f"{environment}\noncegate serve --dev", terminal.gateway)
    made = terminal.run(f"{environment}\noncegate secrets add acme --key dev")
    (secret,) = re.findall(r"^whsec_\S+$", made, re.M)
    (terminal.folder / "merchant_ten_lines.py").write_text(ten_lines)
    assert "'whsec_…'" in running
    terminal.start(f"{environment}\n{running.replace('whsec_…', secret)}", terminal.merchant)

    status, refused = terminal.curl(checking)
    assert (status, refused["error"]["code"]) == (401, "signature_invalid")
    assert "place_order v1: side-effecting" in terminal.run(f"{environment}\n{registering}")
    body = {"company": "acme", "conversation": "c-1", "tool_call_id": "call_1", "tool": "place_order"}
    body["arguments"] = {"item": "dosa", "quantity": 2}
    url = "http://127.0.0.1:8080/v1/calls"
    _, answer = terminal.curl(
        f"curl -s {url} -H 'Authorization: Bearer dev' -H 'Content-Type: application/json' -d '{json.dumps(body)}'"
    )
    assert (answer["status"], answer["result"]) == ("succeeded", {"order_id": 1})
    assert orders(terminal.folder) == [("dosa", 2)]


def test_a_shop_that_takes_several_secrets_answers_to_each(
    page: Any, monkeypatch: pytest.MonkeyPatch, shop_folder: Path
) -> None:
    """The line under "Changing the secret", in place of the one of the ten."""
    merchants = page("docs/merchants.md")
    (ten_lines,) = merchants.blocks("A merchant in ten lines", "python")
    (several,) = merchants.blocks("Changing the secret", "python")
    (one,) = re.findall(r"^shop = .*\n", ten_lines, re.M)
    monkeypatch.setenv("SHOP_SECRET", f"{SECRET} {OLD}")
    app = run(ten_lines.replace(one, several))["app"]
    for number, secret in enumerate((SECRET, OLD), start=1):
        arguments = {"item": f"dosa {number}", "quantity": 1}
        assert call(app, "place_order", arguments, f"k{number}", secret) == (200, {"order_id": number})
    other = "whsec_" + base64.b64encode(b"x" * 32).decode()
    assert call(app, "place_order", {"item": "vada", "quantity": 1}, "k3", other)[0] == 401


def test_the_tool_that_redeems_a_token_sells_once_a_token(page: Any, shop_folder: Path) -> None:
    """The fragment under issued tokens: the same token finds the same order and says how to order again."""
    source, *_ = page("docs/merchants.md").blocks("Which purchase is it?", "python")
    app = run(source)["app"]
    line = {"item": "dosa", "quantity": 2}
    tokens = [call(app, "show_order", line, f"read{number}")[1]["token"] for number in range(2)]
    first = call(app, "place_order", line | {"token": tokens[0]}, "k1")
    assert first == (200, {"order_id": 1})
    _, again = call(app, "place_order", line | {"token": tokens[0]}, "k2")
    assert (again["order_id"], again["already_done"]["order_again"]) == (
        1,
        re.findall(r'order_again="(.*?)"', source)[0],
    )
    assert call(app, "place_order", line | {"token": tokens[1]}, "k3") == (200, {"order_id": 2})
    status, refused = call(app, "place_order", line | {"quantity": 3, "token": tokens[1]}, "k4")
    assert (status, refused["error"]["code"]) == (422, "token_mismatch")
    assert orders(shop_folder) == [("dosa", 2), ("dosa", 2)]


def test_the_command_that_makes_a_token_secret_makes_one(page: Any) -> None:
    """`sign` refuses what is no secret."""
    (command,) = page("docs/merchants.md").blocks("Which purchase is it?")
    (source,) = re.findall(r'-c "(.*)"$', command.strip())
    made = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout.strip()
    assert sign(made, "id", 1, b"").startswith("v1,")


def test_once_without_the_tools_orders_once(page: Any, shop_folder: Path) -> None:
    """The fragment under `once`: by call and by purchase."""
    (source,) = page("docs/merchants.md").blocks("Without the tools: `once`", "python")
    place_order = run(source)["place_order"]
    request = {"arguments": {"item": "dosa", "quantity": 2}, "context": {"conversation": "c-1"}}
    assert place_order("k1", request) == place_order("k1", request) == {"order_id": 1}
    assert place_order("k2", request)["already_done"]
    assert orders(shop_folder) == [("dosa", 2)]


def test_every_fragment_is_one_that_a_test_here_runs(page: Any) -> None:
    """A fragment that nothing runs goes stale."""
    assert page("docs/merchants.md").text.count("```python") == 4
