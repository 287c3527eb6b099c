"""A claim waits until as many servers hold it as were asked for, or it is no claim (4.14)."""

from __future__ import annotations

import signal
from typing import Any

import msgspec
import pytest

from gateway.adapters.claim_wait import ClaimWait
from gateway.adapters.redis_ledger import RedisLedger
from gateway.core.conversation import View, Where, Writes
from gateway.core.errors import LedgerUnavailable
from gateway.core.identity import Kind
from gateway.core.record import FORMAT, Effect, Mode, Outcome, Status

REPLICA = ClaimWait(1, False, 0.2)
DISK = ClaimWait(0, True, 5.0)
WHERE = Where(conversation=b"c" * 32, fingerprint=b"f" * 32)
APPLIED = b"*2\r\n:1\r\n:1790000000000\r\n"
LOOKED = b"*4\r\n:0\r\n:1790000000000\r\n:0\r\n$0\r\n\r\n"


def effect(number: int = 1, status: Status = Status.EXECUTING) -> Effect:
    return Effect(
        format=FORMAT,
        effect_id=bytes([number]) * 32,
        company="acme",
        conversation="c-1",
        kind=Kind.TOOL_CALL,
        target="place_order",
        fingerprint=b"f" * 32,
        tool_call_id="call_1",
        turn=None,
        step=None,
        attempt=1,
        occurrence=0,
        fields={},
        mode=Mode.AT_MOST_ONCE,
        tool_version=1,
        endpoint="https://shop.example/",
        status=status,
        tokens=(b"t",),
        lease_ms=15_000,
        outcome=None if status is Status.EXECUTING else Outcome(status),
    )


def claim(number: int = 1) -> Writes:
    return Writes(effects={effect(number).effect_id: effect(number)}, keep_ms=86_400_000)


SETTLE = Writes(effects={effect(9).effect_id: effect(9, Status.SUCCEEDED)}, keep_ms=86_400_000)


@pytest.mark.parametrize(
    ("wait", "command"),
    [
        (ClaimWait(2, False, 1.0), ("WAIT", 2, 1000)),
        (ClaimWait(0, True, 0.25), ("WAITAOF", 1, 0, 250)),
        (ClaimWait(1, True, 2.0), ("WAITAOF", 1, 1, 2000)),
        (ClaimWait(1, False, 0.0001), ("WAIT", 1, 1)),
    ],
)
def test_p4_14_what_is_asked_for_is_one_command_that_never_waits_for_ever(wait: ClaimWait, command: Any) -> None:
    """4.14: a timeout of 0 has no end in Redis."""
    assert wait.command == command


@pytest.mark.parametrize(
    ("wait", "reply", "missing"),
    [
        (ClaimWait(1, False, 1.0), 1, ""),
        (ClaimWait(1, False, 1.0), 3, ""),
        (ClaimWait(2, False, 1.0), 1, "after 1 s 1 of 2 replicas had it"),
        (ClaimWait(0, True, 1.0), [1, 0], ""),
        (ClaimWait(0, True, 1.0), [0, 0], "after 1 s the server had not synced it to disk"),
        (ClaimWait(1, True, 1.0), [1, 0], "after 1 s 0 of 1 replicas had it on disk"),
        (
            ClaimWait(2, True, 0.5),
            [0, 1],
            "after 0.5 s the server had not synced it to disk and 1 of 2 replicas had it on disk",
        ),
        (ClaimWait(1, False, 1.0), b"OK", "WAIT was not answered with a count"),
        (ClaimWait(1, False, 1.0), None, "WAIT was not answered with a count"),
        (ClaimWait(1, True, 1.0), 1, "WAITAOF was not answered with a count"),
        (ClaimWait(1, True, 1.0), [1], "WAITAOF was not answered with a count"),
    ],
)
def test_p4_14_redis_counts_also_when_the_time_is_up_so_the_count_is_what_is_read(
    wait: ClaimWait, reply: object, missing: str
) -> None:
    """4.14: anything that is no count confirms nothing."""
    assert wait.missing(reply) == missing


