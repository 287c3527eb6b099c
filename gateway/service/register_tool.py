"""Registering and removing a company's tools (3.3, 3.5, 3.6): checked for form, judged, versioned, logged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from gateway.core import registration
from gateway.core import registry_documents as documents
from gateway.core.addresses import REFUSALS, AddressRefused
from gateway.core.conversation import Event, EventLog
from gateway.core.errors import Malformed, NotFound, RegistrationRefused
from gateway.core.findings import REFUSING, Finding, findings
from gateway.core.model import Company, Principal, Tool
from gateway.core.ports import Clock, Documents, Ledger
from gateway.core.registration import Declared, Source, StoredTool
from gateway.core.rights import Right, may
from gateway.core.tool_lists import finding_body
from gateway.service.changing import changed
from gateway.service.declarations import NotAcceptable, Problem, read_tool
from gateway.service.registry import Registry

MAX_TOOLS: Final = 2_000
"""Tools a company may have."""
CHECK_ENDPOINT_S: Final = 5.0

CheckEndpoint = Callable[[str], Awaitable[object]]
"""Judges an endpoint's URL and the addresses behind its name (9.2). Raises AddressRefused."""


class SchemaCheck(Protocol):
    """Says what is wrong with a tool's parameters as JSON Schema 2020-12."""

    def schema_problems(self, parameters: Mapping[str, Any]) -> list[Problem]: ...


