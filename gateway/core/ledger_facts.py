"""What is known of the server that keeps the ledger, as it was read. Pure; None always means "could not be read"."""

from __future__ import annotations

from typing import Literal

import msgspec


class Replica(msgspec.Struct, frozen=True):
    """One replica as its primary sees it; `lag_s`: since it last said how far it is."""

    online: bool
    lag_s: int | None = None


class Wanted(msgspec.Struct, frozen=True):
    """What the settings ask of a claim before anything is sent (4.14)."""

    replicas: int = 0
    fsync: bool = False
    timeout_s: float = 1.0

    @property
    def waits(self) -> bool:
        return self.replicas > 0 or self.fsync


class LedgerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a server. Sizes in bytes, versions as (major, minor, patch)."""

    kind: Literal["tcp", "unix", "sentinel", "cluster", "local", "memory"]
    server: str = "Redis"
    version: tuple[int, ...] | None = None
    cluster: bool | None = None
    hidden: tuple[str, ...] = ()
    """Commands that are refused to this user, or not there at all: INFO, CONFIG."""

    replica: bool | None = None
    """It is itself a replica of another."""
    replica_read_only: bool | None = None
    write_refused: str | None = None
    """The code word that answered a write (READONLY, OOM, ...); None: it was written."""
    scripts: bool | None = None
    script_flags: bool | None = None
    """Whether a script may say what it does in its first line (`#!lua flags=...`, Redis 7.0)."""

    refused_commands: tuple[str, ...] | None = None
    """Of those that the ledger is written and read with: what this user may not run, or the server has not by that
    name."""

    eviction: str | None = None
    max_memory: int | None = None
    used_memory: int | None = None

    appendonly: bool | None = None
    appendfsync: str | None = None
    sync_stops: bool | None = None
    """Whether nothing is synced while the append-only file is written anew, or a snapshot is."""
    save: str | None = None
    """The rule for snapshots, such as "3600 1 300 100"; empty: none are taken."""
    append_failed: bool | None = None
    snapshot_failed: bool | None = None
    network_filesystem: str | None = None
    """The kind of network filesystem that an embedded ledger's folder is on."""

    replicas: tuple[Replica, ...] | None = None
    min_replicas_to_write: int | None = None
    wait: bool | None = None
    waitaof: bool | None = None
    unconfirmed: str | None = None
    """What was lacking when a write waited as claims have to; empty: nothing; None: it was not tried."""

    clock_ahead_s: float | None = None
    """How much the ledger's clock is ahead of this host's."""
    round_trip_s: float | None = None
