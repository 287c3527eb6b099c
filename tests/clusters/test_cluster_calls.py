"""A ledger on a cluster: every command reaches the server that has its keys, also while slots move (4.15)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest
from cluster_processes import Cluster, Server
from desk import Desk

from gateway.adapters.ledger_keys import Bucket
from gateway.adapters.redis_cluster import ClusterCommands
from gateway.adapters.redis_documents import RedisDocuments
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_slots import key_slot
from gateway.core import identity
from gateway.core.conversation import Event, EventLog
from gateway.core.decisions import Granted
from gateway.core.errors import LedgerUnavailable
from gateway.core.requests import Lose, where_of

Reach = Callable[..., ClusterCommands]
DeskAt = Callable[..., Desk]


def slot_of(conversation: str) -> int:
    return key_slot(Bucket.of(identity.conversation_digest("acme", conversation)).live)


async def test_p4_15_calls_of_all_conversations_are_claimed_settled_and_replayed(
    three: Cluster, desk_at: DeskAt
) -> None:
    """4.15: the ledger works on a cluster; conversations are spread over its servers."""
    desk, conversations = desk_at(three.url), [f"all-{number}" for number in range(24)]
    await asyncio.gather(*(desk.order(each, call) for each in conversations for call in ("a", "b", "a")))
    await desk.check()
    assert not desk.forgotten
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
    assert not desk.forgotten


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
    assert not desk.forgotten
    assert three.owner(slot, target) is target


@contextmanager
def moving(cluster: Cluster, slot: int, letters: bytes) -> Iterator[tuple[Server, Server]]:
    """A slot that is on its way, keys of these kinds last; it arrives in the end."""
    source = cluster.owner(slot)
    target = next(each for each in cluster.servers if each is not source)
    cluster.begin_move(slot, source, target)
    cluster.move_keys(source, target, *[key for key in cluster.keys_in(slot, source) if key[8:9] not in letters])
    try:
        yield source, target
    finally:
        cluster.move_keys(source, target, *cluster.keys_in(slot, source))
        cluster.end_move(slot, source, target)


@pytest.mark.parametrize(
    "left_behind",
    [b"e", *(pytest.param(letters, marks=pytest.mark.slow) for letters in (b"i", b"lvDU", b"eilpvDU", b""))],
    ids=["record", "id", "indexes", "nearly-all", "nothing"],
)
async def test_p4_15_a_record_that_is_on_its_way_is_never_read_as_absent(
    three: Cluster, desk_at: DeskAt, left_behind: bytes
) -> None:
    """4.15, 4.11: a server that takes a slot over knows nothing of the keys it does not have yet. Whatever is asked, all
    of it is there or it is refused as not having run."""
    desk, conversation = desk_at(three.url), f"half-{left_behind.decode()}"
    await desk.order(conversation, "a")
    running, lost = await desk.once(conversation, "running"), await desk.once(conversation, "lost")
    assert isinstance(running, Granted)
    assert isinstance(lost, Granted)
    await desk.decider.end(Lose(lost.effect.effect_id, lost.effect.tokens[-1], "timeout"), lost.effect)
    # Its keys are all there, and its record is found by following what they say.
    following = msgspec.structs.replace(where_of(running.effect), effects=())
    with moving(three, slot_of(conversation), left_behind):
        refused = await asyncio.gather(
            desk.ledger.read(following),
            desk.ledger.read(where_of(running.effect)),
            desk.once(conversation, "a"),
            desk.once(conversation, "new"),
            desk.ledger.append(
                EventLog(running.effect.company, conversation), [Event("effect.replayed", None, {})], 1000
            ),
            return_exceptions=True,
        )
    assert [type(each) for each in refused] == [LedgerUnavailable] * 5, refused
    assert not any(each.may_have_run for each in refused if isinstance(each, LedgerUnavailable))
    found = await desk.ledger.read(following)
    assert set(found.effects) == {running.effect.effect_id}
    await desk.check()
    assert not desk.forgotten


async def test_p4_15_commands_with_one_key_follow_it_while_its_slot_moves(three: Cluster, reach: Reach) -> None:
    """4.15: ASK is followed, by scripts too, which the other server does not know (NOSCRIPT)."""
    front, bucket = reach(three.url), Bucket(7)
    keys = [bucket.records + bytes([n]) * 16 for n in range(6)]
    for key in keys:
        await front.do("SET", key, b"v")
    with moving(three, key_slot(keys[0]), b"e") as (source, target):
        three.move_keys(source, target, *keys[::2])
        assert [await front.do("GET", key) for key in keys] == [b"v"] * len(keys)
        assert await front.do("GET", bucket.records + b"none") is None
        assert await front.do_together(("GET", keys[1]), ("WAIT", 0, 1)) == [b"v", 0]
        page = await RedisLedger(front).due(10)
        assert page.effects == ()
    assert [await front.do("DEL", key) for key in keys] == [1] * len(keys)
