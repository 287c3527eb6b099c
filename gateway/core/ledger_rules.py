"""The table of what a ledger's server may cost, subject by subject (4.14, 4.15). Pure."""

from __future__ import annotations

from typing import Final

from gateway.core.ledger_facts import LedgerFacts, Wanted
from gateway.core.ledger_findings import Finding, Rule, Severity, judged

FULL: Final = 0.8
"""The part of `maxmemory` from which on there is little room left."""
LAGGING_S: Final = 10
APART_S: Final = 60.0
"""Merchants refuse signatures that are minutes old, and records would be dated wrongly."""
SLOW_S: Final = 0.02
EACH_SECOND_S: Final = 2.0
"""How long a claim may wait for a disk that is synced once a second."""
OLDEST: Final = (7, 0)

OK, NOTE, WARNING, UNSAFE = Severity.OK, Severity.NOTE, Severity.WARNING, Severity.UNSAFE
TWICE: Final = "a call that was sent could be sent again when it is repeated"
REFUSED: Final = "side-effecting calls are answered 503 ledger_unavailable until then"

EMBEDDED: Final = ("local", "memory")

RULES: Final = (
    # --- what it is
    Rule(
        *("version", "version-too-old", UNSAFE, lambda at: at.facts.version is not None and at.facts.version < OLDEST),
        "{server} {version}",
        "the ledger's scripts need commands of Redis 7.0; no call could be claimed",
        "upgrade to Redis 7.0 or newer, or to Valkey",
        must=True,
    ),
    Rule("version", "version", OK, lambda at: at.facts.version is not None, "{server} {version}"),
    Rule(
        *("version", "version-unknown", NOTE, lambda at: at.facts.kind != "memory"),
        "the server does not say its version",
        "what it can do is tried instead",
        "let the gateway's user run INFO (ACL: +info)",
    ),
    Rule(
        *("scripts", "scripts-refused", UNSAFE, lambda at: at.facts.scripts is False),
        "scripts (EVAL, EVALSHA) are refused",
        "no call could be claimed",
        "let the gateway's user run them (ACL: +eval +evalsha)",
        must=True,
    ),
    Rule(
        *("scripts", "commands-refused", UNSAFE, lambda at: bool(at.facts.refused_commands)),
        "the gateway's user may not run {commands}, or the server has no command of that name",
        "scripts break off there: what they wrote before stands, so calls are recorded in part, and answered 503",
        "let it run them on {{og.* (ACL: +@read +@write +time), and rename none of them",
    ),
    Rule(
        *("scripts", "script-flags-unknown", NOTE, lambda at: at.facts.script_flags is False),
        "scripts run, but may not declare what they do (#!lua flags=...)",
        "nothing today; Redis 7.0 and Valkey know it, what stands in front of this one does not",
    ),
    Rule("scripts", "scripts", OK, lambda at: bool(at.facts.scripts), "scripts run"),
    Rule(
        *("cluster", "cluster-mode", WARNING, lambda at: bool(at.facts.cluster) and at.facts.kind != "cluster"),
        "this is a server of a cluster, and the gateway speaks to this one only",
        "calls whose slots lie on other servers are answered 503 ledger_unavailable",
        "name it as a cluster: redis+cluster://HOST,HOST",
    ),
    Rule(
        *("hidden", "hidden", NOTE, lambda at: bool(at.facts.hidden)),
        "{hidden} cannot be asked: what else is said here rests on what could be",
        "managed services hide them; what depends on them is not checked",
        "let the gateway's user read them (ACL: +info +config|get), or ask the provider about appendfsync and "
        "maxmemory-policy",
    ),
    # --- whether it takes writes
    Rule(
        *("writes", "writable-replica", UNSAFE, lambda at: at.facts.replica is True and not at.facts.write_refused),
        "this is a replica that takes writes",
        "what it is told is thrown away when it next syncs with its primary: " + TWICE,
        "name the primary; on this one: CONFIG SET replica-read-only yes",
    ),
    Rule(
        *("writes", "is-a-replica", WARNING, lambda at: bool(at.facts.replica)),
        "this is a read-only replica",
        REFUSED,
        "name the primary",
    ),
    Rule(
        *("writes", "writes-refused", WARNING, lambda at: bool(at.facts.write_refused)),
        "a write was refused: {refused}",
        REFUSED,
        "OOM: raise maxmemory; NOREPLICAS: bring replicas back; MISCONF: look at its disk; NOPERM: ACL for keys {{og.*",
    ),
    Rule("writes", "writes", OK, lambda at: at.facts.kind != "memory", "it takes writes"),
    # --- memory
    Rule(
        *("eviction", "evicts-keys", UNSAFE, lambda at: at.facts.eviction not in (None, "noeviction")),
        "maxmemory-policy is {eviction}",
        "when memory is full Redis deletes records of what was done: " + TWICE + ", as an order placed twice",
        "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
    ),
    Rule("eviction", "no-eviction", OK, lambda at: at.facts.eviction is not None, "it evicts no keys"),
    Rule(
        *("eviction", "eviction-unknown", WARNING, lambda at: at.facts.kind != "memory"),
        "whether it evicts keys could not be read",
        "if it does, " + TWICE + " once memory is full",
        "make sure that maxmemory-policy is noeviction",
    ),
    Rule(
        *("memory", "memory-short", WARNING, lambda at: at.full >= FULL),
        "{used} of {limit} are used ({full})",
        "when it is full, new calls are answered 503 and outcomes wait to be recorded",
        "CONFIG SET maxmemory to more, or lower retention.days",
    ),
    Rule("memory", "memory", OK, lambda at: bool(at.facts.max_memory), "{used} of {limit} are used ({full})"),
    Rule(
        *("memory", "no-memory-limit", NOTE, lambda at: at.facts.max_memory == 0 and at.facts.kind != "local"),
        "{used} are used, with no limit (maxmemory 0)",
        "when the machine's memory ends, the system ends Redis",
        "CONFIG SET maxmemory to what the machine can spare; a full ledger refuses calls, it forgets none",
    ),
    # --- what survives a crash
    Rule(
        *("persistence", "memory-ledger", WARNING, lambda at: at.facts.kind == "memory"),
        "the ledger is in this process's memory",
        "nothing survives its end: " + TWICE,
        "for more than trying out: --ledger local:DIR, or a Redis",
    ),
    Rule(
        *("persistence", "persists-nothing", UNSAFE, lambda at: at.facts.appendonly is False and at.facts.save == ""),
        "it writes nothing to disk (appendonly no, no snapshots)",
        "a restart forgets every call: " + TWICE + ", as an order placed twice. Replicas do not help: they copy the "
        "empty primary",
        "CONFIG SET appendonly yes, and the same in redis.conf",
    ),
    Rule(
        *("persistence", "appends-fail", WARNING, lambda at: bool(at.facts.append_failed)),
        "its last write to the append-only file failed",
        REFUSED,
        "look at its disk and its log",
    ),
    Rule(
        *("persistence", "snapshots-fail", WARNING, lambda at: bool(at.facts.snapshot_failed and at.facts.save != "")),
        "its last snapshot failed",
        "it may refuse writes (stop-writes-on-bgsave-error); " + REFUSED,
        "look at its disk and its log",
    ),
    Rule("persistence", "appends", OK, lambda at: bool(at.facts.appendonly), "it keeps an append-only file"),
    Rule(
        *("persistence", "snapshots-only", WARNING, lambda at: at.facts.appendonly is False and bool(at.facts.save)),
        "it writes snapshots only (save {save})",
        "a crash forgets every call since the last one, minutes of them: " + TWICE,
        "CONFIG SET appendonly yes, and the same in redis.conf",
    ),
    Rule(
        *("persistence", "persistence-unknown", WARNING, lambda _: True),
        "it keeps no append-only file, or does not say; whether it takes snapshots could not be read",
        "if it keeps nothing, a restart forgets every call: " + TWICE,
        "turn on appendonly, with the provider's settings where it is a managed service",
    ),
    Rule(
        *("fsync", "fsync-never-waited", UNSAFE, lambda at: _syncs(at.facts, "no") and at.wanted.fsync),
        "appendfsync is no, and ledger.wait_fsync asks for a sync",
        "no claim would ever be confirmed",
        "CONFIG SET appendfsync always (or everysec), and the same in redis.conf",
        must=True,
    ),
    Rule(
        *("fsync", "fsync-left-to-the-system", WARNING, lambda at: _syncs(at.facts, "no")),
        "appendfsync is no",
        "a power cut can lose the last half minute of claims; an order placed in it could be placed again after a "
        "repeat",
        "CONFIG SET appendfsync always, and the same in redis.conf",
    ),
    Rule(
        *("fsync", "fsync-stops", WARNING, lambda at: bool(at.facts.appendonly and at.facts.sync_stops)),
        "no-appendfsync-on-rewrite is yes: nothing is synced while the file is written anew, or a snapshot is",
        "a power cut can lose the claims of that time; an order placed in it could be placed again after a repeat",
        "CONFIG SET no-appendfsync-on-rewrite no, and the same in redis.conf",
    ),
    Rule(
        *("fsync", "wait-too-short", WARNING, lambda at: _each_second(at.facts, at.wanted, at.wanted.timeout_s)),
        "appendfsync is everysec, and claims wait for the disk for {timeout} s at most",
        "a sync comes once a second: many " + REFUSED.replace(" until then", ""),
        "CONFIG SET appendfsync always; or ledger.wait_timeout_s = 3 and ledger.command_timeout_s = 5",
    ),
    Rule(
        *("fsync", "fsync-each-second-waited", NOTE, lambda at: _syncs(at.facts, "everysec") and at.wanted.fsync),
        "appendfsync is everysec, and claims wait for it",
        "every new call takes up to a second longer",
        "CONFIG SET appendfsync always: a sync for each write, shared by all that wait, takes about a millisecond",
    ),
    Rule(
        *("fsync", "fsync-each-second", WARNING, lambda at: _syncs(at.facts, "everysec")),
        "appendfsync is everysec",
        "a power cut can lose the last second of claims; an order placed in that second could be placed again after a "
        "repeat. (A crash of Redis alone loses less: what the system was not yet handed.)",
        "CONFIG SET appendfsync always, and the same in redis.conf; or ledger.wait_fsync = true",
    ),
    Rule("fsync", "fsync-each-write", OK, lambda at: _syncs(at.facts, "always"), "every write is synced to disk"),
    Rule(
        *("fsync", "fsync-unknown", NOTE, lambda at: bool(at.facts.appendonly)),
        "how often it syncs to disk (appendfsync) could not be read",
        "with everysec, a power cut can lose the last second of claims",
        "ask the provider, or set ledger.wait_fsync = true",
    ),
    Rule(
        *("folder", "network-filesystem", WARNING, lambda at: bool(at.facts.network_filesystem)),
        "the folder is on a network filesystem ({filesystem})",
        "its locks and syncs may not hold: two gateways could use one folder, and a power cut forget what was written",
        "keep the embedded ledger on a local disk",
    ),
    # --- what survives a failover
    Rule(
        *("waits", "waitaof-missing", UNSAFE, lambda at: at.wanted.fsync and at.facts.waitaof is False),
        "ledger.wait_fsync is on, and this server has no WAITAOF for the gateway's user",
        "no claim could be confirmed",
        "upgrade to Redis 7.2 or Valkey (ACL: +waitaof); or take ledger.wait_fsync out, and set appendfsync always",
        must=True,
    ),
    Rule(
        *("waits", "waitaof-without-file", UNSAFE, lambda at: at.wanted.fsync and at.facts.appendonly is False),
        "ledger.wait_fsync is on, and this server keeps no append-only file",
        "no claim could be confirmed",
        "CONFIG SET appendonly yes, and the same in redis.conf, on replicas too",
        must=True,
    ),
    Rule(
        *("waits", "wait-missing", UNSAFE, lambda at: at.wanted.replicas > 0 and at.facts.wait is False),
        "ledger.wait_replicas is set, and this server has no WAIT for the gateway's user",
        "no claim could be confirmed",
        "let the gateway's user run it (ACL: +wait), or take ledger.wait_replicas out",
        must=True,
    ),
    Rule(
        *("waits", "not-confirmed", WARNING, lambda at: bool(at.facts.unconfirmed)),
        "a write was not confirmed as claims have to be: {unconfirmed}",
        REFUSED,
        "bring the replicas back (INFO replication lists them); with ledger.wait_fsync each of them needs appendonly "
        "yes",
    ),
    Rule(
        *("waits", "confirmed", OK, lambda at: at.facts.unconfirmed == ""),
        "what is written is confirmed ({command})",
    ),
    Rule(
        *("replicas", "replica-lags", WARNING, lambda at: at.lag_s >= LAGGING_S),
        "a replica has said nothing for {lag} s",
        "a failover to it forgets what it missed: " + TWICE,
        "look at that replica and at the network between them",
    ),
    Rule(
        *("replicas", "failover-forgets", WARNING, lambda at: at.connected > 0 and at.wanted.replicas == 0),
        "replicas connected: {connected}; no claim waits for them",
        "a failover can forget claims that no replica had yet: " + TWICE,
        "ledger.wait_replicas = {connected}; CONFIG SET min-replicas-to-write 1 keeps a primary that was cut off from "
        "granting",
    ),
    Rule(
        *("replicas", "some-replicas-wait", WARNING, lambda at: at.connected > at.wanted.replicas > 0),
        "replicas connected: {connected}; a claim waits for {wanted} of them",
        "a failover to one of the others can forget a claim: " + TWICE,
        "ledger.wait_replicas = {connected}; claims are then refused while one of them is away",
    ),
    Rule(
        *("replicas", "replicas", OK, lambda at: at.connected > 0),
        "replicas connected: {connected}; every claim waits for them",
    ),
    Rule(
        *(
            "replicas",
            "no-replica",
            NOTE,
            lambda at: at.facts.replicas == () and at.facts.kind not in ("local", "memory"),
        ),
        "no replica is connected",
        "if this server's disk is lost, so is the ledger: " + TWICE,
        "a replica and ledger.wait_replicas = 1, where that matters",
    ),
    # --- time
    Rule(
        *("clock", "clocks-apart", WARNING, lambda at: abs(at.facts.clock_ahead_s or 0) >= APART_S),
        "the ledger's clock is {apart} s {way} this host's",
        "records are dated by the ledger, signatures by this host: merchants refuse those that are minutes off",
        "run NTP on both",
    ),
    Rule("clock", "clock", OK, lambda at: at.facts.clock_ahead_s is not None, "clocks are {apart} s apart"),
    Rule(
        *("trip", "slow-ledger", NOTE, lambda at: (at.facts.round_trip_s or 0) >= SLOW_S),
        "a round trip takes {trip} ms",
        "a new call takes two of them, a replay one",
        "keep gateways near their Redis",
    ),
    Rule("trip", "round-trip", OK, lambda at: at.facts.round_trip_s is not None, "a round trip takes {trip} ms"),
)


def findings(facts: LedgerFacts, wanted: Wanted) -> list[Finding]:
    """What a person should know of this ledger, one finding a subject."""
    return judged(facts, wanted, RULES)


def _syncs(facts: LedgerFacts, how: str) -> bool:
    return bool(facts.appendonly) and facts.appendfsync == how


def _each_second(facts: LedgerFacts, wanted: Wanted, timeout_s: float) -> bool:
    return _syncs(facts, "everysec") and wanted.fsync and timeout_s < EACH_SECOND_S
