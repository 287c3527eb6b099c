"""The tools of a live MCP server: the official SDK's over both transports, and servers that misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.commands import mcp_stdio
from gateway.commands.mcp_tools import tools_at_url, tools_of_command
from heuristics.declared_tool import DeclaredTool
from heuristics.formats import UnreadableSource

Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[str]]

_OFFICIAL = """
import sys
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("shop")

@server.tool(annotations=ToolAnnotations(readOnlyHint=False, destructiveHint=True))
def cancel_order(order_id: str) -> str:
    "Cancels an order."
    return ""

@server.tool()
def find_orders(words: str, most: int = 5) -> str:
    return ""

if sys.argv[1:]:
    import uvicorn

    inner = server.streamable_http_app(json_response="json" in sys.argv, stateless_http="stateless" in sys.argv)

    async def app(scope, receive, send):
        # Only the stateless versions of the protocol, if wanted: there initialize is no method.
        if scope["type"] == "http" and "modern" in sys.argv and dict(scope["headers"]).get(b"mcp-protocol-version") is None:
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await inner(scope, receive, send)

    class Server(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    Server(uvicorn.Config(app, port=0, log_level="error")).run()
else:
    server.run("stdio")
"""


@pytest.fixture
def official(tmp_path: Path) -> str:
    pytest.importorskip("mcp")
    path = tmp_path / "official.py"
    path.write_text(_OFFICIAL)
    return str(path)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """A server of one handler at a port of its own."""
    runners: list[web.ServerRunner] = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> str:
        runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        runners.append(runner)
        return f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"

    yield start
    for runner in runners:
        await runner.cleanup()


def check_shop(tools: Sequence[DeclaredTool]) -> None:
    cancel, find = tools
    assert (cancel.name, cancel.description, cancel.format) == ("cancel_order", "Cancels an order.", "mcp")
    assert (cancel.hints.read_only, cancel.hints.destructive) == (False, True)
    assert (cancel.place.line, find.name) == (None, "find_orders")
    assert find.parameters is not None
    assert find.parameters["required"] == ["words"]


async def test_the_official_server_over_stdio_gives_its_tools(official: str) -> None:
    check_shop(await tools_of_command([sys.executable, official], deadline_s=120))


@pytest.mark.parametrize("how", ["stream", "json", "stateless", "modern"])
async def test_the_official_server_over_http_gives_its_tools(official: str, how: str) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, official, how, stdout=pipe)
    try:
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), 120))
        check_shop(await tools_at_url(f"http://127.0.0.1:{port}/mcp", deadline_s=120))
    finally:
        process.kill()
        await process.communicate()


def answer(request: dict[str, Any], result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def shop(
    pages: Sequence[dict[str, Any]], seen: list[tuple[str, Any]] | None = None, version: str = "2025-06-18"
) -> Any:
    """A handler of the handshake era that gives its list in pages."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE":
            seen is None or seen.append(("DELETE", request.headers["Mcp-Session-Id"]))
            return web.Response()
        sent = await request.json()
        if seen is not None:
            seen.append((sent["method"], request.headers.get("MCP-Protocol-Version")))
        if sent["method"] == "initialize":
            return web.json_response(answer(sent, {"protocolVersion": version}), headers={"Mcp-Session-Id": "s1"})
        if "id" not in sent:
            return web.Response(status=202)
        return web.json_response(answer(sent, pages[int(sent["params"].get("cursor", "0"))]))

    return handler


def page(name: str, cursor: Any = None) -> dict[str, Any]:
    return {"tools": [{"name": name, "inputSchema": {}}], **({"nextCursor": cursor} if cursor is not None else {})}


async def test_all_pages_are_asked_for_in_the_version_that_was_agreed_on(serve: Serve) -> None:
    seen: list[tuple[str, Any]] = []
    url = await serve(shop([page("a", "1"), page("b", "2"), page("c")], seen))
    assert [tool.name for tool in await tools_at_url(url)] == ["a", "b", "c"]
    assert seen == [
        ("initialize", None),
        ("notifications/initialized", "2025-06-18"),
        *[("tools/list", "2025-06-18")] * 3,
        ("DELETE", "s1"),
    ]


async def test_a_stream_of_events_is_read_in_any_pieces(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        sent = await request.json()
        if "id" not in sent:
            return web.Response(status=202)
        result = {"protocolVersion": "2025-11-25"} if sent["method"] == "initialize" else page("größe")
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
        text = json.dumps(answer(sent, result), indent=1, ensure_ascii=False).replace("\n", "\ndata: ")
        body = f": hello\r\n\r\nid: 1\r\ndata: {json.dumps(note)}\r\n\r\nevent: message\ndata:{text}\n\n".encode()
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        for start in range(0, len(body), 7):
            await reply.write(body[start : start + 7])
        return reply

    assert [tool.name for tool in await tools_at_url(await serve(handler))] == ["größe"]


async def said(asking: Awaitable[Any]) -> str:
    with pytest.raises(UnreadableSource) as caught:
        await asking
    text = str(caught.value)
    assert text.isprintable()
    return text


def always(status: int = 200, body: bytes = b"", kind: str = "application/json", **headers: str) -> Any:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers={"Content-Type": kind, **headers})

    return handler


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (always(body=b"<html>", kind="text/html"), "text/html, neither JSON nor a stream of events"),
        (always(body=b"{"), "sent something that is not valid JSON"),
        (always(body=b"[1]"), "is no MCP message"),
        (always(body=b"\xff"), "not UTF-8"),
        (always(body=b"[" * 1_000_000), "deeper than 128"),
        (always(body=b""), "without an answer to initialize"),
        (always(body=b": x\n\n", kind="text/event-stream"), "without an answer to initialize"),
        (always(401), "wants a credential"),
        (always(302, Location="http://elsewhere.example/"), "a redirect, which is not followed"),
        (always(404), "it answered 404"),
        (always(503), "answered 503"),
        (always(body=b'"' + b"x" * 2_000_000 + b'"'), "sent over 1,000,000 bytes"),
        (shop([page("a", "0")]), "circle"),
        (shop([page("a", 7)]), "circle"),
        (shop([{"tools": 1}]), "no list of tools"),
        (shop([{"tools": [1]}]), "a tool must be an object"),
        (shop([], version="2099-01-01"), "speaks MCP 2099-01-01"),
    ],
)
async def test_a_server_that_misbehaves_gets_one_line(serve: Serve, handler: Any, words: str) -> None:
    url = await serve(handler)
    text = await said(tools_at_url(url + "?key=secret", headers={"Authorization": "secret"}, max_bytes=1_000_000))
    assert words in text
    assert text.startswith(url + ": ")
    assert "secret" not in text


