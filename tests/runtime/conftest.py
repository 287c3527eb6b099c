"""A small gateway on the loopback that speaks the wire and counts what it really ran."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.runtime import AsyncOncegate
from gateway.runtime.exact_json import decode, encode

sys.path.insert(0, str(Path(__file__).parent))

from played_effects import PlayedEffects

KEY = "k-verysecret"
FIELDS = {
    "company", "conversation", "tool_call_id", "tool", "arguments", "turn", "step", "attempt", "call_id_scope",
}  # fmt: skip
TOOLS = ("place_order", "get_order", "cancel_order")


@dataclass
class PlayedGateway:
    """Answers as the real one would for its small world: one company, tools that always succeed.

    `faults` are played one per request, in order: `drop_before` and `drop_after` break the connection
    before or after the work, `cut_short` in the middle of the answer, a `(status, headers, body)` triple
    is sent instead of working, None works normally."""

    faults: deque[Any] = field(default_factory=deque)
    ran: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    requests: list[web.Request] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)  # by tool: fields that replace the usual ones
    refusals: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)  # by tool
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    effects: PlayedEffects = field(default_factory=PlayedEffects)
    before: Callable[[dict[str, Any]], Awaitable[None]] | None = None
    url: str = ""

    def app(self) -> web.Application:
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.add_routes(
            [
                web.post("/v1/calls", self.calls),
                web.post("/v1/calls/batch", self.batch),
                web.get("/v1/calls", self.lookup),
                web.get("/v1/companies/{company}/tools", self.tools),
                web.get("/v1/events", self.events),
                web.post("/v1/effects", self.submit),
                web.post("/v1/effects/{effect_id}/{what}", self.report),
                web.get("/v1/approvals", self.approvals),
                web.get("/v1/approvals/{approval}", self.approval),
                web.post("/v1/approvals/{approval}/{what}", self.decide),
            ]
        )
        return app

    async def calls(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        return await self.played(request, body, lambda: self.one(json.loads(body, parse_float=str)))

    async def batch(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()

        async def work() -> tuple[int, dict[str, Any]]:
            entries = [await self.one(call) for call in json.loads(body, parse_float=str)["calls"]]
            return 200, {"answers": [entry for _, entry in entries]}

        return await self.played(request, body, work)

    async def lookup(self, request: web.Request) -> web.StreamResponse:
        async def work() -> tuple[int, Any]:
            named = request.query["tool_call_id"]
            return 200, {"calls": [one for one in self.records.values() if one["tool_call_id"] == named]}

        return await self.played(request, b"", work)

    async def tools(self, request: web.Request) -> web.StreamResponse:
        forms: dict[str, Callable[[str], dict[str, Any]]] = {
            "openai": lambda name: {"type": "function", "function": {"name": name, "parameters": {"minimum": 0.5}}},
            "anthropic": lambda name: {"name": name, "input_schema": {}},
        }

        async def work() -> tuple[int, Any]:
            return 200, {"tools": [forms[request.query["format"]](name) for name in TOOLS]}

        return await self.played(request, b"", work)

    async def events(self, request: web.Request) -> web.StreamResponse:
        async def work() -> tuple[int, Any]:
            after = int(request.query.get("after", 0))
            rows = [{"seq": seq, "type": "effect.executing"} for seq in range(1, len(self.ran) + 1)]
            return 200, {"events": [row for row in rows if row["seq"] > after]}

        return await self.played(request, b"", work)

    async def submit(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()

        async def work() -> tuple[int, Any]:
            return self.effects.submit(decode(body.decode()))

        return await self.played(request, body, work)

    async def report(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()

        async def work() -> tuple[int, Any]:
            return self.effects.report(
                request.match_info["what"], request.match_info["effect_id"], decode(body.decode())
            )

        return await self.played(request, body, work)

    async def approvals(self, request: web.Request) -> web.StreamResponse:
        async def work() -> tuple[int, Any]:
            return self.effects.page(request.query.get("cursor"))

        return await self.played(request, b"", work)

    async def approval(self, request: web.Request) -> web.StreamResponse:
        async def work() -> tuple[int, Any]:
            return 200, {"id": request.match_info["approval"], "status": "pending"}

        return await self.played(request, b"", work)

    async def decide(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()

        async def work() -> tuple[int, Any]:
            return self.effects.decide(request.match_info["approval"], request.match_info["what"], json.loads(body))

        return await self.played(request, body, work)

    async def played(
        self, request: web.Request, body: bytes, work: Callable[[], Awaitable[tuple[int, Any]]]
    ) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(body)
        if request.headers.getall("Authorization", []) != [f"Bearer {KEY}"]:
            return self.sent(401, {"code": "unauthorized", "message": "unknown key", "outcome": "not_sent"})
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, tuple):
            status, headers, text = fault
            return web.Response(status=status, headers=headers, body=text if isinstance(text, bytes) else text.encode())
        if fault == "drop_before":
            return self.broken(request)
        status, document = await work()
        if fault == "cut_short":
            return await self.cut_short(request, document)
        return self.broken(request) if fault == "drop_after" else self.sent(status, document)

    async def cut_short(self, request: web.Request, document: Any) -> web.StreamResponse:
        text = json.dumps(document).encode()
        response = web.StreamResponse(headers={"Content-Length": str(len(text))})
        await response.prepare(request)
        await response.write(text[:-5])
        self.broken(request)
        return response

    def broken(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    def sent(self, status: int, document: Any) -> web.Response:
        kind = "application/json" if status == 200 else "application/problem+json"
        return web.Response(status=status, text=encode(document), content_type=kind)

    async def one(self, call: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.before is not None:
            await self.before(call)
        if set(call) - FIELDS:
            return 400, problem("malformed", 400, message=f"unknown fields {sorted(set(call) - FIELDS)}")
        if call["tool"] in self.refusals:
            return self.refusals[call["tool"]]
        if call["tool"] not in TOOLS:
            return 404, problem("unknown_tool", 404, message="no such tool")
        named = (call.get("tool_call_id") or "").strip()
        if not named and not (call.get("turn") and call.get("attempt")):
            return 400, problem("malformed", 400, message="a side-effecting call needs an id, or turn and attempt")
        print_ = json.dumps([call["tool"], call["arguments"]], sort_keys=True)
        key = json.dumps([call["conversation"], named or [call["turn"], call["attempt"], print_]])
        record = self.records.get(key)
        if record is not None and record["print"] != print_:
            return 422, problem("tool_call_id_reused", 422, message="the id names another call")
        if record is None:
            self.ran.append(call)
            record = self.records[key] = {"print": print_, "tool_call_id": named, "order": f"MO-{1000 + len(self.ran)}"}
            return 200, self.answer(call, record, None)
        return 200, self.answer(
            call, record, {"matched": "tool_call_id", "first_at": "2026-11-29T10:00:00.120Z", "age_s": 12.4}
        )

    def answer(self, call: dict[str, Any], record: dict[str, Any], replay: Any) -> dict[str, Any]:
        done = f"Order {record['order']} placed."
        return {
            "effect_id": "ab" * 32,
            "company": call["company"],
            "conversation": call["conversation"],
            "tool_call_id": call["tool_call_id"],
            "tool": call["tool"],
            "decision": "replay" if replay else "proceed",
            "status": "succeeded",
            "side_effecting": True,
            "result": done,
            "error": None,
            "replay": replay,
            "approval": None,
            "recorded": True,
            "message": done + (" (Repeated call: nothing new was done.)" if replay else ""),
            **self.answers.get(call["tool"], {}),
        }


def problem(code: str, status: int, **more: Any) -> dict[str, Any]:
    return {"type": "about:blank", "code": code, "status": status, "retryable": False, "outcome": "not_sent", **more}


@pytest.fixture
def as_problem() -> Callable[..., dict[str, Any]]:
    return problem


@pytest.fixture
def key() -> str:
    return KEY


@pytest.fixture
async def played() -> AsyncIterator[PlayedGateway]:
    gateway = PlayedGateway()
    async with TestServer(gateway.app()) as server:
        gateway.url = str(server.make_url("")).rstrip("/")
        yield gateway


@pytest.fixture
def slept() -> list[float]:
    """The waits the client asked for; none of them takes time."""
    return []


@pytest.fixture
async def client(played: PlayedGateway, slept: list[float]) -> AsyncIterator[AsyncOncegate]:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with AsyncOncegate(played.url, KEY, sleep=sleep, jitter=lambda: 1.0) as opened:
        yield opened
