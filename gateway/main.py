"""Wires everything, once: adapters, services, the ASGI application, and how it starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn

from gateway.adapters.config_files import read_merchants
from gateway.adapters.local_redis import LocalRedis
from gateway.adapters.merchant_http import HttpLimits, MerchantHttp
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_documents import RedisDocuments
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_urls import LedgerUrl, open_client
from gateway.adapters.schemas import Schemas
from gateway.adapters.signing import sign_headers
from gateway.core.ports import Clock
from gateway.service.deciding import Decider
from gateway.service.handle_call import CallLimits, HandleCall
from gateway.service.look_up import LookUp
from gateway.service.manage_company import ManageCompany
from gateway.service.reading import Reading
from gateway.service.register_tool import RegisterTool
from gateway.service.registry import Registry
from gateway.service.replay_notes import ReplayNotes
from gateway.service.running import Running
from gateway.service.sending import Sending
from gateway.service.sweep import Sweep
from gateway.service.waiting import Waiting
from gateway.settings import Settings
from gateway.web.app import create_app
from gateway.web.metrics import Metrics
from gateway.web.services import Services
from gateway.web.stopping import Stopping


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemRandomness:
    """The operating system's."""

    def token(self) -> bytes:
        return os.urandom(16)


class Background:
    """Work that outlives the request that caused it: settling that goes on, notes, withdrawals."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self, timeout_s: float) -> None:
        """Give it time to finish, then stop it; a claim that it did not settle becomes indeterminate (4.5)."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)
        for task in set(self._tasks):
            task.cancel()


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that is open: what the server serves, and what a stop must wait for."""

    app: Any
    stopping: Stopping
    handle_call: HandleCall


@contextlib.asynccontextmanager
async def open_gateway(settings: Settings) -> AsyncIterator[Gateway]:
    """Connect, start the sweep, and undo it all in the reverse order.

    Raises LocalRedisError where the embedded ledger cannot start, ConfigError for wrong merchant files,
    LedgerUnavailable where the ledger does not answer.
    """
    async with contextlib.AsyncExitStack() as stack:
        ledger_url = settings.ledger_url
        if ledger_url.kind == "local":
            local = await stack.enter_async_context(LocalRedis(ledger_url.path))
            ledger_url = LedgerUrl.for_socket(local.socket)
        commands = await _connected(stack, ledger_url, settings)
        merchant = MerchantHttp(
            allow=settings.merchant_networks,
            allow_http=settings.merchants.allow_http,
            limits=HttpLimits(),
        )
        stack.push_async_callback(merchant.close)
        clock, randomness, background = SystemClock(), SystemRandomness(), Background()
        ledger, documents = RedisLedger(commands), RedisDocuments(commands)
        registry = Registry(documents, clock)
        await registry.refresh()
        decider, waiting = Decider(ledger), Waiting(clock)
        notes = ReplayNotes(ledger, clock, background.spawn)
        sending = Sending(merchant, sign_headers, clock, result_cap=settings.merchants.result_cap_bytes)
        running = Running(
            decider=decider,
            sending=sending,
            registry=registry,
            waiting=waiting,
            clock=clock,
            lease_margin_s=settings.calls.lease_margin_s,
            spawn=background.spawn,
        )
        handle_call = HandleCall(
            registry=registry,
            ledger=ledger,
            decider=decider,
            running=running,
            reading=Reading(sending, registry, clock, randomness),
            waiting=waiting,
            notes=notes,
            schemas=Schemas(),
            clock=clock,
            randomness=randomness,
            limits=CallLimits(settings.calls.lease_margin_s),
        )
        stopping = Stopping()
        services = Services(
            handle_call=handle_call,
            look_up=LookUp(ledger),
            register_tool=RegisterTool(),
            manage_company=ManageCompany(),
            registry=registry,
            ledger=ledger,
            metrics=Metrics(),
            stopping=stopping,
            clock=clock,
            randomness=randomness,
        )
        sweeping = asyncio.create_task(Sweep(ledger, decider, waiting, notes, clock).forever())
        try:
            yield Gateway(create_app(services), stopping, handle_call)
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
            with contextlib.suppress(LedgerUnavailable):
                await notes.flush(everything=True)
            await background.drain(settings.stop.grace_s)


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then stop gracefully: readiness turns first, calls in flight finish."""
    async with open_gateway(settings) as gateway:
        config = uvicorn.Config(
            gateway.app,
            host=settings.http.host,
            port=settings.http.port,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(settings.stop.grace_s),
        )
        await _Server(config, gateway, settings.stop.delay_s).serve()


class _Server(uvicorn.Server):
    """A uvicorn server that turns readiness first and goes on serving for a moment before it stops accepting."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway, delay_s: float) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._delay_s = delay_s

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

    def _begin_stop(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._gateway.stopping.begun:
            self.should_exit = True  # asked twice: no more waiting for balancers, calls still finish
            return
        self._gateway.stopping.begin()
        # Requests already on their way, and connections accepted but not yet read, are still answered.
        loop.call_later(self._delay_s, setattr, self, "should_exit", True)


async def _connected(stack: contextlib.AsyncExitStack, url: LedgerUrl, settings: Settings) -> Commands:
    client = open_client(
        url,
        connect_timeout_s=settings.ledger.connect_timeout_s,
        command_timeout_s=settings.ledger.command_timeout_s,
    )
    stack.push_async_callback(client.aclose)
    commands = Commands(
        client,
        connect_timeout_s=settings.ledger.connect_timeout_s,
        command_timeout_s=settings.ledger.command_timeout_s,
    )
    stack.push_async_callback(commands.close)
    return commands