def answering(stub: Any, swap: bytes, wait: bytes) -> None:
    stub.answer = lambda command: swap if command[0] in (b"EVALSHA", b"EVAL") else wait


async def test_p4_14_without_waiting_a_claim_is_one_command(stub: Any, to_stub: Any) -> None:
    """4.14, 4.10"""
    answering(stub, APPLIED, b"-ERR not asked for\r\n")
    assert (await RedisLedger(to_stub()).swap(WHERE, View(), claim())).applied
    assert [command[0] for command in stub.seen] == [b"EVALSHA"]


CONFIRM = Writes(effects={effect(1).effect_id: msgspec.structs.replace(effect(1), claimed_at=1)}, confirms=True)
"""A claim that stands, asked for again under its token."""


@pytest.mark.parametrize(
    ("writes", "sent"),
    [(claim(), [b"EVALSHA", b"WAIT"]), (CONFIRM, [b"EVALSHA", b"WAIT"]), (SETTLE, [b"EVALSHA"])],
)
async def test_p4_14_only_a_claim_waits_on_its_own_connection(
    stub: Any, to_stub: Any, writes: Writes, sent: list[bytes]
) -> None:
    """4.14: a settle that a failover loses leaves a claim that lapses to unknown; nothing is sent again for it."""
    answering(stub, APPLIED, b":1\r\n")
    assert (await RedisLedger(to_stub(), wait=REPLICA).swap(WHERE, View(), writes)).applied
    assert [command[0] for command in stub.seen] == sent
    assert stub.connections == 1


@pytest.mark.parametrize(
    "reply",
    [
        b":0\r\n",
        b"$-1\r\n",
        b"-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n",
        b"-ERR WAIT cannot be used with replica instances.\r\n",
        b"-NOPERM this user has no permissions to run the 'wait' command\r\n",
        b"-ERR unknown command 'WAIT'\r\n",
    ],
    ids=lambda reply: reply.split()[0].decode(),
)
async def test_p4_14_a_claim_that_is_not_confirmed_may_stand_and_is_no_claim(
    stub: Any, to_stub: Any, reply: bytes
) -> None:
    """4.14: too few, or a server that is demoted while it waits: it has to be withdrawn, whatever was said."""
    answering(stub, APPLIED, reply)
    with pytest.raises(LedgerUnavailable) as refused:
        await RedisLedger(to_stub(), wait=REPLICA).swap(WHERE, View(), claim())
    assert refused.value.may_have_run


async def test_p4_14_a_claim_that_was_not_written_needs_no_confirmation(stub: Any, to_stub: Any) -> None:
    """4.14, 4.10: something stands there already: a replay does not fail for want of replicas."""
    answering(stub, LOOKED, b":0\r\n")
    swap = await RedisLedger(to_stub(), wait=REPLICA).swap(WHERE, View(), claim())
    assert not swap.applied


@pytest.mark.parametrize(("count", "ready"), [(b":1\r\n", True), (b":0\r\n", False)])
async def test_p4_14_a_ledger_that_cannot_confirm_is_not_ready(
    stub: Any, to_stub: Any, count: bytes, ready: bool
) -> None:
    """4.14, K8-08: /readyz says so before a call does."""
    stub.answer = lambda command: count if command[0] == b"WAIT" else b"+OK\r\n"
    ledger = RedisLedger(to_stub(), wait=REPLICA)
    if ready:
        await ledger.ready()
    else:
        with pytest.raises(LedgerUnavailable, match="0 of 1 replicas"):
            await ledger.ready()


# --- real servers --------------------------------------------------------------------------------------------


