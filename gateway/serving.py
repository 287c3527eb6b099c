"""Serving an open gateway with uvicorn, and stopping gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import uvicorn

from gateway.adapters.local_redis import LocalRedisFailed
from gateway.main import Gateway, open_gateway
from gateway.settings import Settings
from gateway.web.http_protocol import BoundedHttp

LAME_DUCK_S: Final = 0.5
"""Between turning readiness and no longer accepting: what is already on its way is still answered."""
LAST_BODIES_S: Final = 3.0
"""How long a body may still take to arrive once the stop has begun: one that never ends must not hold it up."""


async def serve(
    settings: Settings,
    sockets: Sequence[socket.socket],
    *,
    config: Path,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """Serve on bound sockets until SIGTERM or SIGINT, then stop gracefully: readiness turns first, calls finish.

    Raises what `open_gateway` does, and LocalRedisFailed once stopped because the embedded ledger had ended.
    """
    async with open_gateway(settings, config=config, environ=environ) as gateway:
        _calm_collector()
        server = uvicorn.Config(
            gateway.app,
            http=BoundedHttp,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(settings.stop.grace_s),
        )
        serving = _Server(server, gateway, say)
        watching = asyncio.create_task(serving.stop_without(gateway.ledger_ended))
        await serving.serve(sockets=list(sockets))
        watching.cancel()
        if gateway.ledger_ended.is_set():
            raise LocalRedisFailed("the embedded ledger's redis-server ended by itself; its redis.log says why")


class _Server(uvicorn.Server):
    """A uvicorn server that turns readiness first and goes on serving for a moment before it stops accepting."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway, say: Callable[[str], None]) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._say = say

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for server in self.servers:
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                self._say(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._begin_stop, loop)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def stop_without(self, ledger_ended: asyncio.Event) -> None:
        """Stop once the embedded ledger is gone: a supervisor can start both anew, this process cannot."""
        await ledger_ended.wait()
        self._begin_stop(asyncio.get_running_loop())

    def _begin_stop(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._gateway.stopping.begun:
            self.should_exit = True  # asked twice: no more waiting for balancers, calls still finish
            return
        self._gateway.stopping.begin()
        # Requests already on their way, and connections accepted but not yet read, are still answered.
        loop.call_later(LAME_DUCK_S, setattr, self, "should_exit", True)
        loop.call_later(LAST_BODIES_S, self._gateway.app.bodies.end_all)
        self._say(f"stopping: {self._gateway.app.calls.in_flight} calls in flight")


def _calm_collector() -> None:
    """Calls make no cycles to speak of; looking for them every 700 objects was a quarter of a call's cost."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
