"""What is read of real servers, with rights and without (4.14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.claim_wait import ClaimWait
from gateway.adapters.filesystems import network_filesystem
from gateway.adapters.redis_facts import read_facts
from gateway.adapters.redis_urls import LedgerUrl
from gateway.adapters.system import SystemClock
from gateway.core.errors import LedgerUnavailable
from gateway.core.ledger_facts import LedgerFacts, Wanted
from gateway.core.ledger_findings import Severity
from gateway.core.ledger_rules import findings

NOTHING = Wanted()
KEPT = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


async def look(commands: Any, **more: Any) -> LedgerFacts:
    return await read_facts(commands, SystemClock(), kind="unix", **more)


def above_ok(facts: LedgerFacts, wanted: Wanted = NOTHING) -> dict[str, Severity]:
    # How fast this machine is, and how much memory it has, is nobody's promise.
    found = findings(facts, wanted)
    return {f.code: f.severity for f in found if f.severity is not Severity.OK and f.code != "slow-ledger"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (KEPT, {"no-memory-limit", "no-replica"}),
        (
            (*KEPT, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"),
            {"evicts-keys", "no-replica"},
        ),
        (("--save", "", "--appendonly", "no"), {"persists-nothing", "no-memory-limit", "no-replica"}),
        (("--save", "3600 1", "--appendonly", "no"), {"snapshots-only", "no-memory-limit", "no-replica"}),
        ((*KEPT[:4], "--appendfsync", "everysec"), {"fsync-each-second", "no-memory-limit", "no-replica"}),
        ((*KEPT[:4], "--appendfsync", "no"), {"fsync-left-to-the-system", "no-memory-limit", "no-replica"}),
        ((*KEPT, "--no-appendfsync-on-rewrite", "yes"), {"fsync-stops", "no-memory-limit", "no-replica"}),
        ((*KEPT, "--min-replicas-to-write", "1"), {"writes-refused", "no-memory-limit", "no-replica"}),
        (("--save", "", "--appendonly", "no", "--rename-command", "CONFIG", ""), None),
    ],
)
async def test_p4_14_a_server_is_judged_by_what_it_is_set_to(
    start_redis: Any, reach: Any, options: tuple[str, ...], expected: set[str] | None
) -> None:
    """4.14: each danger on a server that has it; the last hides CONFIG, as managed services do."""
    found = above_ok(await look(reach(await start_redis(*options))))
    if expected is None:
        expected = {"hidden", "persistence-unknown", "no-memory-limit", "no-replica"}
    assert set(found) == expected


async def test_k4_12_c_a_server_that_evicts_is_found_to_be_unsafe(start_redis: Any, reach: Any) -> None:
    """K4-12 (c), 4.14: read from the server, not from its file."""
    commands = reach(await start_redis(*KEPT, "--maxmemory", "100mb"))
    assert "evicts-keys" not in above_ok(await look(commands))
    await commands.do("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    assert above_ok(await look(commands))["evicts-keys"] is Severity.UNSAFE


async def test_p4_14_where_config_is_hidden_info_still_tells_of_eviction_and_the_append_only_file(
    start_redis: Any, reach: Any
) -> None:
    """4.14: an ACL user with neither CONFIG nor the rest of the dangerous commands."""
    server = await start_redis(*KEPT, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lfu")
    admin = reach(server)
    rights = ["~{og.*", "+@all", "-@admin", "-@dangerous", "+info"]
    await admin.do("ACL", "SETUSER", "gateway", "on", ">hunter2", *rights)
    commands = reach(LedgerUrl(kind="unix", path=server.url.path, username="gateway", password="hunter2"))
    facts = await look(commands)
    assert (facts.hidden, facts.eviction, facts.appendonly, facts.appendfsync) == (
        ("CONFIG",),
        "allkeys-lfu",
        True,
        None,
    )
    assert set(above_ok(facts)) == {"hidden", "evicts-keys", "fsync-unknown", "no-replica"}
    await admin.do("ACL", "SETUSER", "gateway", "-info")
    blind = await look(commands)
    assert (blind.hidden, blind.eviction, blind.version) == (("INFO", "CONFIG"), None, None)
    assert {"hidden", "eviction-unknown", "persistence-unknown"} <= set(above_ok(blind))


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        ("-wait", "wait-missing"),
        ("-eval -evalsha -eval_ro", "scripts-refused"),
        ("-set", "writes-refused"),
        ("resetkeys ~other", "writes-refused"),
    ],
)
async def test_p4_14_what_the_gateways_own_user_may_not_do_is_found_by_trying(
    start_redis: Any, reach: Any, rights: str, expected: str
) -> None:
    """4.14: detected, never assumed."""
    server = await start_redis(*KEPT)
    await reach(server).do("ACL", "SETUSER", "gateway", "on", ">hunter2", "~*", "+@all", *rights.split())
    commands = reach(LedgerUrl(kind="unix", path=server.url.path, username="gateway", password="hunter2"))
    facts = await look(commands, wait=ClaimWait(1, False, 0.01))
    assert expected in above_ok(facts, Wanted(1, False, 0.01))


@pytest.mark.parametrize(
    ("rights", "refused"),
    [
        ("+@read +@write +eval +evalsha +info", ("TIME",)),
        ("+@all -persist -pexpireat", ("PERSIST", "PEXPIREAT")),
        ("+@all -zadd -evalsha", ("ZADD", "EVALSHA")),
        ("+@all -xrange -hgetall", ("HGETALL", "XRANGE")),
        ("+@read +@write +eval +evalsha +time +info +config|get", ()),
    ],
)
async def test_p4_14_a_command_that_scripts_need_and_may_not_run_is_found_before_a_call_is_half_recorded(
    start_redis: Any, reach: Any, rights: str, refused: tuple[str, ...]
) -> None:
    """4.14: Redis asks for a script's rights command by command, and what it wrote before the first refusal stands."""
    server = await start_redis(*KEPT)
    await reach(server).do("ACL", "SETUSER", "gateway", "on", ">hunter2", "~{og.*", *rights.split())
    commands = reach(LedgerUrl(kind="unix", path=server.url.path, username="gateway", password="hunter2"))
    facts = await look(commands)
    assert set(facts.refused_commands or ()) == set(refused)
    assert ("commands-refused" in above_ok(facts)) is bool(refused)


