"""Finds a redis-server on this machine that the embedded ledger can rely on."""

from __future__ import annotations

import asyncio
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Final

OLDEST_REDIS: Final = (7, 0)
_PROGRAMS: Final = ("redis-server", "valkey-server")


class LocalRedisError(Exception):
    """The embedded ledger cannot be used. The message says what to do."""


class NoRedisServer(LocalRedisError):
    """No usable redis-server or valkey-server on PATH."""


async def find_redis_server() -> Path:
    """The first redis-server or valkey-server on PATH that is new enough; raises NoRedisServer."""
    found: list[str] = []
    for name in _PROGRAMS:
        path = shutil.which(name)
        if path is None:
            continue
        version = await _version(path)
        if version >= OLDEST_REDIS:
            return Path(path)
        found.append(f"{path} is {'.'.join(map(str, version)) or 'of unknown version'}. ")
    raise NoRedisServer(
        "the embedded ledger needs redis-server 7.0 or newer, or valkey-server, on PATH. "
        + "".join(found)
        + "Install one (apt-get install redis-server, dnf install valkey, apk add redis, brew install redis), "
        "or pass --ledger memory, which forgets everything when it ends"
    )


async def _version(program: str) -> tuple[int, ...]:
    """As it prints it: ``Redis server v=7.0.15 sha=...`` or ``Valkey server v=8.1.1 ...``; () if it does not."""
    try:
        process = await asyncio.create_subprocess_exec(program, "--version", stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
        output, _ = await process.communicate()
    except OSError:
        return ()
    match = re.search(rb"server v=(\d+)\.(\d+)", output)
    return (int(match[1]), int(match[2])) if match else ()
