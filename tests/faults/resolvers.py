"""Those who say how an unknown outcome ended: the merchant's status endpoint (5.4) and an operator (5.5).

The seam for the status endpoint's own service: it will ask and write as `_resolve` does here, over Decider.end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.core.errors import LedgerUnavailable
from gateway.core.record import Effect, Fault, Outcome, Status
from gateway.core.requests import Resolve
from tests.faults.merchant import body_of
from tests.faults.plan import COMPANY
from tests.faults.plan import Fault as Planned
from tests.faults.replies import OK
from tests.faults.shop import RETENTION_S

if TYPE_CHECKING:
    from tests.faults.gateways import Process
    from tests.faults.run import World

KEEP_MS: Final = int(RETENTION_S * 1000)
NOT_EXECUTED: Final = Outcome(Status.FAILED, fault=Fault("not_executed", "The merchant did not carry it out."))
SAID_FAILED: Final = Outcome(Status.FAILED, fault=Fault("operator", "An operator says that it failed."))
SAID_DONE: Final = Outcome(Status.SUCCEEDED, b'{"order": "by hand"}')


async def resolver(world: World, process: Process, planned: Planned) -> None:
    """Look at every unknown outcome once, and say of each what this one says."""
    try:
        page = await process.ledger.unknown(COMPANY, None, 10)
        for effect in page.effects:
            said = _says(world, planned, effect)
            if said is None:
                continue
            await process.clock.sleep(planned.amount)
            await _resolve(world, process, planned, effect, said[0])
    except LedgerUnavailable:
        return


def _says(world: World, planned: Planned, effect: Effect) -> tuple[Outcome | None] | None:
    """What is said of it, in a tuple; None: nothing yet."""
    books, key = world.books, effect.hex
    if planned.kind == "merchant asked about unknown outcomes":
        if books.of(key):
            return (Outcome(Status.SUCCEEDED, body_of(OK, books.of(key)[0])),)
        if books.working.get(key):
            return None  # in_progress
        books.void(key)
        world.say("merchant", f"voids {key[:8]}")
        return (NOT_EXECUTED,)
    what = {
        "says void": NOT_EXECUTED,
        "says committed": SAID_DONE,
        "absent": None,
        "failed": SAID_FAILED,
        "succeeded": SAID_DONE,
    }
    return (what[planned.what],)


async def _resolve(world: World, process: Process, planned: Planned, effect: Effect, outcome: Any) -> None:
    by = "operator" if planned.kind == "operator resolves" else "status endpoint"
    request = Resolve(effect.effect_id, outcome, by, "", KEEP_MS)
    said = "absent" if outcome is None else outcome.status.value
    if planned.kind != "merchant asked about unknown outcomes":
        # Whether it is true is judged when it is written; nobody can hold the gateway to what it was told wrongly.
        world.watch.said_by_hand[effect.hex] = said
    world.say(by, f"says of {effect.hex[:8]}: {said}")
    await process.decider.end(request, effect)
