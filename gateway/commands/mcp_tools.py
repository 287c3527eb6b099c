"""The tools of a live MCP server: `tools/list` over streamable HTTP or stdio.

A client of its own, since the official one reads without bounds and brings an HTTP stack, a web server and tracing
with it. This asks for one list and leaves: what it needs of the protocol fits on a page.

Servers of the handshake era (to 2025-11-25) and of the stateless one (2026-07-28) are both asked. `initialize` goes
first: whoever knows it answers, and whoever does not must refuse it, while an old server may stay silent on what it
does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlsplit, urlunsplit

from gateway.commands.mcp_http import HttpLink
from gateway.commands.mcp_stdio import StdioLink
from gateway.commands.mcp_wire import Budget, McpTrouble, RpcRefused
from heuristics.declared_tool import DeclaredTool, Place
from heuristics.formats import UnreadableSource, read_document
from heuristics.formats.unreadable import shown

__all__ = ["DEADLINE_S", "MAX_ANSWER_BYTES", "tools_at_url", "tools_of_command"]

DEADLINE_S: Final = 30.0
"""For the whole exchange, from the first byte to the last page."""
MAX_ANSWER_BYTES: Final = 16 << 20
"""Of everything that a server sends."""
MAX_PAGES: Final = 1_000

_HANDSHAKES: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_STATELESS: Final = "2026-07-28"
_CLIENT: Final = {"name": "oncegate", "version": "0.1.0"}
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": _STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _CLIENT,
}


class Link(Protocol):
    """One connection to a server. `request` raises RpcRefused for an error that the server answered, McpTrouble for
    everything else; `version` is sent with all that follows where the transport says so."""

    version: str | None

    async def request(self, method: str, params: Mapping[str, Any]) -> Any: ...

    async def notify(self, method: str) -> None: ...

    async def close(self) -> None: ...


async def tools_at_url(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
    max_bytes: int = MAX_ANSWER_BYTES,
) -> list[DeclaredTool]:
    """Over streamable HTTP. `headers` go with every request (`Authorization`) and are never told.

    Raises UnreadableSource: one line for a server that hangs, floods, speaks something else or refuses.
    """
    name = _without_secrets(url)
    try:
        link = HttpLink(url, headers or {}, Budget(max_bytes))
    except McpTrouble as trouble:
        raise UnreadableSource(str(trouble), Place(name)) from None
    return await _tools(link, name, deadline_s)


async def tools_of_command(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
    max_bytes: int = MAX_ANSWER_BYTES,
) -> list[DeclaredTool]:
    """Over the standard input and output of a program that is started for it and ended after it, with what it
    started itself. Raises UnreadableSource."""
    return await _tools(StdioLink(command, environ, Budget(max_bytes)), shown(command[0], 200), deadline_s)


async def _tools(link: Link, name: str, deadline_s: float) -> list[DeclaredTool]:
    try:
        async with asyncio.timeout(deadline_s):
            tools = await _all_pages(link)
    except TimeoutError:
        raise UnreadableSource(f"gave no list of tools within {deadline_s:g} s", Place(name)) from None
    except (McpTrouble, RpcRefused) as trouble:
        raise UnreadableSource(str(trouble), Place(name)) from None
    finally:
        await link.close()
    return read_document({"jsonrpc": "2.0", "result": {"tools": tools}}, name, format="mcp")


async def _all_pages(link: Link) -> list[Any]:
    meta = await _agreed(link)
    tools: list[Any] = []
    cursors: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        params = {**meta, **({"cursor": cursor} if cursor is not None else {})}
        page = await link.request("tools/list", params)
        if not isinstance(page, dict) or not isinstance(page.get("tools"), list):
            raise McpTrouble("answered tools/list with something that is no list of tools")
        tools += page["tools"]
        cursor = page.get("nextCursor")
        if cursor is None:
            return tools
        if not isinstance(cursor, str) or cursor in cursors:
            raise McpTrouble("sends its list around in a circle: a nextCursor came twice or is no text")
        cursors.add(cursor)
    raise McpTrouble(f"has over {MAX_PAGES:,} pages of tools")


async def _agreed(link: Link) -> dict[str, Any]:
    """What goes with every request that follows. Raises McpTrouble where no version is common."""
    offer = {"protocolVersion": _HANDSHAKES[0], "capabilities": {}, "clientInfo": _CLIENT}
    try:
        answer = await link.request("initialize", offer)
    except RpcRefused as refused:
        link.version = _STATELESS
        try:
            await link.request("server/discover", {"_meta": _META})
        except RpcRefused as again:
            said = " and ".join(dict.fromkeys((str(refused), str(again))))
            raise McpTrouble(f"speaks no known version of MCP here: {said}") from None
        return {"_meta": _META}
    version = answer.get("protocolVersion") if isinstance(answer, dict) else None
    if version not in _HANDSHAKES:
        raise McpTrouble(f"speaks MCP {shown(str(version))}; known are {', '.join((_STATELESS, *_HANDSHAKES))}")
    link.version = version
    await link.notify("notifications/initialized")
    return {}


def _without_secrets(url: str) -> str:
    """A URL as it may be told: a user's name, a password and a query may be credentials."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return shown(urlunsplit((parts.scheme, host, parts.path, "", "")), 300)
    except ValueError:
        return "the server"