async def pair(start_redis: Any, reach: Any, port: int, *more: str, program: str | None = None) -> Any:
    """A primary and a replica that has caught up."""
    kept = ("--save", "", "--repl-diskless-sync-delay", "0", *more)
    primary = await start_redis("--port", str(port), "--bind", "127.0.0.1", *kept, program=program)
    replica = await start_redis("--replicaof", "127.0.0.1", str(port), *kept, program=program)
    commands = reach(primary)

    async def online() -> bool:
        return b"state=online" in await commands.do("INFO", "replication")

    for _ in range(12_000):
        if await online():
            return commands, replica
        await commands.do("WAIT", 1, 10)
    raise AssertionError("the replica never came online")


async def test_p4_14_a_replica_that_stands_still_confirms_nothing(start_redis: Any, reach: Any, port: int) -> None:
    """4.14: a real pair."""
    commands, replica = await pair(start_redis, reach, port)
    ledger = RedisLedger(commands, wait=ClaimWait(1, False, 20.0))
    impatient = RedisLedger(commands, wait=ClaimWait(1, False, 0.05))
    assert (await ledger.swap(WHERE, View(), claim(1))).applied
    replica.signal(signal.SIGSTOP)
    try:
        with pytest.raises(LedgerUnavailable, match="0 of 1 replicas had it"):
            await impatient.swap(WHERE, View(), claim(2))
        assert (await impatient.swap(WHERE, View(), SETTLE)).applied
        # It stands where it was written; that it is found there says nothing of who else has it.
        view = await ledger.read(msgspec.structs.replace(WHERE, effects=(effect(2).effect_id,)))
        stands = view.effects[effect(2).effect_id]
        again = Writes(effects={effect(2).effect_id: stands}, confirms=True)
        with pytest.raises(LedgerUnavailable, match="0 of 1 replicas had it"):
            await impatient.swap(WHERE, view, again)
    finally:
        replica.signal(signal.SIGCONT)
    assert (await ledger.swap(WHERE, View(), claim(3))).applied
    view = await ledger.read(msgspec.structs.replace(WHERE, effects=(effect(2).effect_id,)))
    confirmed = await ledger.swap(WHERE, view, again)
    assert confirmed.applied
    assert confirmed.view.effects[effect(2).effect_id] == stands


async def test_p4_14_waitaof_confirms_what_is_on_disk(start_redis: Any, reach: Any, newer_redis: str) -> None:
    """4.14: Redis 7.2, Valkey."""
    server = await start_redis("--appendonly", "yes", "--appendfsync", "always", "--save", "", program=newer_redis)
    commands = reach(server)
    assert (await RedisLedger(commands, wait=DISK).swap(WHERE, View(), claim(1))).applied
    await commands.do("CONFIG", "SET", "appendfsync", "no")
    with pytest.raises(LedgerUnavailable, match="had not synced it to disk"):
        await RedisLedger(commands, wait=ClaimWait(0, True, 0.05)).swap(WHERE, View(), claim(2))
    await commands.do("CONFIG", "SET", "appendonly", "no")
    with pytest.raises(LedgerUnavailable) as refused:
        await RedisLedger(commands, wait=DISK).swap(WHERE, View(), claim(3))
    assert refused.value.may_have_run


async def test_p4_14_waitaof_counts_the_replicas_that_have_it_on_disk(
    start_redis: Any, reach: Any, port: int, newer_redis: str
) -> None:
    """4.14: one that keeps no file confirms nothing, though it has what was written."""
    kept = ("--appendonly", "yes", "--appendfsync", "always")
    commands, replica = await pair(start_redis, reach, port, *kept, program=newer_redis)
    assert (await RedisLedger(commands, wait=ClaimWait(1, True, 20.0)).swap(WHERE, View(), claim(1))).applied
    await reach(replica).do("CONFIG", "SET", "appendonly", "no")
    with pytest.raises(LedgerUnavailable, match="0 of 1 replicas had it on disk"):
        await RedisLedger(commands, wait=ClaimWait(1, True, 0.05)).swap(WHERE, View(), claim(2))