async def test_p4_14_a_command_that_was_renamed_is_found(start_redis: Any, reach: Any) -> None:
    """4.14: a script that calls it breaks off there."""
    facts = await look(reach(await start_redis(*KEPT, "--rename-command", "PERSIST", "")))
    assert facts.refused_commands == ("PERSIST",)
    assert above_ok(facts)["commands-refused"] is Severity.UNSAFE


async def test_p4_14_waiting_is_tried_as_a_claim_would(start_redis: Any, reach: Any) -> None:
    """4.14: a server alone confirms nothing."""
    facts = await look(reach(await start_redis(*KEPT)), wait=ClaimWait(1, False, 0.01))
    assert facts.wait
    assert facts.unconfirmed == "after 0.01 s 0 of 1 replicas had it"
    assert above_ok(facts, Wanted(1, False, 0.01))["not-confirmed"] is Severity.WARNING


async def test_p4_14_a_server_without_waitaof_is_known_by_its_answer(stub: Any, to_stub: Any) -> None:
    """4.14: as Redis before 7.2 answers."""

    def answer(command: list[bytes]) -> bytes:
        known = {b"TIME": b"*2\r\n$10\r\n1790000000\r\n$1\r\n0\r\n", b"EVAL": b":1\r\n", b"SET": b"+OK\r\n"}
        return known.get(command[0], b":0\r\n" if command[0] == b"WAIT" else b"-ERR unknown command\r\n")

    stub.answer = answer
    facts = await look(to_stub(), wait=ClaimWait(0, True, 0.01))
    assert (facts.wait, facts.waitaof, facts.unconfirmed) == (True, False, "WAITAOF was refused: ERR")
    refused = [f for f in findings(facts, Wanted(0, True, 0.01)) if f.severity is Severity.UNSAFE]
    assert [(f.code, f.must) for f in refused] == [("waitaof-missing", True)]


