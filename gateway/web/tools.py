"""`/v1/companies/{company}/tools`."""

from __future__ import annotations

import msgspec

from gateway.core.errors import UnknownTool
from gateway.core.rights import Right, may
from gateway.web.models import ToolsQuery
from gateway.web.operations import Asked
from gateway.web.replies import NO_CONTENT, Reply, json_reply
from gateway.web.services import Services
from gateway.web.tool_forms import FORMS, shown


class Tools:
    def __init__(self, services: Services) -> None:
        self._registry = services.registry
        self._register = services.register_tool

    async def list(self, asked: Asked) -> Reply:
        """All tools of a company, in the form that was asked for."""
        company = asked.path["company"]
        may(asked.caller, Right.READ_TOOLS, company)
        query: ToolsQuery = asked.query
        form = FORMS[query.format]
        return json_reply({"tools": [form(tool) for tool in self._registry.tools(company)]})

    async def get(self, asked: Asked) -> Reply:
        company, name = asked.path["company"], asked.path["tool"]
        may(asked.caller, Right.READ_TOOLS, company)
        tool = self._registry.tool(company, name)
        if tool is None:
            near = self._registry.nearest_tools(company, name)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            raise UnknownTool(f"there is no such tool{hint}", details={"fields": near} if near else None)
        return json_reply(shown(tool))

    async def put(self, asked: Asked) -> Reply:
        """The stored tool with its verdict, and what lint found (3.5)."""
        tool, findings = await self._register.put(
            asked.caller, asked.path["company"], asked.path["tool"], asked.body
        )
        return json_reply({**shown(tool), "findings": [msgspec.to_builtins(finding) for finding in findings]})

    async def delete(self, asked: Asked) -> Reply:
        await self._register.remove(asked.caller, asked.path["company"], asked.path["tool"])
        return NO_CONTENT
