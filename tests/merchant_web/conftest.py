"""The merchant SDK on real servers: each example in a process of its own, spoken to as the gateway speaks."""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.processes import free_port
from merchant_sdk import sign

ROOT = Path(__file__).resolve().parents[2]
MERCHANTS = ROOT / "examples" / "merchants"
SECRET = "whsec_" + base64.b64encode(b"the gateway signs with this key.").decode()
BOUND_S = 60.0


@dataclass
class Said:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


@dataclass
class Client:
    """Speaks to one server at `port`; `prefix` is where the shop is mounted."""

    port: int
    prefix: str = ""
    log: Path = Path(os.devnull)

    def send(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Said:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND_S)
        try:
            # A server may answer a large body before it has read all of it, and close. What it said then is here all the
            # same: it came before the reset did.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body or None, headers or {})
            answer = connection.getresponse()
            return Said(answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()})
        finally:
            connection.close()

    def signed(self, body: bytes, msg_id: str, *, keyed: bool = True, age_s: int = 0) -> dict[str, str]:
        stamp = int(time.time()) - age_s
        headers = {
            "Content-Type": "application/json",
            "webhook-id": msg_id,
            "webhook-timestamp": str(stamp),
            "webhook-signature": sign(SECRET, msg_id, stamp, body),
        }
        return headers | ({"Idempotency-Key": msg_id} if keyed else {})

    def call(self, tool: str, arguments: Any, key: str, conversation: str = "c-1", *, keyed: bool = True) -> Said:
        context = {"company": "acme", "conversation": conversation, "turn": None, "tool_call_id": "x", "attempt": None}
        body = json.dumps({"tool": tool, "arguments": arguments, "context": context}).encode()
        return self.send("POST", f"{self.prefix}/", body, self.signed(body, key, keyed=keyed))

    def status(self, key: str) -> Said:
        context = {"company": "acme", "conversation": "c-1", "turn": None, "tool_call_id": "x", "attempt": None}
        body = json.dumps({"idempotency_key": key, "tool": "place_order", "context": context}).encode()
        return self.send("POST", f"{self.prefix}/status", body, self.signed(body, f"status_{key}", keyed=False))


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Client]]:
    """Starts servers; they are stopped at the session's end."""
    with ExitStack() as stack:

        def start(command: list[str], prefix: str = "", env: dict[str, str] | None = None) -> Client:
            folder, port = tmp_path_factory.mktemp("shop"), free_port()
            log = stack.enter_context((folder / "server.log").open("w+"))
            child = subprocess.Popen(
                [sys.executable, "-m", *(part.replace("PORT", str(port)) for part in command)],
                cwd=folder,
                env=os.environ
                | {"SHOP_SECRET": SECRET, "SHOP_DATABASE": str(folder / "orders.db"), "PYTHONWARNINGS": "default"}
                | {"PYTHONPATH": f"{ROOT}{os.pathsep}{MERCHANTS}"}
                | (env or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            stack.callback(child.wait, BOUND_S)
            stack.callback(child.terminate)
            client = Client(port, prefix, folder / "server.log")
            deadline = time.monotonic() + BOUND_S
            while True:
                try:
                    client.send("GET", f"{prefix}/health")
                    return client
                except OSError:
                    said = (folder / "server.log").read_text()
                    assert child.poll() is None, said
                    assert time.monotonic() < deadline, said
                    time.sleep(0.02)

        yield start
