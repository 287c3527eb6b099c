"""What a ledger's server may cost, as a table: facts in, findings out (4.14)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.core.ledger_facts import LedgerFacts, Replica, Wanted
from gateway.core.ledger_findings import Severity, refusing, worst
from gateway.core.ledger_rules import RULES, findings

GOOD = LedgerFacts(
    kind="tcp",
    version=(7, 2, 4),
    cluster=False,
    replica=False,
    scripts=True,
    script_flags=True,
    refused_commands=(),
    eviction="noeviction",
    max_memory=1_000_000_000,
    used_memory=100_000_000,
    appendonly=True,
    appendfsync="always",
    sync_stops=False,
    save="",
    append_failed=False,
    snapshot_failed=False,
    replicas=(Replica(True, 0),),
    min_replicas_to_write=0,
    wait=True,
    waitaof=True,
    unconfirmed="",
    clock_ahead_s=0.001,
    round_trip_s=0.0002,
)
WAITING = Wanted(replicas=1)
SYNCED = Wanted(replicas=1, fsync=True)
NOTHING = Wanted()


def codes(wanted: Wanted = WAITING, **changed: Any) -> dict[str, Severity]:
    return {f.code: f.severity for f in findings(replace(GOOD, **changed), wanted)}


def test_p4_14_a_ledger_that_loses_nothing_has_nothing_above_ok() -> None:
    """4.14: and says of each subject that it was looked at."""
    found = findings(GOOD, WAITING)
    assert worst(found) is Severity.OK
    assert {f.code for f in found} == {
        *("version", "scripts", "writes", "no-eviction", "memory", "appends", "fsync-each-write"),
        *("confirmed", "replicas", "clock", "round-trip"),
    }


NOTE, WARNING, UNSAFE = Severity.NOTE, Severity.WARNING, Severity.UNSAFE
ROWS: list[tuple[dict[str, Any], Wanted, str, Severity]] = [
    ({"version": (6, 2, 14)}, WAITING, "version-too-old", UNSAFE),
    ({"version": None}, WAITING, "version-unknown", NOTE),
    ({"scripts": False}, WAITING, "scripts-refused", UNSAFE),
    ({"refused_commands": ("PERSIST", "TIME")}, WAITING, "commands-refused", UNSAFE),
    ({"script_flags": False}, WAITING, "script-flags-unknown", NOTE),
    ({"cluster": True}, WAITING, "cluster-mode", WARNING),
    ({"hidden": ("CONFIG",)}, WAITING, "hidden", NOTE),
    ({"replica": True, "write_refused": "READONLY"}, NOTHING, "is-a-replica", WARNING),
    ({"replica": True, "replica_read_only": False}, NOTHING, "writable-replica", UNSAFE),
    ({"write_refused": "OOM"}, WAITING, "writes-refused", WARNING),
    ({"eviction": "allkeys-lru"}, WAITING, "evicts-keys", UNSAFE),
    ({"eviction": "volatile-ttl"}, WAITING, "evicts-keys", UNSAFE),
    ({"eviction": "allkeys-random", "max_memory": 0}, WAITING, "evicts-keys", UNSAFE),
    ({"eviction": None}, WAITING, "eviction-unknown", WARNING),
    ({"used_memory": 800_000_000}, WAITING, "memory-short", WARNING),
    ({"max_memory": 0}, WAITING, "no-memory-limit", NOTE),
    ({"appendonly": False, "save": ""}, WAITING, "persists-nothing", UNSAFE),
    ({"appendonly": False, "save": "3600 1"}, WAITING, "snapshots-only", WARNING),
    ({"appendonly": False, "save": None}, WAITING, "persistence-unknown", WARNING),
    ({"appendonly": None, "save": None}, WAITING, "persistence-unknown", WARNING),
    ({"append_failed": True}, WAITING, "appends-fail", WARNING),
    ({"snapshot_failed": True, "save": "3600 1"}, WAITING, "snapshots-fail", WARNING),
    ({"appendfsync": "everysec"}, WAITING, "fsync-each-second", WARNING),
    ({"appendfsync": "everysec"}, replace(SYNCED, timeout_s=3.0), "fsync-each-second-waited", NOTE),
    ({"appendfsync": "everysec"}, SYNCED, "wait-too-short", WARNING),
    ({"appendfsync": "no"}, WAITING, "fsync-left-to-the-system", WARNING),
    ({"appendfsync": "no"}, SYNCED, "fsync-never-waited", UNSAFE),
    ({"sync_stops": True}, WAITING, "fsync-stops", WARNING),
    ({"sync_stops": True, "appendfsync": "everysec"}, SYNCED, "fsync-stops", WARNING),
    ({"appendfsync": None}, WAITING, "fsync-unknown", NOTE),
    ({"kind": "local", "network_filesystem": "nfs4"}, NOTHING, "network-filesystem", WARNING),
    ({"waitaof": False}, SYNCED, "waitaof-missing", UNSAFE),
    ({"appendonly": False}, SYNCED, "waitaof-without-file", UNSAFE),
    ({"wait": False}, WAITING, "wait-missing", UNSAFE),
    ({"unconfirmed": "after 1 s 0 of 1 replicas had it"}, WAITING, "not-confirmed", WARNING),
    ({"replicas": (Replica(True, 0), Replica(True, 11))}, Wanted(2), "replica-lags", WARNING),
    ({}, NOTHING, "failover-forgets", WARNING),
    ({"replicas": (Replica(True, 0), Replica(True, 0))}, WAITING, "some-replicas-wait", WARNING),
    ({"replicas": ()}, NOTHING, "no-replica", NOTE),
    ({"clock_ahead_s": 61.0}, WAITING, "clocks-apart", WARNING),
    ({"clock_ahead_s": -61.0}, WAITING, "clocks-apart", WARNING),
    ({"round_trip_s": 0.05}, WAITING, "slow-ledger", NOTE),
]
UNCHECKED: dict[str, Any] = {
    "version": None,
    "eviction": None,
    "appendonly": None,
    "appendfsync": None,
    "save": None,
    "replicas": None,
    "max_memory": None,
    "used_memory": None,
    "hidden": ("INFO", "CONFIG"),
}


@pytest.mark.parametrize(("changed", "wanted", "code", "severity"), ROWS, ids=lambda value: str(value)[:50])
def test_p4_14_each_danger_has_its_code_and_severity(
    changed: dict[str, Any], wanted: Wanted, code: str, severity: Severity
) -> None:
    """4.14: and in what it costs and what mends it there is something to read."""
    (found,) = [f for f in findings(replace(GOOD, **changed), wanted) if f.code == code]
    assert found.severity is severity
    assert found.found
    assert found.cost
    assert found.do or code == "script-flags-unknown"


def test_p4_14_every_rule_is_in_the_table_above_or_says_that_all_is_well() -> None:
    """4.14: a rule that no row reaches would be one that nobody tried."""
    tried = {code for _, _, code, _ in ROWS} | {"memory-ledger"}
    assert {rule.code for rule in RULES if rule.severity is not Severity.OK} == tried
    assert len({rule.code for rule in RULES}) == len(RULES)


def test_p4_15_a_cluster_that_is_named_as_one_is_no_danger() -> None:
    """4.15: it is one only where the gateway was told of a single server."""
    assert "cluster-mode" not in codes(kind="cluster", cluster=True)


def test_p4_14_what_cannot_be_read_is_said_and_refuses_nothing() -> None:
    """4.14: a managed service that hides its settings is warned about, not locked out."""
    found = findings(replace(GOOD, **UNCHECKED), WAITING)
    assert not list(refusing(found, allow_unsafe=False))
    assert {"hidden", "eviction-unknown", "persistence-unknown"} <= {f.code for f in found}


@pytest.mark.parametrize(("changed", "wanted", "code", "severity"), ROWS, ids=lambda value: str(value)[:50])
def test_p4_14_only_what_is_unsafe_refuses_to_start(
    changed: dict[str, Any], wanted: Wanted, code: str, severity: Severity
) -> None:
    """4.14: `--allow-unsafe-ledger` lets it start, but not where a claim could never be made or confirmed."""
    found = findings(replace(GOOD, **changed), wanted)
    refused = {f.code for f in refusing(found, allow_unsafe=False)}
    assert (code in refused) == (severity is UNSAFE)
    allowed = {f.code for f in refusing(found, allow_unsafe=True)}
    assert allowed == refused & {
        *("version-too-old", "scripts-refused", "fsync-never-waited"),
        *("waitaof-missing", "waitaof-without-file", "wait-missing"),
    }


def test_p4_14_the_memory_ledger_says_that_nothing_survives_and_nothing_else() -> None:
    """4.14: it was named on purpose, so it is no reason not to start."""
    (found,) = findings(LedgerFacts(kind="memory"), NOTHING)
    assert (found.code, found.severity) == ("memory-ledger", WARNING)
    assert "nothing survives" in found.cost


def test_p4_14_words_carry_the_numbers() -> None:
    """4.14: what was found, not only that something was."""
    found = {f.code: f.found for f in findings(replace(GOOD, used_memory=900_000_000, clock_ahead_s=-75.04), WAITING)}
    assert found["memory-short"] == "858 MiB of 954 MiB are used (90%)"
    assert found["clocks-apart"] == "the ledger's clock is 75.0 s behind this host's"


def test_k4_12_c_a_ledger_that_evicts_is_refused_and_told_what_that_costs() -> None:
    """K4-12 (c), 4.14: evicted records mean double charges."""
    (found,) = refusing(findings(replace(GOOD, eviction="allkeys-lru"), NOTHING), allow_unsafe=False)
    assert (found.code, found.must) == ("evicts-keys", False)
    assert "placed twice" in found.cost
    assert "CONFIG SET maxmemory-policy noeviction" in found.do
