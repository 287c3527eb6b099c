"""No chance here: short histories in which a gateway is killed, or sleeps past its lease, at every step that it takes,
one after the other; and in which every write to the ledger is lost, before it and after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tests.faults.plan import Ask, Fault, How, On, Plan
from tests.faults.run import Result, run
from tests.faults.shop import RUNS, TOOLS

_RUN_TOOLS: Final = {tool.name for tool in RUNS}
MOST_STEPS: Final = 200


def _first(tool: str) -> Ask:
    return Ask(0.1, 0, "c1", "call_0a", tool, "S0", "t0", 1, 1, "wish 0", tries=4)


def _stories(first: Ask) -> dict[str, tuple[Ask, ...]]:
    stories = {
        "one call": (first,),
        "twins": (first, replace(first, gateway=1, how=How.TWIN)),
        "twins at one gateway": (first, replace(first, how=How.TWIN)),
        "again": (first, replace(first, at=8.0, gateway=1, how=How.AGAIN)),
        "run over": (first, replace(first, at=1.0, call="call_0r", attempt=2, gateway=1, how=How.RERUN)),
    }
    if first.tool not in _RUN_TOOLS:
        stories["issued again"] = (first, replace(first, at=0.5, call="call_0b", step=2, gateway=1, how=How.REISSUED))
    return stories


_REPLIES: Final = ("order", "slow order", "HTTP 422", "HTTP 500 after the work", "connect_failed")
_AT_A_STEP: Final = (
    ("gateway killed", On.STEP, 0.5),
    ("gateway killed", On.STEP, 20.0),
    ("gateway paused", On.STEP, 2.4),
    ("gateway paused", On.STEP, 4.5),
)
_AT_A_WRITE: Final = (
    ("claim not sent", On.CLAIM, 0.0),
    ("claim reply lost", On.CLAIM, 0.0),
    ("claim reply slow", On.CLAIM, 3.4),
    ("claim delivered after its withdrawal", On.CLAIM, 2.0),
    ("settle not sent", On.END, 0.0),
    ("settle reply lost", On.END, 0.0),
    ("binding reply lost", On.BIND, 0.0),
    ("read not sent", On.READ, 0.0),
    ("read reply lost", On.READ, 0.0),
)


def every_step(tools: tuple[str, ...] = tuple(tool.name for tool in TOOLS)) -> Iterator[Result]:
    """Run them all; each kind of fault moves on, step by step, until it comes too late to be met."""
    for tool in tools:
        for name, asks in _stories(_first(tool)).items():
            for reply in _REPLIES:
                said = Fault("slow merchant", On.SEND, 1.0, 0, 0.0, reply)
                for kind, on, amount in (*_AT_A_STEP, *_AT_A_WRITE):
                    for at in range(1, MOST_STEPS):
                        faults = (said, Fault(kind, on, float(at), 0, amount))
                        result = run(Plan(at, f"every step: {name}", True, 2, asks, faults))
                        if not result.faults[kind]:
                            break
                        yield result
