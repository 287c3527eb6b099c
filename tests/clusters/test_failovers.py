"""A replica takes over, in a cluster and behind sentinels, while calls go on: nothing is granted twice (4.14, 4.15)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest
from cluster_processes import Cluster, Server, Watched, until
from desk import Desk

from gateway.adapters.ledger_keys import Bucket
from gateway.adapters.redis_slots import key_slot
from gateway.core import identity

pytestmark = pytest.mark.slow

DeskAt = Callable[..., Desk]
CONVERSATIONS = [f"c-{number}" for number in range(16)]


def slot_of(conversation: str) -> int:
    return key_slot(Bucket.of(identity.conversation_digest("acme", conversation)).live)


async def waited(condition: Callable[[], object], what: str) -> None:
    await asyncio.to_thread(until, condition, what)


async def placed(desk: Desk, more: int) -> None:
    """So many more orders are placed, so that something is under way."""
    async with asyncio.timeout(60):
        goal = len(desk.outcomes) + more
        while len(desk.outcomes) < goal:  # noqa: ASYNC110 (it is about other tasks and processes)
            await asyncio.sleep(0.01)


async def test_p4_14_a_primary_of_a_cluster_dies_and_no_claim_is_forgotten(six: Cluster, desk_at: DeskAt) -> None:
    """4.14, 4.15: with a replica to each claim, whatever was granted is found at the replica that takes over."""
    desk = desk_at(six.url, replicas=1)
    dead = six.owner(slot_of(CONVERSATIONS[0]))
    heir, other = six.replicas_of(dead)[0], next(each for each in six.servers[:3] if each is not dead)
    async with desk.busy(CONVERSATIONS):
        await placed(desk, 200)
        dead.kill()
        await waited(lambda: six.owner(slot_of(CONVERSATIONS[0]), other) is heir, "the replica has taken over")
        heir.tell("CONFIG", "SET", "repl-diskless-sync-delay", 0)
        dead.start()  # until it is a replica again, nobody can confirm a claim
        await waited(lambda: dead.info("replication")["master_link_status"] == "up", "the old one is a replica")
        await placed(desk, 200)
    print(
        f"\nkilled primary: {len(desk.outcomes)} orders, longest gap {desk.gap_s():.1f} s, {len(desk.refused)} refused"
    )
    await desk.check()
    assert dead.info("replication")["role"] == "slave"


async def test_p4_15_the_other_conversations_of_a_cluster_go_on_while_one_primary_is_away(
    six: Cluster, desk_at: DeskAt
) -> None:
    """4.15: without a server only its own conversations are refused, as not sent; they are served again by its heir."""
    desk = desk_at(six.url)
    dead = six.owner(slot_of(CONVERSATIONS[0]))
    theirs = [each for each in CONVERSATIONS if six.owner(slot_of(each)) is dead]
    others = [each for each in CONVERSATIONS if each not in theirs]
    for each in CONVERSATIONS:
        await desk.order(each, "before")
    dead.signal(signal.SIGSTOP)  # it hangs: connections stay, nothing is answered
    try:
        heirs = asyncio.gather(*(desk.order(each, "meanwhile") for each in theirs))
        for number in range(20):
            await asyncio.gather(*(desk.order(each, f"while-{number}") for each in others))
        await heirs
    finally:
        dead.signal(signal.SIGCONT)
    await waited(lambda: dead.info("replication")["role"] == "slave", "the old one is a replica")
    await desk.check()


async def test_p4_15_a_failover_by_hand_takes_no_call_with_it(six: Cluster, desk_at: DeskAt) -> None:
    """4.15: CLUSTER FAILOVER hands over between two commands; MOVED is followed."""
    desk = desk_at(six.url, replicas=1)
    async with desk.busy(CONVERSATIONS):
        for head in six.servers[:3]:
            heir = six.replicas_of(head)[0]
            await placed(desk, 50)
            heir.tell("CLUSTER", "FAILOVER")
            await waited(lambda heir=heir: heir.info("replication")["role"] == "master", "the replica has taken over")
            await waited(lambda head=head: head.info("replication")["role"] == "slave", "the old one follows")
            await placed(desk, 50)
    await desk.check()
    assert not desk.forgotten


async def test_p4_15_slots_move_one_after_the_other_under_load(six: Cluster, desk_at: DeskAt) -> None:
    """4.15: every conversation's slot is moved to another server, key by key, while calls are made in it."""
    desk = desk_at(six.url, replicas=1)
    async with desk.busy(CONVERSATIONS):
        for slot in sorted({slot_of(each) for each in CONVERSATIONS}):
            source = six.owner(slot)
            target = next(each for each in six.servers[:3] if each is not source)
            await placed(desk, 20)
            six.begin_move(slot, source, target)
            while keys := six.keys_in(slot, source):
                six.move_keys(source, target, *keys[:10])
                await asyncio.sleep(0)
            six.end_move(slot, source, target)
    await desk.check()
    assert not desk.forgotten


async def test_p4_14_sentinels_name_another_primary_and_no_claim_is_forgotten(
    watched: Watched, desk_at: DeskAt
) -> None:
    """4.14, 4.15: the primary is killed; the one that is named instead has every claim, and the old one, back as a
    replica, is not written to."""
    desk, dead = desk_at(watched.url, replicas=2), watched.servers[0]
    async with desk.busy(CONVERSATIONS):
        await placed(desk, 200)
        dead.kill()
        await waited(lambda: watched.primary() is not dead, "another primary is named")
        heir = watched.primary()
        dead.start()
        await waited(lambda: _follows(dead, heir), "the old one is a replica")
        await placed(desk, 200)
    await desk.check()


async def test_p4_15_a_primary_that_hangs_is_given_up_for_the_one_that_sentinels_name(
    watched: Watched, desk_at: DeskAt
) -> None:
    """4.15: when it goes on, it is told that it is a replica and takes no writes (READONLY); and one sentinel may be
    away meanwhile."""
    desk, hung = desk_at(watched.url), watched.servers[0]
    for each in CONVERSATIONS:
        await desk.order(each, "before")
    silent = watched.sentinels[0]
    hung.signal(signal.SIGSTOP)
    try:
        await waited(lambda: watched.primary() is not hung, "another primary is named")
        silent.signal(signal.SIGSTOP)
        await asyncio.gather(*(desk.order(each, "meanwhile") for each in CONVERSATIONS))
    finally:
        hung.signal(signal.SIGCONT)
        silent.signal(signal.SIGCONT)
    await waited(lambda: _follows(hung, watched.primary()), "the old one is a replica")
    await desk.check()


async def test_p4_15_a_failover_of_sentinels_by_hand(watched: Watched, desk_at: DeskAt) -> None:
    """4.14, 4.15: SENTINEL FAILOVER under load, twice. A claim that one of two replicas confirmed could be forgotten: the
    other one may be named, and the old primary goes on taking writes until it is told."""
    desk = desk_at(watched.url, replicas=2)
    async with desk.busy(CONVERSATIONS):
        for _ in range(2):
            await placed(desk, 100)
            before = watched.primary()
            watched.sentinels[0].tell("SENTINEL", "FAILOVER", Watched.SERVICE)
            await waited(lambda before=before: watched.primary() is not before, "another primary is named")
            await waited(lambda before=before: _follows(before, watched.primary()), "the old one follows")
            await placed(desk, 100)
    await desk.check()


def _follows(server: Server, primary: Server) -> bool:
    facts = server.info("replication")
    return facts["role"] == "slave" and facts["master_port"] == primary.port and facts["master_link_status"] == "up"
