"""Operators, who say by hand how an unknown outcome ended, rightly or wrongly (5.5): through the real service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.core.errors import GatewayError, LedgerUnavailable, NotFound, NotIndeterminate
from gateway.core.model import Principal, Role
from gateway.core.record import UNENDING, Effect, Fault
from gateway.service.declarations import Resolution
from tests.faults.plan import COMPANY
from tests.faults.plan import Fault as Planned

if TYPE_CHECKING:
    from tests.faults.gateways import Process
    from tests.faults.run import World

OPERATOR: Final = Principal("op", Role.OPERATOR, frozenset({COMPANY}), "k2")
BY_HAND: Final = "operator resolves"
FAILED: Final = Fault("not_executed", "An operator says that it failed.")
DONE: Final = b'{"order": "by hand"}'


async def resolver(world: World, process: Process, planned: Planned) -> None:
    """Say of each outcome that is unknown, or that one has heard of and whose call still runs, what this one says."""
    try:
        listed = [effect.effect_id for effect in await _listed(process)]
    except LedgerUnavailable:
        return
    heard_of = [effect.effect_id for effect in world.ledger.effects() if effect.status in UNENDING]
    await process.clock.sleep(planned.amount)
    for effect_id in dict.fromkeys((*listed, *heard_of)):
        effect = world.ledger.effect(effect_id)
        if effect is not None:
            await _resolve(world, process, planned, effect)


async def _listed(process: Process) -> list[Effect]:
    """The list of what is unknown, page by page."""
    found: list[Effect] = []
    page = await process.ledger.unknown(COMPANY, None, 10)
    while True:
        found += page.effects
        if page.cursor is None:
            return found
        page = await process.ledger.unknown(COMPANY, page.cursor, 10)


async def _resolve(world: World, process: Process, planned: Planned, effect: Effect) -> None:
    said = Resolution(
        COMPANY,
        effect.conversation,
        planned.what,  # type: ignore[arg-type]
        "asked the merchant",
        DONE if planned.what == "succeeded" else None,
        FAILED if planned.what == "failed" else None,
    )
    before = world.watch.said_wrongly.get(effect.hex)
    # Whether it is true is judged when it is written; nobody can hold the gateway to what it was told wrongly.
    world.watch.said_wrongly[effect.hex] = BY_HAND
    world.say("operator", f"says of {effect.hex[:8]}: {planned.what}")
    lapsed = effect.lapsed(world.clock())
    try:
        await process.resolve(OPERATOR, effect.hex, said)
    except LedgerUnavailable:
        return
    except (NotIndeterminate, NotFound) as refused:
        world.say("operator", f"is told: {refused.message}")
        world.watch.not_resolved(effect, refused, lapsed=lapsed)
        if before is None:
            world.watch.said_wrongly.pop(effect.hex)
        return
    except GatewayError as problem:
        world.watch.broke("8", f"{effect.hex[:8]} cannot be resolved: {problem.code}")
