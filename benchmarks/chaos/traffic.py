"""The assistant's side: conversations asked as broken networks make one ask, every answer kept."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from benchmarks.chaos.plan import Ask, Script, script
from benchmarks.processes import DEV_KEY

SIDE_BY_SIDE: Final = 24
PATIENCE_S: Final = 4.0
HANGS_UP: Final = 0.12
"""How often the caller's side loses the answer by itself."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request; `status` 0: nothing was heard. Times are this process's, seconds."""

    ask: Ask
    request: str
    sent: float
    heard: float
    at: str
    status: int
    body: dict[str, Any]
    calm: bool = False
    """Asked when everything was up again: the last word."""

    @property
    def effect(self) -> str | None:
        return self.body.get("effect_id") if self.status == 200 else None

    @property
    def said(self) -> str:
        """Short, for a story."""
        if self.status == 0:
            return str(self.body.get("fault"))
        error = self.body.get("error") or {}
        if self.status != 200:
            return f"HTTP {self.status} {self.body.get('code')} outcome={self.body.get('outcome')}"
        recorded = "" if self.body.get("recorded") else " unrecorded"
        shown = self.body.get("result") or error.get("code")
        first = self.body.get("first")
        also = f" first={first.get('status')} {first.get('result')}" if first else ""
        return f"{self.body['decision']} {self.body['status']}{recorded} {shown}{also} effect={str(self.effect)[:12]}"


class Traffic:
    """Runs scripts until told to pause; `urls` are the replicas, each through its misbehaving link."""

    def __init__(self, seed: int, urls: Sequence[str]) -> None:
        self.answers: list[Answer] = []
        self.scripts: list[Script] = []
        self.requests = 0
        self._seed = seed
        self._urls = list(urls)
        self._dice = random.Random(f"{seed}/traffic")
        self._number = 0
        self._going = False
        self._workers: list[asyncio.Task[None]] = []
        # No connection is kept: one to a gateway that was killed meanwhile tells nothing new.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        headers = {"Authorization": f"Bearer {DEV_KEY}", "Content-Type": "application/json"}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False)

    async def close(self) -> None:
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        await self._session.close()

    def go(self) -> None:
        self.answers, self.scripts, self._going = [], [], True
        self._workers = [asyncio.create_task(self._work()) for _ in range(SIDE_BY_SIDE)]

    async def pause(self) -> None:
        """Every conversation that has begun ends first."""
        self._going = False
        await asyncio.gather(*self._workers)

    async def _work(self) -> None:
        while self._going:
            self._number += 1
            conversation = script(self._seed, self._number)
            self.scripts.append(conversation)
            for stage in conversation.stages:
                start = self._dice.randrange(len(self._urls))
                await asyncio.gather(*(self._insist(ask, start + place) for place, ask in enumerate(stage)))

    async def _insist(self, ask: Ask, replica: int) -> None:
        """Ask; where there is no word, or it is to be asked later, ask another replica, ids unchanged."""
        for tried in range(self._dice.choice((1, 2, 3))):
            hangs_up = self._dice.random() < HANGS_UP
            answer = await self._ask(ask, replica + tried, self._dice.uniform(0.01, 0.4) if hangs_up else PATIENCE_S)
            if answer.status == 200 or (answer.status and not answer.body.get("retryable")):
                return
            await asyncio.sleep(self._dice.uniform(0.02, 0.3))

    async def _ask(self, ask: Ask, replica: int, patience_s: float) -> Answer:
        url = self._urls[replica % len(self._urls)]
        answer = await self.ask(ask, url, f"gateway {replica % len(self._urls)}", patience_s)
        self.answers.append(answer)
        return answer

    async def ask(self, ask: Ask, url: str, at: str, patience_s: float, *, calm: bool = False) -> Answer:
        """One request, whatever comes of it."""
        self.requests += 1
        request, sent = f"r{self._seed}-{self.requests}", time.time()
        place = {"company": ask.intent.terms.company, "conversation": ask.intent.conversation, "tool": ask.intent.tool}
        text = json.dumps({**place, **ask.fields})
        data = f'{text[:-1]}, "arguments": {ask.intent.arguments}}}'.encode()
        status, body = 0, {}
        try:
            async with asyncio.timeout(patience_s):
                async with self._session.post(f"{url}/v1/calls", data=data, headers={"Request-Id": request}) as answer:
                    read = await answer.read()
                    status, body = answer.status, json.loads(read, parse_float=str)
        except TimeoutError:
            body = {"fault": "the caller hung up"}
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            status, body = 0, {"fault": f"no answer: {type(fault).__name__}"}
        return Answer(ask, request, sent, time.time(), at, status, body, calm)
