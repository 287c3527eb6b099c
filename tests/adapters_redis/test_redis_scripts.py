"""Scripts: found in the package, and run even where the server has forgotten them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ResponseError

from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_scripts import Script
from gateway.adapters.redis_urls import LedgerUrl

CLAIM = Script("claim", "return redis.call('SET', KEYS[1], ARGV[1], 'NX') and 'granted' or 'taken'")


async def _times_sent(commands: Commands, command: str) -> int:
    lines = (await commands.do("INFO", "commandstats")).decode().splitlines()
    found = [line for line in lines if line.startswith(f"cmdstat_{command}:calls=")]
    return int(found[0].partition("calls=")[2].partition(",")[0]) if found else 0


async def test_k4_09_a_flushed_script_is_sent_in_full_once(commands: Commands) -> None:
    """K4-09: after SCRIPT FLUSH the guard still runs; its text travels once, then its hash again."""
    await commands.do("SCRIPT", "FLUSH")
    assert await CLAIM.run(commands, ["a"], ["1"]) == b"granted"
    assert await CLAIM.run(commands, ["a"], ["2"]) == b"taken"
    await commands.do("SCRIPT", "FLUSH")
    assert await CLAIM.run(commands, ["a"], ["3"]) == b"taken"
    assert await CLAIM.run(commands, ["b"], ["4"]) == b"granted"
    assert await _times_sent(commands, "eval") == 2


async def test_k4_09_a_restarted_server_still_guards(ledger: Any, commands: Commands) -> None:
    """K4-09: the restart forgets the script, not the claim."""
    assert await CLAIM.run(commands, ["a"], ["1"]) == b"granted"
    await ledger.stop()
    await ledger.start()
    assert await CLAIM.run(commands, ["a"], ["2"]) == b"taken"


async def test_p4_14_a_script_and_its_wait_go_together_even_when_forgotten(commands: Commands) -> None:
    """4.14: the WAIT whose count is checked is the one behind the script that ran."""
    for key in ("a", "b"):
        assert await CLAIM.run_before(commands, [key], ["1"], [("WAIT", 0, 10)]) == [b"granted", 0]
    assert await _times_sent(commands, "eval") == 1


@pytest.mark.parametrize("times", [0, 1, 2])
async def test_a_script_is_run_as_often_as_it_is_asked_for_and_no_time_is_no_fault(
    commands: Commands, times: int
) -> None:
    asked = [([f"key {n}"], ["1"]) for n in range(times)]
    assert await CLAIM.run_each(commands, asked) == [b"granted"] * times


async def test_an_error_in_a_script_is_raised(commands: Commands) -> None:
    with pytest.raises(ResponseError, match="in two places"):
        await Script("s", "return redis.error_reply('ERR in two places')").run(commands, [], [])


async def test_scripts_run_on_the_ledger_in_memory() -> None:
    client = open_client(LedgerUrl(kind="memory"))
    front = Commands(client)
    assert await CLAIM.run(front, ["a"], ["1"]) == b"granted"
    assert await CLAIM.run(front, ["a"], ["2"]) == b"taken"
    await front.close()
    await client.aclose()


def test_a_script_is_loaded_from_its_folder_and_named_by_its_hash(tmp_path: Path) -> None:
    (tmp_path / "swap.lua").write_text("return 1 -- ✓\n", encoding="utf-8")
    script = Script.load("swap", tmp_path)
    assert script.source == "return 1 -- ✓\n"
    assert script.sha == hashlib.sha1(script.source.encode()).hexdigest()
    assert "return 1" not in repr(script)


def test_a_missing_script_is_an_error_at_load(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Script.load("absent", tmp_path)


async def test_p7_6_a_script_that_is_run_for_nothing_asks_nothing_and_answers_nothing(commands: Commands) -> None:
    """A pass over event logs with nothing to be sealed is the usual one: it is no fault, and no trip to the server."""
    before = await _times_sent(commands, "evalsha")
    assert await CLAIM.run_each(commands, []) == []
    assert await _times_sent(commands, "evalsha") == before
