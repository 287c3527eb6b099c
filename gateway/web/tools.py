"""`/v1/companies/{company}/tools`."""

from __future__ import annotations

from gateway.core.tool_lists import tool_body, tool_list
from gateway.web.models import ToolsQuery
from gateway.web.operations import Asked
from gateway.web.replies import NO_CONTENT, Reply, json_reply
from gateway.web.services import Services


class Tools:
    def __init__(self, services: Services) -> None:
        self._register = services.register_tool

    async def listed(self, asked: Asked) -> Reply:
        """All tools of a company, in the form that was asked for."""
        query: ToolsQuery = asked.query
        tools = await self._register.tools(asked.caller, asked.path["company"])
        return json_reply({"tools": tool_list(tools, query.format)})

    async def get(self, asked: Asked) -> Reply:
        tool, findings = await self._register.get(asked.caller, asked.path["company"], asked.path["tool"])
        return json_reply(tool_body(tool, findings))

    async def put(self, asked: Asked) -> Reply:
        """The stored tool with its verdict, and what lint found (3.5)."""
        tool, findings = await self._register.put(asked.caller, asked.path["company"], asked.path["tool"], asked.body)
        return json_reply(tool_body(tool, findings))

    async def delete(self, asked: Asked) -> Reply:
        await self._register.remove(asked.caller, asked.path["company"], asked.path["tool"])
        return NO_CONTENT
