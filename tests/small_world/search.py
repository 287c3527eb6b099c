"""Breadth first over everything that can happen, each state once; the first broken promise ends it with a story."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from gateway.core.record import Status
from tests.small_world.story import Broken
from tests.small_world.world import State, World


@dataclass
class Found:
    """`story` is empty where every promise held; else the shortest way to `broken`."""

    states: int = 0
    transitions: int = 0
    ends: int = 0
    """States in which nothing stirs any more."""
    depth: int = 0
    broken: str | None = None
    story: list[str] = field(default_factory=list)


def search(world: World) -> Found:
    """All states that can be reached, or those before the first that breaks a promise."""
    found = Found()
    first = world.start()
    seen: dict[State, int] = {first: 0}
    parents: list[int] = [-1]
    states: list[State] = [first]
    level_ends = 1
    at = 0
    while at < len(states):
        if at == level_ends:
            found.depth += 1
            level_ends = len(states)
        state = states[at]
        stirs = False
        try:
            for _, after in world.next(state):
                found.transitions += 1
                if after == state:
                    continue
                stirs = True
                if after not in seen:
                    seen[after] = len(states)
                    states.append(after)
                    parents.append(at)
            if not stirs:
                found.ends += 1
                world.doing = "nothing stirs any more"
                _check_end(world, state)
        except Broken as broken:
            last = f"{world.doing}: {broken}"
            found.broken = str(broken)
            found.story = [*_story(world, states, parents, at), last]
            break
        at += 1
    found.states = len(states)
    return found


def _check_end(world: World, state: State) -> None:
    for effect in world.ledger.effects(state.contents):
        if effect.status is Status.EXECUTING:
            raise Broken("4.5: at the end of everything a record is still executing")
        if effect.status is Status.AWAITING_APPROVAL and world.situation.approvals:
            raise Broken("7.4: at the end of everything a call still waits for approval")
    if not world.settled(state):
        raise Broken("at the end of everything a request has no answer")


def _story(world: World, states: list[State], parents: list[int], at: int) -> list[str]:
    """How the world came to that state, told from the start."""
    way = [at]
    while parents[way[-1]] >= 0:
        way.append(parents[way[-1]])
    way.reverse()
    told = []
    for before, after in itertools.pairwise(way):
        told.append(next(label for label, state in world.next(states[before]) if state == states[after]))
    return told
