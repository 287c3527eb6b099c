"""Lua scripts as package data, run by their hash and never skipped.

A server that restarted, failed over or was flushed has forgotten every script. It says NOSCRIPT, and
then the full text is sent: a guard that is left out because its hash was unknown would be an order
placed twice.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from gateway.adapters.redis_commands import Argument, ScriptMissing, SendsCommands

_FOLDER: Final = files("gateway.adapters").joinpath("lua")


class Script:
    """One Lua script. Keys come first in ``keys``, so that a cluster can route it; the rest are ``args``."""

    __slots__ = ("name", "sha", "source")

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source
        # Redis names scripts by SHA-1; nothing here rests on its strength.
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    def __repr__(self) -> str:
        return f"Script({self.name!r}, sha={self.sha})"

    @classmethod
    def load(cls, name: str, folder: Traversable = _FOLDER) -> Script:
        """The script in ``gateway/adapters/lua/<name>.lua``; FileNotFoundError if the package lacks it."""
        return cls(name, folder.joinpath(f"{name}.lua").read_text(encoding="utf-8"))

    async def run(self, commands: SendsCommands, keys: Sequence[Argument], args: Sequence[Argument]) -> Any:
        """Run it and return its reply. Raises what ``Commands.do`` raises, except ScriptMissing."""
        try:
            return await self.asked(commands, keys, args)
        except ScriptMissing:
            return await self.told(commands, keys, args)

    def asked(self, commands: SendsCommands, keys: Sequence[Argument], args: Sequence[Argument]) -> Awaitable[Any]:
        """The reply of a server that knows it; ScriptMissing of one that has to be `told`."""
        return commands.do("EVALSHA", self.sha, len(keys), *keys, *args)

    def told(self, commands: SendsCommands, keys: Sequence[Argument], args: Sequence[Argument]) -> Awaitable[Any]:
        """Its reply, sent in full."""
        return commands.do("EVAL", self.source, len(keys), *keys, *args)

    async def run_each(
        self, commands: SendsCommands, calls: Sequence[tuple[Sequence[Argument], Sequence[Argument]]]
    ) -> list[Any]:
        """Run it once for each (keys, args), all in one write where there is one server; all replies in order."""
        if len(calls) < 2 or not commands.one_server:
            return await asyncio.gather(*(self.run(commands, keys, args) for keys, args in calls))
        tails = [(len(keys), *keys, *args) for keys, args in calls]
        try:
            return await commands.do_together(*[("EVALSHA", self.sha, *tail) for tail in tails])
        except ScriptMissing:
            # None of them has run: one connection reaches one server, which knows the script or does not.
            return await commands.do_together(*[("EVAL", self.source, *tail) for tail in tails])

    async def run_before(
        self,
        commands: SendsCommands,
        keys: Sequence[Argument],
        args: Sequence[Argument],
        followers: Sequence[tuple[Argument, ...]],
    ) -> list[Any]:
        """Run it, then ``followers`` (WAIT, WAITAOF) on the same connection; all replies, its own first."""
        tail = (len(keys), *keys, *args)
        try:
            return await commands.do_together(("EVALSHA", self.sha, *tail), *followers)
        except ScriptMissing:
            return await commands.do_together(("EVAL", self.source, *tail), *followers)
