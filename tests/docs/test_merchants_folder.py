"""docs/merchants/: the five minutes end in an order, and the protocol's bytes are right."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main
from gateway.commands.merchant_check.plan import FAULTS
from gateway.core.outcome import TABLE, OutcomeKind
from gateway.service.declarations import read_tool
from merchant_sdk import verify
from merchant_sdk.wire import Question, parse_call, parse_question

ROOT = Path(__file__).resolve().parents[2]


def test_the_five_minutes_end_in_one_order(terminal: Any, page: Any) -> None:
    """Every block as written, each into its terminal, beside a real gateway."""
    quick = page("docs/merchants/quickstart.md")
    (installing,) = quick.blocks("Install")
    environment, *_ = re.findall(r"^\. .*$", installing, re.M)
    serving, adding = quick.blocks("A gateway to try with")
    terminal.start(serving, terminal.gateway)
    (secret,) = re.findall(r"^whsec_\S+$", terminal.run(adding), re.M)

    (source,) = quick.blocks("The shop", "python")
    (terminal.folder / "shop.py").write_text(source)
    (running,) = quick.blocks("The shop")
    terminal.start(f"{environment}\n{running.replace('whsec_…', secret)}", terminal.merchant)
    (registering,) = quick.blocks("Register it")
    script = registering.replace("whsec_…", secret)
    assert "place_order v1 (new): side-effecting" in terminal.run(script)
    assert "place_order v1 (unchanged): side-effecting" in terminal.run(script)

    ordering, refusing = quick.blocks("Order, twice")
    (_, first), (_, again) = terminal.curl(ordering), terminal.curl(ordering)
    assert (first["status"], first["result"]) == ("succeeded", {"order_id": 1})
    assert (again["decision"], again["result"]) == ("replay", first["result"])
    _, sold_out = terminal.curl(refusing)
    assert sold_out["status"] == "failed"
    assert "vada is sold out" in sold_out["message"]
    with closing(sqlite3.connect(terminal.folder / "orders.db")) as orders:
        assert orders.execute("SELECT item, quantity FROM orders").fetchall() == [("dosa", 2)]
    (checking,) = quick.blocks("See that it holds")
    assert " 0 failed" in terminal.run(f"{environment}\nexport SHOP_SECRET='{secret}'\n{checking}")


def test_the_worked_signature_is_what_its_steps_give(page: Any) -> None:
    """The algorithm as the page tells it, without the SDK; then the SDK on the same bytes."""
    protocol = page("docs/merchants/protocol.md")
    (body,) = protocol.blocks("The request", "json")
    raw = body.rstrip("\n").encode()
    (secret,) = re.findall(r"`(whsec_\S+)`, the body", protocol.section("The signature"))
    headers, signature = protocol.blocks("The signature")
    named = dict(line.split(": ") for line in headers.splitlines())
    signed = f"{named['webhook-id']}.{named['webhook-timestamp']}.".encode() + raw
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert signature.strip() == "v1," + base64.b64encode(digest).decode()
    headers_sent = named | {"webhook-signature": signature.strip()}
    verified = verify([secret], headers_sent, raw, now=int(named["webhook-timestamp"]))
    assert parse_call(verified.id, raw).tool == "place_order"


def test_the_protocols_other_bodies_are_what_the_code_reads(page: Any) -> None:
    """The status question and the registration, as shown."""
    protocol = page("docs/merchants/protocol.md")
    (question,) = protocol.blocks("The status endpoint", "json")
    asked = json.loads(question)
    assert parse_question(question.encode()) == Question(asked["idempotency_key"], asked["first_at"])
    (registration,) = protocol.blocks("Registering", "json")
    assert read_tool(json.loads(registration)).status_endpoint == "https://shop.example/tools/status"


@pytest.mark.parametrize(("kind", "word"), [(OutcomeKind.FAILED, "failed"), (OutcomeKind.NOT_SENT, "not executed")])
def test_the_protocols_statuses_are_the_gateways(page: Any, kind: OutcomeKind, word: str) -> None:
    """Section 5, as the table in code has it."""
    (row,) = re.findall(rf"^\| ([\d,– ]+) \| {word}", page("docs/merchants/protocol.md").text, re.M)
    told: set[int] = set()
    for part in row.split(","):
        low, _, high = part.strip().partition("–")
        told |= set(range(int(low), int(high or low) + 1))
    assert told == {status for each in TABLE if each.kind is kind for status in each.statuses}


def test_every_example_is_on_the_frameworks_page(page: Any) -> None:
    """What is not listed is not found."""
    text = page("docs/merchants/frameworks.md").text
    assert set(re.findall(r"`(\w+_shop\.py)`", text)) == {f.name for f in (ROOT / "examples/merchants").glob("*.py")}


def test_the_check_page_lists_every_fault_and_option(page: Any, capfd: Any) -> None:
    """As the plan has them, in its order; an option that is not there helps nobody."""
    check = page("docs/merchants/check.md")
    listed = re.findall(r"^\| `([\w-]+)` \| (.*?)(?: \(`--.*\))? \|$", check.section("What is tried"), re.M)
    assert listed == [(fault.code, fault.promise) for fault in FAULTS]
    with pytest.raises(SystemExit):
        main(["check-merchant", "--help"])
    told = capfd.readouterr().out
    assert set(re.findall(r"--[a-z][a-z-]+", check.text)) <= set(re.findall(r"--[a-z][a-z-]+", told))
