"""The yardstick: what one would write without a ledger. Starlette in front, aiohttp behind, nothing kept.

It reads the call as JSON, finds the merchant, posts tool and arguments and hands the merchant's body back as
it came: no key, no signature, no schema, no record. That is less than such a proxy would do in earnest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_MERCHANTS = {"acme": os.environ.get("BENCH_MERCHANT", "")}


@contextlib.asynccontextmanager
async def _session(app: Starlette) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1000)) as session:
        app.state.session = session
        yield


async def call(request: Request) -> Response:
    document = await request.json()
    body = {"tool": document["tool"], "arguments": document["arguments"]}
    async with request.app.state.session.post(_MERCHANTS[document["company"]], json=body) as response:
        content = await response.read()
        return Response(content, response.status, media_type="application/json")


app = Starlette(routes=[Route("/v1/calls", call, methods=["POST"])], lifespan=_session)