class RegisterTool:
    """Every method asks for the right first, and raises Forbidden before it looks at anything else."""

    def __init__(
        self,
        *,
        registry: Registry,
        stored: Documents,
        ledger: Ledger,
        schemas: SchemaCheck,
        check_endpoint: CheckEndpoint,
        clock: Clock,
        platform_overrides: Mapping[str, bool],
    ) -> None:
        self._registry = registry
        self._documents = stored
        self._ledger = ledger
        self._schemas = schemas
        self._check_endpoint = check_endpoint
        self._clock = clock
        self._platform = platform_overrides

    async def put(self, principal: Principal, company: str, tool: str, body: object) -> tuple[Tool, list[Finding]]:
        """Register, or register anew. An identical registration keeps the version, so it is safe to repeat.

        Raises Forbidden, Malformed (the body's form), RegistrationRefused (names, schema, endpoints, findings;
        every problem at once in `details.fields`), LedgerUnavailable, VersionConflict.
        """
        may(principal, Right.WRITE_TOOLS, company)
        try:
            declared = read_tool(body)
        except NotAcceptable as wrong:
            raise Malformed("the tool's body is not acceptable", details={"fields": wrong.problems}) from None
        problems = [*name_problems(company, tool), *self._schemas.schema_problems(declared.parameters)]
        problems += await self._endpoint_problems(declared)
        if problems:
            raise RegistrationRefused("the tool is not acceptable", details={"fields": problems})
        return await self.store(company, tool, declared, "api", principal.name)

    async def remove(self, principal: Principal, company: str, tool: str) -> None:
        """Remove it; its recorded calls stay looked up (3.6). Raises Forbidden, NotFound, RegistrationRefused."""
        may(principal, Right.WRITE_TOOLS, company)
        await self.drop(company, tool, "api", principal.name)

    async def get(self, principal: Principal, company: str, tool: str) -> tuple[Tool, list[Finding]]:
        """The stored tool and what registration would remark now. Raises Forbidden, NotFound."""
        may(principal, Right.READ_TOOLS, company)
        await self._registry.refresh()
        found = self._registry.tool(company, tool)
        if found is None:
            raise NotFound("The company has no such tool.")
        return found, self.findings_on(found)

    async def tools(self, principal: Principal, company: str) -> list[Tool]:
        """All of a company's tools, by name. Raises Forbidden."""
        may(principal, Right.READ_TOOLS, company)
        await self._registry.refresh()
        return self._registry.tools(company)

    def findings_on(self, tool: Tool) -> list[Finding]:
        """What registration remarks about a stored tool among its company's others."""
        heuristic = self._registry.company(tool.company).heuristic
        return findings(tool.name, registration.declared_by(tool), tool.verdict, self._names(tool.company), heuristic)

    async def store(
        self, company: str, tool: str, declared: Declared, source: Source, by: str
    ) -> tuple[Tool, list[Finding]]:
        """Judge and store a tool whose form was checked. For callers that have the right to."""
        document = await self._change(company, tool, partial(self._registered, company, tool, declared, source))
        await self._announce(document, "tool.registered", by)
        assert document.tool is not None
        return document.tool, self.findings_on(document.tool)

    async def drop(self, company: str, tool: str, source: Source, by: str) -> None:
        """Remove a tool. For callers that have the right to."""
        document = await self._change(company, tool, partial(self._removed, company, tool, source))
        await self._announce(document, "tool.removed", by)

    async def judge_anew(self, company: str, by: str) -> None:
        """Give stored tools the verdict of the overrides and heuristic that hold now; see `overtaken`."""
        for each in self._registry.stored_tools(company):
            if each.tool is not None:
                document = await self._change(company, each.name, partial(self._judged, company))
                await self._announce(document, "tool.registered", by)

    def _registered(
        self, company_name: str, name: str, declared: Declared, source: Source, before: StoredTool | None
    ) -> StoredTool:
        company = self._registry.company(company_name)
        names = self._names(company_name)
        if source == "api":
            self._refuse_filed(company_name, name)
        if len(names | {name}) > MAX_TOOLS:
            raise RegistrationRefused(f"A company may have at most {MAX_TOOLS:,} tools.")
        verdict = registration.verdict_on(name, declared, company, names, self._platform)
        _refuse_findings(company, findings(name, declared, verdict, names, company.heuristic))
        return registration.registered(before, company, name, declared, verdict, source, self._clock.wall_ms())

    def _removed(self, company_name: str, name: str, source: Source, before: StoredTool | None) -> StoredTool:
        if before is None or (before.tool is None and before.announced):
            raise NotFound("The company has no such tool.")
        if source == "api":
            self._refuse_filed(company_name, name)
        if before.tool is None:
            return before  # removed by a try that could not log it: only the log is behind
        return registration.removed(before, self._registry.company(company_name), self._clock.wall_ms())

    def _judged(self, company_name: str, before: StoredTool | None) -> StoredTool:
        assert before is not None  # tools' documents are never deleted
        if before.tool is None:
            return before
        company = self._registry.company(company_name)
        names = self._names(company_name)
        declared = registration.declared_by(before.tool)
        fresh = registration.verdict_on(before.name, declared, company, names, self._platform)
        if not registration.overtaken(before.tool.verdict, fresh):
            return before
        now_ms = self._clock.wall_ms()
        return registration.registered(before, company, before.name, declared, fresh, before.source, now_ms)

    def _names(self, company: str) -> set[str]:
        """Also those that a file is about to bring: what names share must not depend on which comes first."""
        filed = self._registry.file_of(company)
        return {*(tool.name for tool in self._registry.tools(company)), *(filed.tools if filed is not None else ())}

    def _refuse_filed(self, company: str, tool: str) -> None:
        filed = self._registry.file_of(company)
        if filed is not None and tool in filed.tools:
            raise RegistrationRefused(f"This tool is defined in the gateway's file {filed.file}; change it there.")

    async def _change(self, company: str, tool: str, decide: Callable[[StoredTool | None], StoredTool]) -> StoredTool:
        document = await changed(
            self._documents, self._registry, documents.tool_document(company, tool), StoredTool, decide
        )
        assert document is not None
        return document

    async def _announce(self, document: StoredTool, type_: str, by: str) -> None:
        """Log this version unless it is logged. Marked afterwards: a try that breaks off here is made good by the
        next identical one, at worst with a second line."""
        if document.announced:
            return
        company = self._registry.company(document.company)
        data: dict[str, object] = {"tool": document.name, "version": document.version, "by": by}
        if document.tool is not None:
            verdict = document.tool.verdict
            data |= {"side_effecting": verdict.side_effecting, "source": verdict.source, "reason": verdict.reason}
        await self._ledger.append(
            EventLog(document.company), [Event(type_, None, data)], int(company.retention_s * 1000)
        )
        await self._change(document.company, document.name, partial(_announced, document.version))

    async def _endpoint_problems(self, declared: Declared) -> list[Problem]:
        urls = {"/endpoint": declared.endpoint, "/status_endpoint": declared.status_endpoint}
        checks = [self._endpoint_problem(field, url) for field, url in urls.items() if url is not None]
        return [problem for problem in await asyncio.gather(*checks) if problem is not None]

    async def _endpoint_problem(self, field: str, url: str) -> Problem | None:
        try:
            async with asyncio.timeout(CHECK_ENDPOINT_S):
                await self._check_endpoint(url)
        except AddressRefused as refused:
            return {"field": field, "problem": str(refused)}
        except TimeoutError:
            return {"field": field, "problem": REFUSALS["unresolved"]}
        return None


def name_problems(company: str, tool: str) -> list[Problem]:
    """What is wrong with the names in the path."""
    found = {"company": registration.company_problem(company), "tool": registration.name_problem(tool)}
    return [{"field": field, "problem": problem} for field, problem in found.items() if problem is not None]


def _announced(version: int, before: StoredTool | None) -> StoredTool:
    assert before is not None
    if before.version != version:
        return before  # changed meanwhile, and not yet logged as such
    return StoredTool(
        before.format,
        before.company,
        before.name,
        before.version,
        before.source,
        before.protected_until_ms,
        True,
        before.tool,
    )


def _refuse_findings(company: Company, found: list[Finding]) -> None:
    if company.on_finding != "refuse":
        return
    refusing = [each for each in found if each.severity in REFUSING]
    if refusing:
        raise RegistrationRefused(
            " ".join(each.message for each in refusing), details={"findings": [finding_body(each) for each in refusing]}
        )
