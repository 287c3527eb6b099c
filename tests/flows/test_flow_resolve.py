"""An unknown outcome of a real gateway, resolved at a terminal and over HTTP (5.5, K3-01, K1-14)."""

from __future__ import annotations

import asyncio
import sys

from flow_client import Api
from flow_merchant import RawMerchant, reply
from flow_processes import GatewayProcess


async def oncegate(gateway: GatewayProcess, *arguments: str) -> tuple[int, str]:
    """The command line against that gateway: exit status, and all that it says."""
    command = [sys.executable, "-m", "gateway.cli", *arguments, "--url", gateway.url, "--key", "dev"]
    running = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await running.communicate()
    assert running.returncode is not None
    return running.returncode, said.decode()


async def test_k3_01_an_operator_finds_the_order_and_repeats_return_it(
    shop: Api, merchant: RawMerchant, gateway: GatewayProcess
) -> None:
    """K3-01, K1-14, 5.5, 2.10: digit for digit, said twice, and refused where it says otherwise."""
    merchant.answers(reply({"error": "busy"}, status=503))
    unknown = await shop.call("u1")
    assert unknown.json["status"] == "indeterminate"
    effect = unknown.json["effect_id"]
    command = ["calls", "resolve", shop.company, "c-1", effect, "--note", "found it"]
    result = '{"order":"O-1","paid":12345678901234567890.10}'
    for _ in range(2):
        status, said = await oncegate(gateway, *command, "--succeeded", result)
        assert (status, said) == (0, f"place_order  u1  succeeded  (effect {effect})\n")
    status, said = await oncegate(gateway, *command, "--absent")
    assert status == 1
    assert "409 not_indeterminate" in said
    for _ in range(3):
        repeat = await shop.call("u1")
        assert repeat.decision == "replay"
        assert f'"result":{result}'.encode() in repeat.raw
    assert merchant.hits == 1
    resolved = [event for event in await shop.events() if event["type"] == "effect.resolved"]
    assert [(event["outcome"], event["by"], event["note"]) for event in resolved] == [("succeeded", "dev", "found it")]


async def test_p5_5_what_is_resolved_as_absent_runs_anew_under_its_key(shop: Api, merchant: RawMerchant) -> None:
    """5.5, 2.4, 4.7"""
    merchant.answers(reply({"error": "busy"}, status=503))
    effect = (await shop.call("u1")).json["effect_id"]
    assert (await shop.call("u2")).json["error"]["code"] == "prior_outcome_unknown"
    body = {"company": shop.company, "conversation": "c-1", "outcome": "absent", "note": "no such order"}
    answer = await shop.send("POST", f"/v1/effects/{effect}/resolve", body)
    assert (answer.status, answer.json["status"]) == (200, "absent")
    merchant.answers(reply({"order": "O-1"}))
    again = await shop.call("u1")
    assert (again.decision, again.json["status"], again.json["effect_id"]) == ("proceed", "succeeded", effect)
    assert merchant.hits == 2
    assert await shop.unknown() == []
