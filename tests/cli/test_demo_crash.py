"""`oncegate demo --crash`: a turn that is killed and run again, as a newcomer sees it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from types import SimpleNamespace

import pytest

from gateway.cli import main
from gateway.commands import demo
from gateway.demo.crash import _verdict
from gateway.demo.processes import GatewayProcess


def test_p7_2_the_demo_kills_an_assistant_and_runs_its_turn_again(capfd):
    """7.2: real processes; nothing done twice, nobody asked twice."""
    assert main(["demo", "--crash", "--ledger", "memory"]) == 0
    out, err = capfd.readouterr()
    first, _, second = out.partition("2. The turn is run again")
    assert first.count("   the model       asked") == 3
    assert "place_order" not in first, "it was killed before it heard of it"
    assert second.count("not asked: its reply is recorded") == 3
    assert second.count("not called: what it gave is recorded") == 2
    assert "place_order     found done: not sent again" in second
    assert "get_menu 1, add_to_cart 1, place_order 1" in second
    assert len(out.splitlines()) < 40, "it is read in a minute"
    assert err == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("flags", [[], ["--crash"]])
def test_a_demo_that_is_ended_takes_what_it_started_with_it(monkeypatch, number, flags):
    """A terminal that closes and a runner that gives up: the gateway, which takes the key dev, would stay."""
    ended = []

    async def story(ledger, say):
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # stopping servers takes turns of the loop
            ended.append(ledger)

    monkeypatch.setattr(demo, "tell", story)
    monkeypatch.setattr(demo, "tell_crash", story)
    assert main(["demo", "--ledger", "memory", *flags]) == 128 + number
    assert ended == ["memory"]


async def test_a_gateway_that_is_given_up_while_it_starts_does_not_stay(monkeypatch):
    gateway = GatewayProcess("memory")
    starting = asyncio.create_task(gateway.start())
    waits = asyncio.Event()

    async def never(_):
        waits.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(GatewayProcess, "_ready", never)
    await waits.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert await gateway.stop() == -signal.SIGKILL


GOOD = Counter(get_menu=1, add_to_cart=1, place_order=1)


@pytest.mark.parametrize(
    ("sends", "orders", "asked", "text", "done"),
    [
        (GOOD, 1, 4, "ok", True),
        (GOOD + Counter(place_order=1), 1, 4, "ok", False),
        (GOOD + Counter(add_to_cart=1), 1, 4, "ok", False),
        (GOOD, 2, 4, "ok", False),
        (GOOD, 0, 4, "ok", False),
        (GOOD, 1, 5, "ok", False),
        (GOOD, 1, 4, "", False),
    ],
)
def test_it_is_done_only_if_everything_happened_once(sends, orders, asked, text, done):
    """The exit status is this verdict."""
    on = SimpleNamespace(orders=lambda: orders, shop=SimpleNamespace(requests=sends))
    said = []
    assert _verdict(on, asked, text, said.append) is done
    assert said[-1].lstrip().startswith("One order." if done else "FAILED")
