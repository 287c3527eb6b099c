"""A shop of the SDK behind a real gateway: registered from its own code, and every unknown outcome settled by it."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from flow_client import Api
from flow_processes import START_S, GatewayProcess, clean_environment

from benchmarks.processes import free_port

ROOT = Path(__file__).resolve().parents[2]

SHOP = '''
import asyncio, os
from typing import Annotated
from merchant_sdk import Arg, Refused, Shop

SCHEMA = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)"
shop = Shop(os.environ["SHOP_DATABASE"], secrets=os.environ["SHOP_SECRET"].split(), schema=SCHEMA)
faults = []


def may_order(work, item):
    if item == "caviar":
        raise Refused("not_yours", "Caviar is for members.", status=402)


@shop.tool(authorise=may_order)
def place_order(work, item: Annotated[str, Arg("What to order", min_length=1)]):
    """Order an item."""
    return {"order_id": work.db.execute("INSERT INTO orders (item) VALUES (?)", (item,)).lastrowid}


honest = shop.asgi()


async def app(scope, receive, send):
    """The item names what happens to the reply, or to the request on its way."""
    if scope["type"] != "http" or scope["path"].endswith(("/status", "/health")):
        return await honest(scope, receive, send)
    message = await receive()
    body = message["body"]

    async def again():
        return message

    async def half(sent):
        if sent["type"] == "http.response.start":
            await send(sent)

    if b"lost-before" in body:
        raise ConnectionError("the request never reached the shop")
    if b"lost-reply" in body:
        await honest(scope, again, half)
        raise ConnectionError("the reply is lost")
    await honest(scope, again, send)
'''


@pytest.fixture
def serve_shop(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    with ExitStack() as stack:

        def start(secret: str) -> str:
            (tmp_path / "shop.py").write_text(SHOP)
            port = free_port()
            log = stack.enter_context((tmp_path / "shop.log").open("w"))
            child = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "--port", str(port), "shop:app"],
                cwd=tmp_path,
                env=environment(tmp_path, secret),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            stack.callback(child.wait)
            stack.callback(child.kill)
            deadline = time.monotonic() + START_S
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        return f"http://127.0.0.1:{port}/tools"
                assert child.poll() is None, (tmp_path / "shop.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)

        yield start


def environment(folder: Path, secret: str) -> dict[str, str]:
    path = {"PYTHONPATH": str(ROOT), "SHOP_DATABASE": str(folder / "orders.db"), "SHOP_SECRET": secret}
    return clean_environment() | path | {"PATH": os.environ["PATH"]}


async def register(folder: Path, secret: str, gateway: GatewayProcess, *more: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "gateway.cli", "tools", "register", "--url", gateway.url, "--key", "dev", *more]
    ran = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment(folder, secret),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await ran.communicate()
    return ran.returncode or 0, out.decode(), err.decode()


def orders(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "orders.db")) as db:
        return int(db.execute("SELECT count(*) FROM orders").fetchone()[0])


async def test_p5_4_every_unknown_outcome_settles_by_the_sdks_status_endpoint(
    api: Api, gateway: GatewayProcess, serve_shop: Any, tmp_path: Path, eventually: Any
) -> None:
    """5.4, 3.5, K7-03: registered twice from its code; a lost reply ends as done, a lost request as not executed, a
    refusal in the merchant's words."""
    secret = (await api.send("POST", f"/v1/companies/{api.company}/secrets")).json["secret"]
    endpoint = serve_shop(secret)
    which = ("--from", "shop:shop", "--company", api.company, "--endpoint", endpoint)
    status, said, wrong = await register(tmp_path, secret, gateway, *which)
    assert (status, wrong) == (0, "")
    assert said.startswith("place_order v1 (new): side-effecting: ")
    status, said, _ = await register(tmp_path, secret, gateway, *which)
    assert said.startswith("place_order v1 (unchanged): ")

    done = await api.call("ok", arguments={"item": "dosa"})
    assert done.shown == ("succeeded", {"order_id": 1}, None)
    refused = await api.call("members", arguments={"item": "caviar"})
    assert refused.json["status"] == "failed"
    assert "Caviar is for members." in refused.json["message"]
    for call, item in (("a", "lost-reply"), ("b", "lost-before")):
        assert (await api.call(call, arguments={"item": item})).json["status"] == "indeterminate"

    async def settled() -> bool:
        return not await api.unknown()

    await eventually(settled)
    assert (await api.call("a", arguments={"item": "lost-reply"})).shown == ("succeeded", {"order_id": 2}, None)
    voided = await api.call("b", arguments={"item": "lost-before"})
    assert (voided.json["status"], voided.json["error"]["code"]) == ("failed", "not_executed")
    assert orders(tmp_path) == 2


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--from", "shop"], "MODULE:NAME"),
        (["--from", "shop:shop", "--endpoint", "http://127.0.0.1:1/"], "which company"),
        (["--from", "shop:shop", "--company", "acme"], "--endpoint URL"),
        (
            ["--from", "shop:faults", "--company", "acme", "--endpoint", "http://127.0.0.1:1/"],
            "such as --from shop:shop",
        ),
        (["--from", "nothing:shop", "--company", "acme"], "cannot be imported: ModuleNotFoundError"),
        (["--from", "nothing:shop", "--company", "acme"], "there is no nothing.py in "),
        (["--from", "shop.py:shop", "--company", "acme"], "named without .py: --from shop:NAME"),
        (["--from", "needy:shop", "--company", "acme"], "install here what the shop needs"),
        (["--from", "shop:shop", "--company", "acme", "--endpoint", "127.0.0.1:1"], "--endpoint is a whole URL"),
    ],
)
async def test_3_5_what_cannot_be_registered_is_told_in_a_line(
    gateway: GatewayProcess, tmp_path: Path, more: list[str], told: str
) -> None:
    """3.5: exit status 1 and what to do, never a trace."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "needy.py").write_text("import a_library_that_is_not_there")
    secret = "whsec_" + "A" * 43 + "="
    status, said, wrong = await register(tmp_path, secret, gateway, *more)
    assert (status, said) == (1, "")
    assert told in wrong
    assert wrong.count("\n") == 1
