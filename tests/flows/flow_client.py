"""The runtime's and the operator's side of the flow tests: plain HTTP, answers kept as they came."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp


@dataclass(frozen=True)
class Reply:
    """One answer of the gateway; `raw` for what must hold digit for digit."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def decision(self) -> str:
        assert self.status == 200, self.raw
        return str(self.json["decision"])

    @property
    def code(self) -> str:
        """Of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self.raw
        return str(self.json["code"])

    @property
    def shown(self) -> tuple[Any, Any, Any]:
        """What a repeat must show again: status, result and error."""
        body = self.json
        return body["status"], body["result"], body["error"]


def of_requests(lines: list[str]) -> list[str]:
    """Those that answering requests left in the log; what a gateway does by itself, it may say at any time."""
    return [line for line in lines if " oncegate." not in line[:48]]


class Api:
    """One caller of one gateway. `url` is asked anew each time: a restarted gateway may listen elsewhere."""

    def __init__(self, session: aiohttp.ClientSession, url: Callable[[], str], company: str, key: str = "dev") -> None:
        self.company = company
        self._session = session
        self._url = url
        self._key = key

    @property
    def url(self) -> str:
        return self._url()

    def by(self, key: str = "dev", company: str | None = None, url: Callable[[], str] | None = None) -> Api:
        """The same with another key, for another company, or at another gateway."""
        return Api(self._session, url or self._url, company or self.company, key)

    async def send(
        self, method: str, path: str, body: object = None, *, headers: dict[str, str] | None = None, **query: Any
    ) -> Reply:
        """`body`: bytes as they are, anything else as JSON. The path is sent as written."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"} | (headers or {})
        text = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
        url = aiohttp.client.URL(self._url() + path + (f"?{text}" if text else ""), encoded=True)
        content = None if data is None else io.BytesIO(data)
        expect = "Expect" in sent  # the body then waits until it is asked for
        async with self._session.request(method, url, data=content, headers=sent, expect100=expect) as answer:
            kept = {name.lower(): value for name, value in answer.headers.items()}
            return Reply(answer.status, kept, await answer.read())

    async def register(self, tool: str, endpoint: str, **fields: Any) -> Reply:
        """Put a tool, giving the company its signing secret first if it has none."""
        path = f"/v1/companies/{quote(self.company, safe='')}"
        if not (await self.send("GET", f"{path}/secrets")).json["secrets"]:
            assert (await self.send("POST", f"{path}/secrets")).status == 201
        stored = await self.send("PUT", f"{path}/tools/{quote(tool, safe='')}", {"endpoint": endpoint, **fields})
        assert stored.status == 200, stored.raw
        return stored

    async def call(
        self,
        tool_call_id: str | None,
        tool: str = "place_order",
        arguments: object = None,
        *,
        conversation: str = "c-1",
        **fields: Any,
    ) -> Reply:
        call = {
            "company": self.company,
            "conversation": conversation,
            "tool_call_id": tool_call_id,
            "tool": tool,
            "arguments": {} if arguments is None else arguments,
        }
        return await self.send("POST", "/v1/calls", {**call, **fields})

    async def raw_call(self, tool_call_id: str, arguments: str, tool: str = "place_order") -> Reply:
        """Arguments as JSON text, or what pretends to be."""
        named = f'"company":"{self.company}","conversation":"c-1","tool_call_id":"{tool_call_id}","tool":"{tool}"'
        return await self.send("POST", "/v1/calls", f'{{{named},"arguments":{arguments}}}'.encode())

    async def stored(self, tool_call_id: str, conversation: str = "c-1", **query: Any) -> list[dict[str, Any]]:
        asked = {"company": self.company, "conversation": conversation, "tool_call_id": tool_call_id, **query}
        found = await self.send("GET", "/v1/calls", **asked)
        assert found.status == 200, found.raw
        calls: list[dict[str, Any]] = found.json["calls"]
        return calls

    async def unknown(self) -> list[dict[str, Any]]:
        """The company's indeterminate effects."""
        calls: list[dict[str, Any]] = []
        query: dict[str, Any] = {"company": self.company, "status": "indeterminate"}
        while True:
            found = await self.send("GET", "/v1/calls", **query)
            calls += found.json["calls"]
            if found.json["cursor"] is None:
                return calls
            query["cursor"] = found.json["cursor"]

    async def events(self, conversation: str = "c-1") -> list[dict[str, Any]]:
        found = await self.send("GET", "/v1/events", company=self.company, conversation=conversation, limit=500)
        assert found.status == 200, found.raw
        events: list[dict[str, Any]] = found.json["events"]
        return events

    async def metric(self, series: str) -> float:
        """One series as `/metrics` shows it; 0 where it does not."""
        text = (await self.send("GET", "/metrics")).raw.decode()
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(series))
