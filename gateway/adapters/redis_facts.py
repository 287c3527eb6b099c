"""Reads what a Redis or Valkey can lose: by asking it, and by trying, never by assuming (4.14).

What is refused or unknown is left None, and the look goes on with the rest; managed services hide CONFIG, and users
with few rights cannot run INFO.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from redis.exceptions import ResponseError

from gateway.adapters.claim_wait import ClaimWait
from gateway.adapters.ledger_keys import Bucket
from gateway.adapters.redis_commands import Argument, LedgerUnreachable, ScriptMissing, SendsCommands
from gateway.adapters.redis_errors import ErrorReply
from gateway.adapters.redis_scripts import Script, called_commands
from gateway.core.errors import LedgerUnavailable
from gateway.core.ledger_facts import LedgerFacts, Replica
from gateway.core.ports import Clock

TRIPS: Final = 5
_FLAGGED: Final = "#!lua flags=no-writes\nreturn 1"
_CONFIG: Final = (
    *("maxmemory-policy", "maxmemory", "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save"),
    "min-replicas-to-write",
)
_SENT: Final = ("GET", "HGETALL", "LINDEX", "SET", "XRANGE")
"""Commands that are sent by themselves."""
_REPLICA: Final = re.compile(r"slave\d+")

Kind = Literal["tcp", "unix", "sentinel", "cluster", "local"]
Reply = Any
_REFUSED: Final = object()


async def read_facts(
    commands: SendsCommands, clock: Clock, *, kind: Kind, wait: ClaimWait | None = None, bucket: int = 0
) -> LedgerFacts:
    """One look. It writes the probe key of `bucket`, as /readyz does of the first; in a cluster the server must have
    its slot. Raises LedgerUnavailable where the server does not answer."""
    try:
        return await _Look(commands, clock, wait, bucket).facts(kind)
    except LedgerUnreachable as cause:
        raise LedgerUnavailable from cause


class _Look:
    def __init__(self, commands: SendsCommands, clock: Clock, wait: ClaimWait | None, bucket: int) -> None:
        self._commands = commands
        self._write_probe: tuple[Argument, ...] = ("SET", Bucket(bucket).probe, b"1", "PX", 60_000)
        self._clock = clock
        self._wait = wait

    async def facts(self, kind: Kind) -> LedgerFacts:
        trip_s, ahead_s = await self._times()
        info, config = await self._info(), await self._config()
        hidden = [name for name, read in (("INFO", info), ("CONFIG", config)) if read is None]
        facts = _from_config(_from_info(LedgerFacts(kind=kind), info or {}), config or {})
        scripts, script_flags = await self._scripts()
        return msgspec.structs.replace(
            facts,
            hidden=tuple(hidden),
            write_refused=await self._write(),
            scripts=scripts,
            refused_commands=await self._refused_commands() if scripts else None,
            script_flags=script_flags,
            wait=type(await self._ask("WAIT", 0, 1)) is int,
            waitaof=type(await self._ask("WAITAOF", 0, 0, 1)) is list,
            unconfirmed=None if self._wait is None else await self._unconfirmed(self._wait),
            clock_ahead_s=ahead_s,
            round_trip_s=trip_s,
        )

    async def _times(self) -> tuple[float, float | None]:
        """The usual round trip, and how far the ledger's clock is ahead, give or take half of one."""
        trips: list[float] = []
        answer: Reply = None
        for _ in range(TRIPS):
            began, began_ms = self._clock.monotonic(), self._clock.wall_ms()
            answer = await self._ask("TIME")
            trips.append(self._clock.monotonic() - began)
        if answer is _REFUSED:
            return statistics.median(trips), None
        there_ms = int(answer[0]) * 1000 + int(answer[1]) / 1000
        return statistics.median(trips), (there_ms - began_ms) / 1000 - trips[-1] / 2

    async def _info(self) -> dict[str, str] | None:
        answer = await self._ask("INFO")
        if answer is _REFUSED:
            return None
        lines = answer.decode(errors="replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))

    async def _config(self) -> dict[str, str] | None:
        found: dict[str, str] = {}
        for name in _CONFIG:  # one by one: Redis 6 takes no more, and a service may show some of them
            answer = await self._ask("CONFIG", "GET", name)
            if answer is not _REFUSED and len(answer) == 2:
                found[name] = answer[1].decode(errors="replace")
        return found or None

    async def _scripts(self) -> tuple[bool, bool]:
        flagged = await self._ask("EVAL", _FLAGGED, 0) == 1
        return flagged or await self._ask("EVAL", "return 1", 0) == 1, flagged

    async def _refused_commands(self) -> tuple[str, ...] | None:
        asked = Script.load("allowed")
        names = sorted({*called_commands(), *_SENT})
        answer = await self._ask("EVAL", asked.source, 1, self._write_probe[1], *names)
        if type(answer) is not list:
            return None
        by_hash = await self._ask("EVALSHA", asked.sha, 1, self._write_probe[1])
        return tuple([name.decode() for name in answer] + ["EVALSHA"] * (by_hash is _REFUSED))

    async def _write(self) -> str | None:
        try:
            await self._commands.do(*self._write_probe)
        except (LedgerUnreachable, ResponseError) as refused:
            if isinstance(refused, LedgerUnreachable) and (refused.may_have_run or not _answered(refused)):
                raise
            return _code(refused)
        return None

    async def _unconfirmed(self, wait: ClaimWait) -> str | None:
        try:
            _, reply = await self._commands.do_together(self._write_probe, wait.command)
        except ResponseError as refused:
            return f"{wait.command[0]!s} was refused: {_code(refused)}"
        except LedgerUnreachable as refused:
            if not _answered(refused):
                raise
            return None  # the write was; that is a finding of its own
        return wait.missing(reply)

    async def _ask(self, *command: Argument) -> Reply:
        """The reply, or _REFUSED where this user may not, or the server does not know how to."""
        try:
            return await self._commands.do(*command)
        except (ResponseError, ScriptMissing):
            return _REFUSED
        except LedgerUnreachable as refused:
            if isinstance(refused.__cause__, ErrorReply) and refused.__cause__.code == "NOPERM":
                return _REFUSED
            raise


def _answered(refused: LedgerUnreachable) -> bool:
    """Whether the server itself said no; else it could not be reached."""
    return isinstance(refused.__cause__, ErrorReply)


def _code(refused: Exception) -> str:
    """The code word of an error reply, such as READONLY; never its text, which may quote what was sent."""
    error = refused.__cause__ if isinstance(refused, LedgerUnreachable) else refused
    code = error.code if isinstance(error, ErrorReply) else ""
    return code if code.isalpha() and code.isupper() else "ERR"


def _from_info(facts: LedgerFacts, info: Mapping[str, str]) -> LedgerFacts:
    valkey = info.get("server_name") == "valkey"
    primary = info["role"] == "master" if "role" in info else None
    return msgspec.structs.replace(
        facts,
        server="Valkey" if valkey else "Redis",
        version=_version(info.get("valkey_version") if valkey else info.get("redis_version")),
        cluster=_flag(info, "cluster_enabled"),
        replica=None if primary is None else not primary,
        replica_read_only=_flag(info, "slave_read_only"),
        eviction=info.get("maxmemory_policy"),
        max_memory=_number(info, "maxmemory"),
        used_memory=_number(info, "used_memory"),
        appendonly=_flag(info, "aof_enabled"),
        append_failed=_failed(info, "aof_last_write_status"),
        snapshot_failed=_failed(info, "rdb_last_bgsave_status"),
        replicas=_replicas(info) if primary else None,
    )


def _from_config(facts: LedgerFacts, config: Mapping[str, str]) -> LedgerFacts:
    """What CONFIG says, over what INFO says."""
    changes: dict[str, Any] = {
        "eviction": config.get("maxmemory-policy"),
        "max_memory": _number(config, "maxmemory"),
        "appendonly": {"yes": True, "no": False}.get(config.get("appendonly", "")),
        "appendfsync": config.get("appendfsync"),
        "sync_stops": {"yes": True, "no": False}.get(config.get("no-appendfsync-on-rewrite", "")),
        "save": config.get("save"),
        "min_replicas_to_write": _number(config, "min-replicas-to-write"),
    }
    return msgspec.structs.replace(facts, **{name: value for name, value in changes.items() if value is not None})


def _replicas(info: Mapping[str, str]) -> tuple[Replica, ...]:
    """Lines such as ``slave0:ip=10.0.0.6,port=6379,state=online,offset=42,lag=1``."""
    found = []
    for name, line in info.items():
        if _REPLICA.fullmatch(name):
            fields = dict(field.split("=", 1) for field in line.split(",") if "=" in field)
            found.append(Replica(fields.get("state") == "online", _number(fields, "lag")))
    return tuple(found)


def _version(text: str | None) -> tuple[int, ...] | None:
    numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text or "")
    return tuple(int(number) for number in numbers.groups() if number is not None) if numbers else None


def _number(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name, "")
    return int(text) if re.fullmatch(r"-?\d{1,19}", text) else None


def _flag(fields: Mapping[str, str], name: str) -> bool | None:
    return {"1": True, "0": False}.get(fields.get(name, ""))


def _failed(fields: Mapping[str, str], name: str) -> bool | None:
    return None if name not in fields else fields[name] != "ok"
