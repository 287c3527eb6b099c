"""The yardstick: what one would write without a ledger. Starlette in front, aiohttp behind, nothing kept.

It reads the call as JSON, finds the merchant, posts tool, arguments and context as JSON, reads the reply as JSON
and answers with it as `result`, as the gateway does. No key is checked, nothing is signed, no schema is looked at,
nothing is logged: less than such a proxy would do in earnest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

_MERCHANTS = {"acme": os.environ.get("BENCH_MERCHANT", "")}


@contextlib.asynccontextmanager
async def _session(app: Starlette) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1000)) as session:
        app.state.session = session
        yield


async def call(request: Request) -> JSONResponse:
    asked = await request.json()
    context = {name: asked[name] for name in ("company", "conversation", "turn", "tool_call_id")}
    body = {"tool": asked["tool"], "arguments": asked["arguments"], "context": context}
    async with request.app.state.session.post(_MERCHANTS[asked["company"]], json=body) as response:
        result = await response.json()
    return JSONResponse({"tool_call_id": asked["tool_call_id"], "status": "succeeded", "result": result})


app = Starlette(routes=[Route("/v1/calls", call, methods=["POST"])], lifespan=_session)
