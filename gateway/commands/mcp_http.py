"""MCP over streamable HTTP: each message is a POST, answered with JSON or with a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from gateway.commands.mcp_wire import Budget, McpTrouble, RpcRefused, encoded, read_message, result_of
from heuristics.formats.unreadable import shown

if TYPE_CHECKING:
    import aiohttp

__all__ = ["HttpLink"]

_GOODBYE_S: Final = 2.0
_WRONG_KEY: Final = (401, 403)


class HttpLink:
    """Redirects are not followed: headers may hold a credential that is meant for this server alone."""

    def __init__(self, url: str, headers: Mapping[str, str], budget: Budget) -> None:
        """Raises McpTrouble for another kind of URL."""
        if not url.startswith(("http://", "https://")):
            raise McpTrouble("is not a URL of a server: it must begin with http:// or https://")
        self.version: str | None = None
        self._url = url
        self._headers = dict(headers)
        self._budget = budget
        self._number = 0
        self._session_id: str | None = None
        self._client: aiohttp.ClientSession | None = None

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        self._number += 1
        async with _told(), self._post(method, encoded(method, params, self._number)) as answer:
            if method == "initialize":
                self._session_id = answer.headers.get("Mcp-Session-Id")
            async for data in self._messages(answer):
                message = read_message(data)
                if message.get("id") == self._number and "method" not in message:
                    return result_of(message)
                if answer.status >= 400 and "error" in message:
                    return result_of(message)
            _refuse_status(answer)
            raise McpTrouble(f"closed the stream without an answer to {method}")

    async def notify(self, method: str) -> None:
        async with _told(), self._post(method, encoded(method, {})) as answer:
            _refuse_status(answer)

    async def close(self) -> None:
        """Ends the session, if there is one, within two seconds."""
        if self._client is None:
            return
        try:
            if self._session_id is not None:
                async with asyncio.timeout(_GOODBYE_S), self._client.delete(self._url, headers=self._all_headers()):
                    pass
        except Exception:  # noqa: S110 (the list is had; a server may forget a session by itself)
            pass
        finally:
            await self._client.close()

    def _post(self, method: str, body: bytes) -> aiohttp.client._RequestContextManager:
        import aiohttp

        if self._client is None:
            nobody = aiohttp.ClientTimeout(total=None)  # the deadline is that of the whole exchange
            self._client = aiohttp.ClientSession(timeout=nobody, trust_env=True)
        headers = {**self._all_headers(), "Mcp-Method": method} if self.version else self._all_headers()
        return self._client.post(self._url, data=body, headers=headers, allow_redirects=False)

    def _all_headers(self) -> dict[str, str]:
        headers = {**self._headers, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        # What is counted is what came: nothing may unfold to more.
        headers["Accept-Encoding"] = "identity"
        if self.version is not None:
            headers["MCP-Protocol-Version"] = self.version
        if self._session_id is not None:
            headers["Mcp-Session-Id"] = self._session_id
        return headers

    async def _messages(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        kind = answer.content_type
        if kind == "text/event-stream":
            async for data in self._events(answer):
                yield data
        elif kind == "application/json":
            whole = bytearray()
            async for chunk in answer.content.iter_any():
                self._budget.take(len(chunk))
                whole += chunk
            if whole.strip():
                yield bytes(whole)
        elif answer.status < 300:
            raise McpTrouble(f"answered with {shown(kind)}, neither JSON nor a stream of events: is this its MCP URL?")

    async def _events(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """The data of each event; a line ends with LF, CR LF or CR."""
        rest = b""
        data: list[bytes] = []
        async for chunk in answer.content.iter_any():
            self._budget.take(len(chunk))
            *lines, rest = _split(rest + chunk) if b"\n" in chunk or b"\r" in chunk else [rest + chunk]
            for line in lines:
                if line.startswith(b"data:"):
                    data.append(line[5:].removeprefix(b" "))
                elif not line and data:
                    yield b"\n".join(data)
                    data = []


def _split(data: bytes) -> list[bytes]:
    # A CR at the end may be half of a CR LF: it stays with the rest.
    held = data.endswith(b"\r")
    lines = (data[:-1] if held else data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    if held:
        lines[-1] += b"\r"
    return lines


def _refuse_status(answer: aiohttp.ClientResponse) -> None:
    if answer.status in _WRONG_KEY:
        raise McpTrouble(f"answered {answer.status}: it wants a credential, or another one")
    if 300 <= answer.status < 400:
        raise McpTrouble(f"answered {answer.status}, a redirect, which is not followed: give the URL it leads to")
    if answer.status >= 500:
        raise McpTrouble(f"answered {answer.status}")
    if answer.status >= 400:
        raise RpcRefused(f"it answered {answer.status}")


class _told:  # noqa: N801 (used like a function)
    """What the HTTP library raises, in one line without the URL."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import aiohttp

        if isinstance(error, aiohttp.InvalidURL):
            raise McpTrouble("is not a URL that can be called") from None
        if isinstance(error, aiohttp.ClientConnectorError):
            raise McpTrouble(
                f"cannot be reached: {shown(error.strerror or type(error.os_error).__name__, 200)}"
            ) from None
        if isinstance(error, aiohttp.ClientError | OSError | ValueError):
            raise McpTrouble(f"broke off the exchange ({type(error).__name__})") from None
