"""MCP over the standard input and output of a program: one message a line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.commands.mcp_wire import Budget, McpTrouble, encoded, read_message, result_of
from heuristics.formats.unreadable import shown

__all__ = ["StdioLink"]

_CHUNK: Final = 1 << 16
_LAST_WORDS: Final = 2_000
_GRACE_S: Final = 2.0
"""Between closing its input, asking it to end, and ending it."""


class StdioLink:
    def __init__(self, command: Sequence[str], environ: Mapping[str, str] | None, budget: Budget) -> None:
        self.version: str | None = None
        self._command = command
        self._environ = environ
        self._budget = budget
        self._number = 0
        self._process: asyncio.subprocess.Process | None = None
        self._rest = bytearray()
        self._lines: list[bytes] = []
        self._said = b""
        self._listening: asyncio.Task[None] | None = None

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        self._number += 1
        await self._send(encoded(method, params, self._number))
        while True:
            message = read_message(await self._line())
            if "method" in message:
                await self._answer(message)
            elif message.get("id") == self._number:
                return result_of(message)

    async def notify(self, method: str) -> None:
        await self._send(encoded(method, {}))

    async def close(self) -> None:
        """Closes the program's input, then asks it and what it started to end, then ends them."""
        process, listening = self._process, self._listening
        if process is None or listening is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        # What it still writes must not keep it from ending.
        draining = asyncio.create_task(self._drain(process))
        for what in (None, signal.SIGTERM, signal.SIGKILL):
            if what is not None:
                with contextlib.suppress(OSError):  # the group of the program, which may be gone
                    os.killpg(process.pid, what)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await process.wait()
                    break
        with contextlib.suppress(OSError):  # what the program started and left behind
            os.killpg(process.pid, signal.SIGKILL)
        for task in (draining, listening):
            task.cancel()
        await asyncio.gather(draining, listening, return_exceptions=True)
        process._transport.close()  # type: ignore[attr-defined]  # pipes that a left child still holds

    async def _start(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=pipe, env=self._environ, start_new_session=True
            )
        except (OSError, ValueError) as wrong:
            reason = wrong.strerror if isinstance(wrong, OSError) else "its command line holds a zero byte"
            raise McpTrouble(f"cannot be started: {reason}") from None
        self._process = process
        self._listening = asyncio.create_task(self._listen(process))
        return process

    async def _send(self, message: bytes) -> None:
        process = self._process or await self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(message + b"\n")
            await process.stdin.drain()
        except OSError:
            raise McpTrouble(await self._ended(process)) from None

    async def _answer(self, message: Mapping[str, Any]) -> None:
        """A server may ask something itself and wait for the answer; notifications have no id."""
        if "id" not in message:
            return
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": -32601, "message": "not offered"}
        await self._send(json.dumps(answer).encode())

    async def _line(self) -> bytes:
        """The next line that is not empty."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        while not self._lines:
            chunk = await process.stdout.read(_CHUNK)
            if not chunk:
                raise McpTrouble(await self._ended(process))
            self._budget.take(len(chunk))
            *whole, rest = chunk.split(b"\n")
            if whole:
                whole[0] = bytes(self._rest) + whole[0]
                self._rest.clear()
            self._rest += rest
            self._lines = [line for line in reversed(whole) if line.strip()]
        return self._lines.pop()

    async def _ended(self, process: asyncio.subprocess.Process) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await process.wait()
                if self._listening is not None:
                    await asyncio.shield(self._listening)
        said = self._said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        words = f"; it said: {shown(said, 200)}" if said else ""
        if process.returncode is None:
            return f"closed its output without an answer{words}"
        return f"ended with exit status {process.returncode} before it answered{words}"

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Keeps the last words of what it writes for people, and never lets it wait for a reader."""
        assert process.stderr is not None
        while chunk := await process.stderr.read(_CHUNK):
            self._said = (self._said + chunk)[-_LAST_WORDS:]

    @staticmethod
    async def _drain(process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while await process.stdout.read(_CHUNK):
            pass
