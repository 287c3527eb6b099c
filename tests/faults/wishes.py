"""What customers want, as the requests that their assistants make of it: one story a wish, drawn by chance."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.faults.plan import Ask, How
from tests.faults.shop import HOLDS, RUNS, TOOLS


def wishes(rng: random.Random, gateways: int, wanted: int) -> tuple[Ask, ...]:
    asks: list[Ask] = []
    for number in range(wanted):
        story = rng.choices(list(STORIES), list(STORIES.values()))[0]
        first = Ask(
            at=rng.uniform(0, 1.5),
            gateway=rng.randrange(gateways),
            conversation=rng.choice(("c1", "c1", "c2")),
            call=f"call_{number}a",
            tool=rng.choice(TOOLS).name,
            sku=f"S{number}",
            turn=rng.choice((None, f"t{number}", f"t{number}", f"t{number}")),
            step=None,
            attempt=None,
            intent=f"wish {number}",
            tries=rng.choice((1, 3, 4)),
            patience=rng.choice((1.0, 8.0, 8.0)),
        )
        if first.turn is not None and rng.random() < 0.8:
            first = replace(first, step=1, attempt=rng.choice((1, 1, None)))
        asks += [replace(ask, gateway=ask.gateway % gateways) for ask in story(rng, first)]
    return tuple(sorted(asks, key=lambda ask: ask.at))


def once(rng: random.Random, first: Ask) -> list[Ask]:
    return [first]


def twins(rng: random.Random, first: Ask) -> list[Ask]:
    gap = rng.choice((0.0, 0.0, rng.uniform(0, 0.1)))
    return [first, replace(first, at=first.at + gap, gateway=rng.randrange(3), how=How.TWIN)]


def anew(rng: random.Random, first: Ask) -> list[Ask]:
    wait = rng.choice((rng.uniform(0.2, 4), rng.uniform(4, 40), rng.uniform(61, 300)))
    return [first, replace(first, at=first.at + wait, gateway=rng.randrange(3), how=How.AGAIN)]


def reissued(rng: random.Random, first: Ask) -> list[Ask]:
    """The model was told of a failure, or of nothing, and asks for the same again."""
    first = replace(first, tool=rng.choice([t.name for t in HOLDS]))
    step = None
    if first.turn is not None or rng.random() < 0.6:
        first, step = replace(first, turn=first.turn or f"t_{first.call}", step=1, attempt=1), rng.choice((1, 2))
    wait = rng.choice((0.0, rng.uniform(0, 0.3), rng.uniform(0.3, 8), rng.uniform(8, 40)))
    at = first.at + wait
    asks = [first, replace(first, at=at, call=f"{first.call}2", step=step, gateway=rng.randrange(3), how=How.REISSUED)]
    if rng.random() < 0.4:
        asks.append(replace(asks[1], at=at + rng.choice((rng.uniform(1, 30), rng.uniform(61, 120))), how=How.AGAIN))
    return asks


def rerun(rng: random.Random, first: Ask) -> list[Ask]:
    """A turn with one or two calls is run over, from its start, under new ids."""
    first = replace(first, turn=first.turn or f"t_{first.call}", step=1, attempt=1)
    asks = [first]
    if rng.random() < 0.5:
        asks.append(_second_cart(first))
    later = first.at + rng.choice((rng.uniform(0, 0.2), rng.uniform(0.2, 9), rng.uniform(9, 100)))
    again = [
        replace(ask, at=later + n * 0.01, call=f"{ask.call}r", attempt=2, gateway=rng.randrange(3), how=How.RERUN)
        for n, ask in enumerate(asks)
    ]
    if rng.random() < 0.3:
        stray = replace(first, at=later + rng.uniform(0.2, 3), call=f"{first.call}s", step=2, sku=f"{first.sku}s")
        again.append(replace(stray, intent=f"{first.intent}, stray", how=How.SUPERSEDED))
    return asks + again


def _second_cart(first: Ask) -> Ask:
    """Another one in the same reply of the model: two of the same for a tool that runs them, else another thing."""
    same = first.tool in {tool.name for tool in RUNS}
    sku = first.sku if same else f"{first.sku}b"
    return replace(
        first, at=first.at + 0.002, call=f"{first.call}b", sku=sku, intent=f"{first.intent}, second", how=How.SECOND
    )


def carts(rng: random.Random, first: Ask) -> list[Ask]:
    first = replace(
        first, tool=rng.choice([t.name for t in RUNS]), turn=first.turn or f"t_{first.call}", step=1, attempt=1
    )
    return [first, _second_cart(first)]


def _second(rng: random.Random, first: Ask) -> list[Ask]:
    """Long after the first, in a later turn: a second order that is meant."""
    first = replace(first, turn=first.turn or f"t_{first.call}", step=1, attempt=1)
    later = replace(first, at=first.at + rng.uniform(150, 400), call=f"{first.call}l", turn=f"{first.turn}+")
    return [first, replace(later, intent=f"{first.intent}, second", how=How.SECOND)]


def _recycled(rng: random.Random, first: Ask) -> list[Ask]:
    first = replace(first, turn=first.turn or f"t_{first.call}", step=1, attempt=1)
    later = replace(first, at=first.at + rng.uniform(1, 100), turn=f"{first.turn}+", sku=f"{first.sku}x")
    return [first, replace(later, intent=f"{first.intent}, another", how=How.RECYCLED)]


def _recurring(rng: random.Random, first: Ask) -> list[Ask]:
    first = replace(
        first, turn=first.turn or f"t_{first.call}", step=1, attempt=1, tool=rng.choice([t.name for t in HOLDS])
    )
    wait = rng.choice((rng.uniform(1, 50), rng.uniform(100, 400)))
    asks = [first, replace(first, at=first.at + wait, turn=f"{first.turn}+", how=How.RECURRING)]
    if rng.random() < 0.5:
        # Asked again once the hold has expired (7.4).
        asks.append(replace(asks[1], at=asks[1].at + rng.choice((5.0, 950.0)), how=How.AGAIN))
    return asks


def _misused(rng: random.Random, first: Ask) -> list[Ask]:
    wait = rng.choice((0.0, rng.uniform(0.5, 20)))
    other = replace(first, at=first.at + wait, sku=f"{first.sku}m", gateway=rng.randrange(3), how=How.MISUSED)
    return [first, replace(other, intent=f"{first.intent}, misnamed")]


def _nameless(rng: random.Random, first: Ask) -> list[Ask]:
    first = replace(first, call=None, turn=first.turn or f"t_{first.call}", step=1, attempt=1, how=How.NAMELESS)
    again = replace(first, at=first.at + rng.uniform(0, 5), gateway=rng.randrange(3), attempt=rng.choice((1, 2)))
    return [first, again]


STORIES: Final[dict[Callable[[random.Random, Ask], list[Ask]], float]] = {
    once: 2,
    twins: 3,
    anew: 3,
    reissued: 3,
    rerun: 2.5,
    carts: 1,
    _second: 1.5,
    _recycled: 1,
    _recurring: 1.2,
    _misused: 0.8,
    _nameless: 0.6,
}