async def test_p4_14_a_newer_server_confirms_by_waitaof(start_redis: Any, reach: Any, newer_redis: str) -> None:
    """4.14"""
    commands = reach(await start_redis(*KEPT, program=newer_redis))
    facts = await look(commands, wait=ClaimWait(0, True, 20.0))
    assert (facts.waitaof, facts.unconfirmed) == (True, "")
    assert set(above_ok(facts, Wanted(0, True, 20.0))) == {"no-memory-limit", "no-replica"}
    await commands.do("CONFIG", "SET", "appendonly", "no")
    lacking = await look(commands, wait=ClaimWait(0, True, 20.0))
    assert above_ok(lacking, Wanted(0, True, 20.0))["waitaof-without-file"] is Severity.UNSAFE


async def test_p4_14_replicas_are_counted_and_a_replica_knows_what_it_is(
    start_redis: Any, reach: Any, port: int
) -> None:
    """4.14: from both ends of a pair."""
    primary = reach(await start_redis(*KEPT, "--port", str(port), "--repl-diskless-sync-delay", "0"))
    replica = reach(await start_redis(*KEPT, "--replicaof", "127.0.0.1", str(port)))
    for _ in range(12_000):
        facts = await look(primary)
        if facts.replicas and facts.replicas[0].online:
            break
        await primary.do("WAIT", 1, 10)
    assert above_ok(facts)["failover-forgets"] is Severity.WARNING
    there = await look(replica)
    assert (there.replica, there.replica_read_only, there.write_refused) == (True, True, "READONLY")
    assert "is-a-replica" in above_ok(there)
    await replica.do("CONFIG", "SET", "replica-read-only", "no")
    assert above_ok(await look(replica))["writable-replica"] is Severity.UNSAFE


async def test_p4_14_a_server_that_does_not_answer_is_no_finding(stub: Any, to_stub: Any) -> None:
    """4.14, 4.11"""
    commands = to_stub()
    await stub.stop()
    with pytest.raises(LedgerUnavailable):
        await look(commands)
    await stub.start()


async def test_p4_14_a_clock_that_is_off_is_measured(stub: Any, to_stub: Any) -> None:
    """4.14: ahead is positive, and half a round trip is not taken for a difference."""

    class At:
        now = 1_790_000_000.0

        def monotonic(self) -> float:
            return self.now

        def wall_ms(self) -> int:
            return int(self.now * 1000)

        async def sleep(self, seconds: float) -> None: ...

    clock = At()

    def answer(command: list[bytes]) -> bytes:
        clock.now += 0.25  # on the way there; the reply takes no time
        return b"*2\r\n$10\r\n%d\r\n$1\r\n0\r\n" % 1_790_000_090 if command[0] == b"TIME" else b"-ERR no\r\n"

    stub.answer = answer
    facts = await read_facts(to_stub(), clock, kind="unix")
    assert facts.clock_ahead_s == pytest.approx(88.875)
    assert facts.round_trip_s == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/data/ledger", "nfs4"),
        ("/data/local/ledger", None),
        ("/database", None),
        ("/mnt/a b/ledger", "fuse.sshfs"),
        ("/over/ledger", "cifs"),
        ("/elsewhere", None),
    ],
)
def test_p4_14_a_folder_on_a_network_filesystem_is_known_by_its_nearest_mount(
    tmp_path: Path, folder: str, kind: str | None
) -> None:
    """4.14: locks and syncs may not hold there."""
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/vda / ext4 rw 0 0\n"
        "nas:/x /data nfs4 rw 0 0\n"
        "/dev/vdb /data/local ext4 rw 0 0\n"
        "host: /mnt/a\\040b fuse.sshfs rw 0 0\n"
        "tmpfs /over tmpfs rw 0 0\n"
        "//nas/x /over cifs rw 0 0\n"
        "torn\n"
    )
    assert network_filesystem(Path(folder), mounts) == kind
    assert network_filesystem(Path(folder), tmp_path / "absent") is None
