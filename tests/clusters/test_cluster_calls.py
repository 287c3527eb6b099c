"""A ledger on a cluster: every command reaches the server that has its keys, also while slots move (4.15)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from cluster_processes import Cluster
from desk import Desk

from gateway.adapters.ledger_keys import BUCKETS, Bucket
from gateway.adapters.redis_cluster import ClusterCommands
from gateway.adapters.redis_documents import RedisDocuments
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_slots import key_slot
from gateway.core import identity
from gateway.core.errors import LedgerUnavailable

Reach = Callable[..., ClusterCommands]
DeskAt = Callable[..., Desk]


def slot_of(conversation: str) -> int:
    return key_slot(Bucket.of(identity.conversation_digest("acme", conversation)).live)


async def test_p4_15_calls_of_all_conversations_are_claimed_settled_and_replayed(three: Cluster, desk_at: DeskAt) -> None:
    """4.15: the ledger works on a cluster; conversations are spread over its servers."""
    desk, conversations = desk_at(three.url), [f"all-{number}" for number in range(24)]
    await asyncio.gather(*(desk.order(each, call) for each in conversations for call in ("a", "b", "a")))
    await desk.check()
    assert desk.refused == []
    assert {three.owner(slot_of(each)) for each in conversations} == set(three.servers)


async def test_p4_15_every_server_with_slots_is_named_with_a_bucket_of_its_own(three: Cluster, reach: Reach) -> None:
    primaries = await reach(three.url).primaries()
    assert {each.name for each in primaries} == {each.name for each in three.servers}
    for each in primaries:
        assert await each.front.do("SET", Bucket(each.bucket).probe, b"1", "PX", 1000) == b"OK"


async def test_p4_15_what_has_fallen_due_and_what_is_unknown_is_found_on_every_server(
    three: Cluster, desk_at: DeskAt
) -> None:
    """4.5, 4.15: the sweep looks into all buckets, wherever they are."""
    desk, found = desk_at(three.url), []
    cursor: str | None = None
    while True:
        page = await desk.ledger.due(3, cursor)
        found += page.effects
        cursor = page.cursor
        if cursor is None:
            break
    assert found == []
    assert (await desk.ledger.unknown("acme", None, 10)).effects == ()
    await desk.ledger.ready()


async def test_p3_8_the_registry_is_kept_on_one_of_the_servers(three: Cluster, reach: Reach) -> None:
    documents = RedisDocuments(reach(three.url))
    before = await documents.version()
    assert await documents.change("clustered", b"1", None)
    assert not await documents.change("clustered", b"2", b"another")
    assert (await documents.load())["clustered"] == b"1"
    assert await documents.change("clustered", None, b"1")
    assert await documents.version() == before + 2


async def test_p4_15_one_server_of_the_cluster_is_enough_to_find_the_others(three: Cluster, desk_at: DeskAt) -> None:
    url = f"redis+cluster://127.0.0.1:1,{three.servers[2].name}"
    desk = desk_at(url)
    await asyncio.gather(*(desk.order(f"one-{number}", "a") for number in range(8)))
    await desk.check()


async def test_p4_11_a_cluster_that_cannot_be_reached_is_an_unavailable_ledger(desk_at: DeskAt) -> None:
    """4.11: nothing was sent, and that is known."""
    with pytest.raises(LedgerUnavailable) as caught:
        await desk_at("redis+cluster://127.0.0.1:1").once("c", "a")
    assert not caught.value.may_have_run


async def test_p4_15_calls_in_a_slot_that_moves_key_by_key_are_refused_or_right(
    three: Cluster, desk_at: DeskAt
) -> None:
    """4.15: while a slot is on its way no call in it is granted twice, no outcome is lost, and after it all is served."""
    desk, conversation = desk_at(three.url), "moving"
    slot = slot_of(conversation)
    source = three.owner(slot)
    target = next(each for each in three.servers if each is not source)
    for call in ("a", "b", "c"):
        await desk.order(conversation, call)
    async with desk.busy([conversation], callers=3):
        three.begin_move(slot, source, target)
        for key in three.keys_in(slot, source):
            three.move_keys(source, target, key)
            await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        while left := three.keys_in(slot, source):
            three.move_keys(source, target, *left)
        three.end_move(slot, source, target)
    await desk.check()
    assert three.owner(slot, target) is target
