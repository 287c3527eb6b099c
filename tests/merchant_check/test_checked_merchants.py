"""Whole merchants that pass every fault: the SDK's plain shop, and those in other languages."""

from __future__ import annotations

import base64
import hmac
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from gateway.cli import main

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PLAIN = [sys.executable, str(EXAMPLES / "merchants/plain_shop.py"), "PORT"]
NODE = ["node", str(EXAMPLES / "node_merchant/server.mjs"), "PORT", "FOLDER/orders.jsonl"]
PHP = ["php", "-S", "127.0.0.1:PORT", str(EXAMPLES / "php_merchant/index.php")]


def missing(command: list[str]) -> str:
    """Why a merchant cannot run here, if it cannot."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    if command[0] == "node":
        version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
        return "" if int(version.lstrip("v").partition(".")[0]) >= 18 else f"node is {version.strip()}"
    if command[0] == "php":
        modules = subprocess.run(["php", "-m"], capture_output=True, text=True, check=True).stdout
        return "" if "pdo_sqlite" in modules else "php has no pdo_sqlite"
    return ""


@pytest.mark.parametrize(
    ("command", "env"),
    [(PLAIN, {}), (NODE, {}), (PHP, {"PHP_CLI_SERVER_WORKERS": "8"})],
    ids=["sdk", "node", "php"],
)
def test_a_merchant_that_keeps_the_protocol_passes_every_fault(
    command: list[str],
    env: dict[str, str],
    serve: Callable[..., str],
    careless: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """K7-02, K6-06, K6-07: nothing failed, nothing was left untried."""
    if why := missing(command):
        pytest.skip(why)
    monkeypatch.setenv("SHOP_SECRET", careless.SECRET)
    url = serve(command, **env)
    status = main(
        [
            *("check-merchant", url, "--tool", "place_order", "--arguments", '{"item": "dosa", "quantity": 1}'),
            *("--other-arguments", '{"item": "dosa", "quantity": 2}'),
            *("--declined-arguments", '{"item": "vada", "quantity": 1}'),
            *("--count-tool", "count_orders", "--status-url", f"{url}status", "--settle", "0.02"),
        ]
    )
    text = capfd.readouterr().out
    assert status == 0, text
    assert "0 failed, 0 not tried" in text


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_c2hvcnQ="])
def test_6_1_an_empty_secret_does_not_let_everybody_sign(
    secret: str, serve: Callable[..., str], tmp_path: Path
) -> None:
    """An HMAC under an empty key can be made by anyone: Node's shop does not start, PHP's refuses every call."""
    if not missing(NODE):
        command = [part.replace("PORT", "0").replace("FOLDER", str(tmp_path)) for part in NODE]
        env = os.environ | {"SHOP_SECRET": secret}
        started = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert started.returncode != 0
        assert "SHOP_SECRET holds no signing secret" in started.stderr
    if why := missing(PHP):
        pytest.skip(why)
    body, stamp = b'{"tool":"count_orders","arguments":{},"context":{}}', str(int(time.time()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    forged = "v1," + base64.b64encode(hmac.digest(key, b"id." + stamp.encode() + b"." + body, "sha256")).decode()
    headers = {"webhook-id": "id", "webhook-timestamp": stamp, "webhook-signature": forged}
    request = urllib.request.Request(serve(PHP, SHOP_SECRET=secret), body, headers)
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(request)
    refused.value.close()


@pytest.mark.parametrize("file", ["node_merchant/server.mjs", "php_merchant/index.php"])
def test_an_example_in_another_language_is_read_in_a_minute(file: str) -> None:
    """Under 100 lines."""
    assert len((EXAMPLES / file).read_text("utf-8").splitlines()) < 100


def test_the_node_merchant_survives_a_line_that_was_cut_off(
    serve: Callable[..., str], careless: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not whole was never answered; what was stays."""
    if why := missing(NODE):
        pytest.skip(why)
    monkeypatch.setenv("SHOP_SECRET", careless.SECRET)
    whole = '{"key":"k1","fingerprint":"f","status":200,"reply":"{\\"order_id\\":1}","order":{"item":"dosa","quantity":1}}\n'
    (tmp_path / "orders.jsonl").write_text(whole + '{"key":"k2","fing')
    url = serve(NODE)
    order = ["--tool", "place_order", "--arguments", '{"item": "dosa", "quantity": 1}', "--count-tool", "count_orders"]
    assert main(["check-merchant", url, *order, "--only", "twice", "--settle", "0.01"]) == 0
    lines = (tmp_path / "orders.jsonl").read_text().splitlines(keepends=True)
    assert lines[0] == whole
    assert len(lines) == 3
    assert all(line.endswith("}\n") for line in lines)
