"""The blocking twin of `AsyncOncegate`: the same client, run on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from gateway.runtime.client import AsyncOncegate

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    method: Callable[Concatenate[AsyncOncegate, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Oncegate, P], R]:
    @functools.wraps(method)
    def run(self: Oncegate, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(lambda: method(self._client, *args, **kwargs))

    return run


class Oncegate:
    """`AsyncOncegate` for code without an event loop.

        with Oncegate("https://gateway.example", key) as gateway:
            answer = gateway.call("acme", "c-42", "place_order", {"sku": "A"}, tool_call_id="call_9f")

    Takes the same options (a `session` excepted: it would belong to another loop) and has the same
    methods but `turn`, which block the calling thread. Threads may share one client; their calls run side by side.
    Called where an event loop is running it works too, but holds that loop up until the answer is there:
    use `AsyncOncegate` there. An interrupted wait (Ctrl-C) cancels the request here, not at the gateway
    (5.3). Close it, or use `with`: the thread lives until then."""

    call = _blocking(AsyncOncegate.call)
    batch = _blocking(AsyncOncegate.batch)
    lookup = _blocking(AsyncOncegate.lookup)
    tools = _blocking(AsyncOncegate.tools)
    events = _blocking(AsyncOncegate.events)
    submit = _blocking(AsyncOncegate.submit)
    complete = _blocking(AsyncOncegate.complete)
    fail = _blocking(AsyncOncegate.fail)
    renew = _blocking(AsyncOncegate.renew)
    release = _blocking(AsyncOncegate.release)
    approvals = _blocking(AsyncOncegate.approvals)
    approval = _blocking(AsyncOncegate.approval)
    grant = _blocking(AsyncOncegate.grant)
    deny = _blocking(AsyncOncegate.deny)

    def __init__(self, url: str, key: str, **options: Any) -> None:
        if options.get("session") is not None:
            raise ValueError("a session belongs to its own event loop: use AsyncOncegate")
        self._client = AsyncOncegate(url, key, **options)
        self._lock = threading.Lock()
        started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="oncegate-client", daemon=True
        )
        self._thread.start()
        self._loop: asyncio.AbstractEventLoop | None = started.result()

    def __repr__(self) -> str:
        return repr(self._client).replace("AsyncOncegate", type(self).__name__, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what is still running here, close the connections and end the thread. A second time does
        nothing."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    async def _serve(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        self._stop = asyncio.Event()
        try:
            await self._client.__aenter__()
        except BaseException as fault:
            started.set_exception(fault)  # or the constructor would wait for ever
            return
        started.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._client.close()

    def _run(self, start: Callable[[], Coroutine[Any, Any, R]]) -> R:
        if threading.current_thread() is self._thread:
            # Waiting here for the loop that this very thread runs would wait for ever.
            raise RuntimeError("called from the client's own thread")
        with self._lock:
            if self._loop is None:
                raise RuntimeError("this client is closed")
            waiting = asyncio.run_coroutine_threadsafe(start(), self._loop)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()
            raise
