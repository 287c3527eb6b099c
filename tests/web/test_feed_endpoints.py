"""`GET /v1/events/feed` and `/v1/events/seal` on the wire (promise 7.6): the real use case over a ledger in memory."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.conversation import Event, EventLog
from gateway.service.seal_events import SealEvents

DAY_MS = 86_400_000


async def put(gateway: Any, conversation: str, number: int) -> None:
    feed = gateway.services.feed
    log = EventLog("acme", conversation)
    await feed._ledger.append(log, [Event("effect.renewed")] * number, DAY_MS)
    await SealEvents(feed._ledger, feed._seals, gateway.clock, retention_ms=lambda _: DAY_MS).bring_up_to_date(log)


async def test_p7_6_a_feed_is_read_by_its_cursor_and_a_seal_says_how_far_it_goes(gateway: Any) -> None:
    """7.6"""
    empty = await gateway.get("/v1/events/feed?company=acme", key="k-runtime")
    assert (empty.json()["events"], empty.json()["more"]) == ([], False)
    await put(gateway, "c-1", 3)
    await put(gateway, "", 1)
    cursor, told = empty.json()["cursor"], []
    for _ in range(3):
        page = await gateway.get(f"/v1/events/feed?company=acme&limit=2&cursor={cursor}", key="k-runtime")
        told += [(e["conversation"], e["seq"]) for e in page.json()["events"]]
        cursor = page.json()["cursor"]
    assert told == [("c-1", 1), ("c-1", 2), ("c-1", 3), (None, 1)]
    seal = (await gateway.get("/v1/events/seal?company=acme&conversation=c-1", key="k-merchant")).json()
    assert (seal["sealed"], len(seal["head"])) == (3, 64)
    nothing = (await gateway.get("/v1/events/seal?company=acme&conversation=c-2", key="k-merchant")).json()
    assert nothing == {"sealed": 0, "head": None, "at": None}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=yesterday", "since"),
        ("since=2026-05-04T12:00:00", "since"),
        ("since=1066-05-04T12:00:00Z", "since"),
        ("cursor=7", "cursor"),
        ("cursor=1-1:", "cursor"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("conversation=c-1", "conversation"),
    ],
)
async def test_k9_4_a_query_that_no_feed_knows_is_a_400_that_names_the_field(
    gateway: Any, query: str, field: str
) -> None:
    """9.4"""
    answer = await gateway.get(f"/v1/events/feed?company=acme&{query}", key="k-runtime")
    assert answer.status == 400
    assert field in answer.json()["fields"][0]["field"]


@pytest.mark.parametrize("path", ["feed", "seal"])
async def test_p9_1_another_companys_feed_and_seals_are_403(gateway: Any, path: str) -> None:
    """9.1"""
    assert (await gateway.get(f"/v1/events/{path}?company=globex", key="k-runtime")).status == 403
