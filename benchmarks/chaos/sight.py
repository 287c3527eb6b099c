"""All that a block of the run left behind, gathered from the merchants' databases and the gateway's API."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.chaos.plan import Ask, Intent
from benchmarks.chaos.traffic import Answer
from benchmarks.chaos.world import Direct, World

Row = dict[str, Any]
_PAGE = 500
_ANSWERED_AND_NOTHING_DONE = frozenset({401, 403, 425, 429})


@dataclass(slots=True)
class Sight:
    """`records` and `unknown` by effect id; `events`, `early` (before anything was asked again) and `seals` by
    conversation."""

    asks: list[Ask] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    arrivals: list[Row] = field(default_factory=list)
    orders: list[Row] = field(default_factory=list)
    records: dict[str, Row] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    events: dict[str, list[Row]] = field(default_factory=dict)
    early: dict[str, list[Row]] = field(default_factory=dict)
    seals: dict[str, Row] = field(default_factory=dict)

    @property
    def intents(self) -> list[Intent]:
        return list(dict.fromkeys(ask.intent for ask in self.asks))

    def answers_by_intent(self) -> dict[Intent, list[Answer]]:
        found: dict[Intent, list[Answer]] = defaultdict(list)
        for answer in sorted(self.answers, key=lambda each: each.heard):
            found[answer.ask.intent].append(answer)
        return found


def name_of(arrival: Row) -> str:
    """The intent that a merchant's row belongs to."""
    return (
        str(arrival["name"])
        if "name" in arrival
        else str(arrival["arguments"]).partition('"order": "')[2].split('"')[0]
    )


def counts(arrival: Row) -> bool:
    """Whether a request that reached a merchant may have been carried out: not if it said no, or not now."""
    status = arrival["status"]
    return status is None or not (400 <= status < 500)


def put_off(arrival: Row) -> bool:
    """Answered as a merchant does that has done nothing and may be asked again."""
    return arrival["status"] in _ANSWERED_AND_NOTHING_DONE


def conversations(asks: Iterable[Ask]) -> list[tuple[str, str]]:
    """Every (company, conversation): companies keep what is said to them apart."""
    return list(dict.fromkeys((ask.intent.terms.company, ask.intent.conversation) for ask in asks))


async def events_of(api: Direct, asks: Iterable[Ask]) -> dict[str, list[Row]]:
    """All events, by "company/conversation"."""

    async def one(company: str, conversation: str) -> list[Row]:
        found: list[Row] = []
        while True:
            after = found[-1]["seq"] if found else 0
            query = {"company": company, "conversation": conversation, "limit": _PAGE, "after": after}
            # As numbers: what is verified has to be what was sealed.
            page = (await api.ask("GET", "/v1/events", None, floats=float, **query))["events"]
            found += page
            if len(page) < _PAGE:
                return found

    places = conversations(asks)
    read = await asyncio.gather(*(one(*place) for place in places))
    return {"/".join(place): events for place, events in zip(places, read, strict=True)}


async def seals_of(api: Direct, asks: Iterable[Ask]) -> dict[str, Row]:
    """All seals, by "company/conversation"."""
    places = conversations(asks)
    asked = (api.ask("GET", "/v1/events/seal", None, company=c, conversation=name) for c, name in places)
    return {"/".join(place): seal for place, seal in zip(places, await asyncio.gather(*asked), strict=True)}


async def look(world: World, api: Direct, asks: list[Ask], answers: list[Answer], early: dict[str, list[Row]]) -> Sight:
    """Read everything about these asks; `early`: their events before they were asked again."""
    sight = Sight(asks, answers, early=early)
    ids = dict.fromkeys((ask.intent.terms.company, ask.intent.conversation, ask.tool_call_id) for ask in asks)

    async def records(company: str, conversation: str, tool_call_id: str) -> list[Row]:
        query = {"company": company, "conversation": conversation, "tool_call_id": tool_call_id}
        found: list[Row] = (await api.ask("GET", "/v1/calls", None, **query))["calls"]
        return found

    for found in await asyncio.gather(*(records(*each) for each in ids)):
        sight.records |= {record["effect_id"]: record for record in found}
    sight.seals = await seals_of(api, asks)  # before the events: both only grow
    sight.events = await events_of(api, asks)
    mine = {ask.intent.conversation for ask in asks}
    for company, merchant in world.merchants.items():
        sight.arrivals += [row for row in merchant.rows("arrivals") if row["conversation"] in mine]
        sight.orders += [row | {"company": company} for row in merchant.rows("orders") if row["conversation"] in mine]
        cursor: dict[str, str | int] = {}
        while True:
            page = await api.ask("GET", "/v1/calls", None, company=company, status="indeterminate", limit=100, **cursor)
            sight.unknown |= {row["effect_id"] for row in page["calls"] if row["conversation"] in mine}
            if page["cursor"] is None:
                break
            cursor = {"cursor": page["cursor"]}
    return sight