async def test_a_server_that_hangs_is_left_at_the_deadline(serve: Serve) -> None:
    released = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    assert "within 0.2 s" in await said(tools_at_url(await serve(hang), deadline_s=0.2))
    released.set()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/mcp", "http://[/mcp", "ftp://shop.example", "http://shop.invalid./"]
)
async def test_a_url_that_leads_nowhere_gets_one_line(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "invalid" in url:  # some networks know every name, others answer none for half a minute

        def unknown(*_: Any, **__: Any) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
    text = await said(tools_at_url(url))
    assert any(words in text for words in ("cannot be reached", "not a URL"))


# What a program gets to run: each reads requests and answers with what `reply(request)` says.
_PROGRAM = """
import json, sys
def answer(result): return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})
for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") == "initialize":
        print(answer({"protocolVersion": "2025-06-18"}), flush=True)
    elif "method" in request and "id" in request:
        exec(sys.argv[1])
"""


async def test_a_program_may_ask_and_tell_while_it_is_asked() -> None:
    code = """
print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message"}))
for asked in ("ping", "roots/list"):
    print(json.dumps({"jsonrpc": "2.0", "id": "own", "method": asked}), flush=True)
    told = json.loads(sys.stdin.readline())
    assert told["id"] == "own" and (("result" in told) if asked == "ping" else ("error" in told))
print()
print(answer({"tools": [{"name": "a", "inputSchema": {}}]}), flush=True)
"""
    assert [tool.name for tool in await tools_of_command([sys.executable, "-c", _PROGRAM, code])] == ["a"]


@pytest.mark.parametrize(
    ("code", "words"),
    # Whatever is not about its deadline gets more than a slow machine needs to start a program.
    [
        ("sys.exit('no database')", "ended with exit status 1 before it answered; it said: no database"),
        ("print('hello', flush=True)", "sent something that is not valid JSON: expecting value: it begins 'hello'"),
        ("print('[1]', flush=True)", "no MCP message"),
        ("print(answer(7), flush=True)", "no list of tools"),
        ("while True: sys.stdout.write('x' * 65536)", "sent over 1,000,000 bytes"),
        ("while True: sys.stderr.write('x' * 65536)", "within 1 s"),
        ("import os; os.close(1); sys.stdin.read()", "closed its output without an answer"),
    ],
)
async def test_a_program_that_misbehaves_gets_one_line_and_is_ended(
    monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    monkeypatch.setattr(mcp_stdio, "_GRACE_S", 0.2)
    command = [sys.executable, "-c", _PROGRAM, code]
    assert words in await said(
        tools_of_command(command, deadline_s=1 if words == "within 1 s" else 120, max_bytes=1_000_000)
    )


async def test_what_a_program_started_is_ended_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mcp_stdio, "_GRACE_S", 0.2)
    pipe = tmp_path / "held"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    code = f"""
import os, signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = os.open({str(pipe)!r}, os.O_WRONLY)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], pass_fds=[held])
os.write(held, b"x")
print("junk", flush=True)
while True: signal.pause()
"""
    try:
        assert "begins 'junk'" in await said(tools_of_command([sys.executable, "-c", _PROGRAM, code]))
        os.set_blocking(reader, True)
        assert os.read(reader, 2) == b"x"
        # The end of the pipe comes when the last that holds it has ended.
        assert await asyncio.wait_for(asyncio.to_thread(os.read, reader, 1), 120) == b""
    finally:
        os.close(reader)


async def test_a_program_that_cannot_be_started_gets_one_line() -> None:
    assert "cannot be started: No such file" in await said(tools_of_command(["/nonexistent/server"]))
    assert "zero byte" in await said(tools_of_command(["a\0b"]))
