"""Brings companies from configuration files into the registry at start, by the way every registration goes.

So their tools have verdicts, versions and events like any other, and a restart with the same files changes
nothing. A tool that a file no longer has is removed, if it came from a file.
"""

from __future__ import annotations

import logging
from typing import Final

from gateway.core.errors import ConfigError, RegistrationRefused
from gateway.core.registration import FromFile
from gateway.service.register_tool import RegisterTool
from gateway.service.registry import Registry

_log = logging.getLogger(__name__)

BY: Final = "configuration"


class AdoptFiles:
    """Run once at start, before the first call. Raises LedgerUnavailable, and ConfigError with every refusal."""

    def __init__(self, *, registry: Registry, tools: RegisterTool) -> None:
        self._registry = registry
        self._tools = tools

    async def __call__(self) -> None:
        await self._registry.reload()
        problems: list[str] = []
        for filed in self._registry.files():
            problems += await self._adopt(filed)
        if problems:
            raise ConfigError(problems)
        for company in sorted({each.company for each in self._registry.stored_tools()}):
            await self._tools.judge_anew(company, BY)
        self._warn_of_orphans()

    async def _adopt(self, filed: FromFile) -> list[str]:
        problems: list[str] = []
        for name, declared in filed.tools.items():
            try:
                await self._tools.store(filed.company, name, declared, "file", BY)
            except RegistrationRefused as refused:
                problems.append(f"{filed.file}, tools.{name}: {refused.message}")
        for each in self._registry.stored_tools(filed.company):
            if each.source == "file" and each.tool is not None and each.name not in filed.tools:
                await self._tools.drop(filed.company, each.name, "file", BY)
        return problems

    def _warn_of_orphans(self) -> None:
        filed = {each.company for each in self._registry.files()}
        stored = [each for each in self._registry.stored_tools() if each.source == "file" and each.tool is not None]
        orphans = sorted({each.company for each in stored} - filed)
        if orphans:
            # Another gateway on this ledger may have the file: removing them here would be removing them there.
            _log.warning("tools of %s came from a file that this gateway does not have; they stay", ", ".join(orphans))
