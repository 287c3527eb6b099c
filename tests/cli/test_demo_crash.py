"""`oncegate demo --crash`: a turn that is killed and run again, as a newcomer sees it."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from gateway.cli import main
from gateway.demo.crash import _verdict


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
