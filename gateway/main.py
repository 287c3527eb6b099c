"""Wires everything, once: adapters, services and the ASGI application, and undoes it in the reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from gateway.adapters.addresses import SystemResolver, check_endpoint
from gateway.adapters.config_files import Judges, read_merchants_folder
from gateway.adapters.merchant_http import HttpLimits, MerchantHttp
from gateway.adapters.policy_files import read_policy_file
from gateway.adapters.redis_commands import SendsCommands
from gateway.adapters.redis_counters import RedisCounters
from gateway.adapters.redis_documents import RedisDocuments
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_seals import RedisSeals
from gateway.adapters.schemas import Schemas
from gateway.adapters.signing import sign_headers
from gateway.adapters.system import Background, SystemClock, SystemRandomness
from gateway.core.addresses import check_url
from gateway.core.errors import LedgerUnavailable
from gateway.core.model import Principal, Role
from gateway.core.policy import Bundle
from gateway.core.registration import FromFile
from gateway.ledger import claim_wait, examine_ledger, open_commands, refuse_unsafe
from gateway.service.adopt_files import AdoptFiles
from gateway.service.asking import Asking
from gateway.service.claims import CallLimits
from gateway.service.deciding import Decider
from gateway.service.desk import open_desk
from gateway.service.look_up import LookUp
from gateway.service.manage_company import ManageCompany
from gateway.service.read_feed import ReadFeed
from gateway.service.reading import Reading
from gateway.service.register_tool import RegisterTool
from gateway.service.registry import Registry
from gateway.service.replay_notes import ReplayNotes
from gateway.service.resolve_unknown import ResolveUnknown
from gateway.service.running import Running
from gateway.service.seal_events import SealEvents
from gateway.service.sending import Sending
from gateway.service.settled_answers import SettledAnswers
from gateway.service.status_question import StatusQuestion
from gateway.service.sweep import Sweep
from gateway.service.waiting import Waiting
from gateway.settings import Settings
from gateway.start_remarks import start_remarks
from gateway.web.app import Application, create_app
from gateway.web.metrics import Metrics
from gateway.web.services import Limits, Services
from gateway.web.stopping import Stopping

_log = logging.getLogger("oncegate.serve")

DEV_PRINCIPAL: Final = Principal("dev", Role.OPERATOR, frozenset({"*"}), "dev")


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that is open: what the server serves, and what a stop must wait for."""

    app: Application
    stopping: Stopping
    ledger_ended: asyncio.Event
    """Set when the embedded ledger's server ended by itself: this process cannot guard anything any more."""


@contextlib.asynccontextmanager
async def open_gateway(settings: Settings, *, config: Path, environ: Mapping[str, str]) -> AsyncIterator[Gateway]:
    """Connect, read the merchants' files, start what is done unasked; undo it all in the reverse order.

    Raises LocalRedisError where the embedded ledger cannot start, ConfigError for wrong merchant files and for a ledger
    that may forget what was done (4.14), LedgerUnavailable where the ledger does not answer.
    """
    async with contextlib.AsyncExitStack() as stack:
        ledger_ended = asyncio.Event()
        commands = await open_commands(stack, settings, ledger_ended)
        refuse_unsafe(await examine_ledger(settings, commands), allow_unsafe=settings.ledger.allow_unsafe)
        resolver = SystemResolver()
        stack.callback(resolver.close)
        merchant = MerchantHttp(
            allow=settings.allow_networks,
            allow_http=settings.allow_http,
            limits=HttpLimits(reply_bytes=settings.merchants.result_cap_bytes, idle_s=settings.merchants.keepalive_s),
            resolve=resolver,
        )
        stack.push_async_callback(merchant.close)
        files, policy = _merchant_files(settings, config, environ), read_policy_file(config / "policy.toml")
        world = _World(settings, commands, merchant, resolver, files, policy)
        await world.adopt_files()
        gateway = world.gateway(ledger_ended)
        unasked = [asyncio.create_task(each.forever()) for each in (world.sweep, world.sealing, world.asking)]
        try:
            yield gateway
        finally:
            left_s = gateway.stopping.left_s(settings.stop.grace_s)
            await gateway.app.calls.drain(left_s)
            for task in unasked:
                task.cancel()
            await asyncio.gather(*unasked, return_exceptions=True)
            with contextlib.suppress(LedgerUnavailable):
                await world.notes.flush(everything=True)
            # What is still to be written to an embedded ledger that has ended can be written nowhere: it comes back
            # with the next start only, which waits for this end.
            left_s = 0.0 if ledger_ended.is_set() else gateway.stopping.left_s(settings.stop.grace_s)
            await world.background.drain(left_s + 0.5)


class _World:
    """Everything of one gateway, made once."""

    def __init__(
        self,
        settings: Settings,
        commands: SendsCommands,
        merchant: MerchantHttp,
        resolver: SystemResolver,
        files: Sequence[FromFile],
        policy: Bundle | None,
    ) -> None:
        self._settings, self._commands = settings, commands
        self.clock, self.randomness, self.background = SystemClock(), SystemRandomness(), Background()
        self.ledger = RedisLedger(commands, nonce=self.randomness.nonce, wait=claim_wait(settings))
        self.documents, self.schemas = RedisDocuments(commands), Schemas()
        self.registry = Registry(
            self.documents,
            self.clock,
            defaults=settings.company_defaults,
            files=files,
            policy=policy,
            fixed_keys={"dev": DEV_PRINCIPAL} if settings.dev else {},
        )
        self.metrics = Metrics()
        self.decider = Decider(
            self.ledger,
            sleep=self.clock.sleep,
            jitter=random.random,
            count_conflict=self.metrics.conflict,
            on_unknown=lambda effect: self.asking.became_unknown(effect),
        )
        self.waiting = Waiting(self.clock)
        self.settled = SettledAnswers(self.clock)
        self.notes = ReplayNotes(self.ledger, self.clock, self.background.spawn)
        self.sweep = Sweep(
            self.ledger,
            self.decider,
            self.waiting,
            self.notes,
            self.clock,
            retention_ms=self._retention_ms,
        )
        seal_after_s = settings.events.seal_after_s
        self.seals = RedisSeals(commands, after_s=seal_after_s)
        self.sealing = SealEvents(
            self.ledger, self.seals, self.clock, retention_ms=self._retention_ms, period_s=seal_after_s
        )
        self.sending = Sending(
            merchant,
            sign_headers,
            self.clock,
            result_cap=settings.merchants.result_cap_bytes,
            count=self.metrics.merchant_outcome,
        )
        self.asking = Asking(
            ledger=self.ledger,
            registry=self.registry,
            question=StatusQuestion(
                merchant=merchant,
                sign=sign_headers,
                registry=self.registry,
                ledger=self.ledger,
                decider=self.decider,
                clock=self.clock,
                randomness=self.randomness,
                result_cap=settings.merchants.result_cap_bytes,
                count=self.metrics.status_answer,
            ),
            clock=self.clock,
            jitter=random.random,
            pace=settings.asking.pace,
        )
        self.register_tool = RegisterTool(
            registry=self.registry,
            stored=self.documents,
            ledger=self.ledger,
            schemas=self.schemas,
            check_endpoint=partial(
                check_endpoint, resolve=resolver, allow_http=settings.allow_http, allow=settings.allow_networks
            ),
            clock=self.clock,
            platform_overrides=settings.registration.overrides,
        )

    def _retention_ms(self, company: str) -> int:
        return int(self.registry.company(company).retention_s * 1000)

    async def adopt_files(self) -> None:
        await AdoptFiles(registry=self.registry, tools=self.register_tool)()
        for remark, more in start_remarks(self._settings, self.registry):
            _log.warning(remark, extra=more)

    def gateway(self, ledger_ended: asyncio.Event) -> Gateway:
        limits = CallLimits(
            self._settings.calls.lease_margin_s,
            self._settings.calls.wait_margin_s,
            self._settings.effects.lease_s,
        )
        running = Running(
            decider=self.decider,
            sending=self.sending,
            registry=self.registry,
            waiting=self.waiting,
            settled=self.settled,
            clock=self.clock,
            lease_margin_s=limits.lease_margin_s,
            spawn=self.background.spawn,
        )
        desk = open_desk(
            registry=self.registry,
            ledger=self.ledger,
            counters=RedisCounters(self._commands),
            decider=self.decider,
            running=running,
            reading=Reading(self.sending, self.registry, self.clock, self.randomness),
            waiting=self.waiting,
            asking=self.asking,
            notes=self.notes,
            settled=self.settled,
            schemas=self.schemas,
            clock=self.clock,
            randomness=self.randomness,
            limits=limits,
            result_cap=self._settings.merchants.result_cap_bytes,
            platform_overrides=self._settings.registration.overrides,
        )
        stopping = Stopping(self.clock.monotonic)
        services = Services(
            handle_call=desk.handle_call,
            look_up=LookUp(self.ledger),
            feed=ReadFeed(self.ledger, self.seals),
            resolve_unknown=ResolveUnknown(
                registry=self.registry,
                ledger=self.ledger,
                decider=self.decider,
                waiting=self.waiting,
                result_cap=self._settings.merchants.result_cap_bytes,
            ),
            submit_effect=desk.submit_effect,
            report_effect=desk.report_effect,
            decide_approval=desk.decide_approval,
            policy_of=self.registry.policy,
            register_tool=self.register_tool,
            manage_company=ManageCompany(
                registry=self.registry,
                stored=self.documents,
                tools=self.register_tool,
                clock=self.clock,
                randomness=self.randomness,
            ),
            registry=self.registry,
            ledger=self.ledger,
            metrics=self.metrics,
            stopping=stopping,
            clock=self.clock,
            randomness=self.randomness,
            limits=Limits(
                body_bytes=self._settings.http.body_limit_bytes,
                batch_calls=self._settings.http.batch_limit,
                # A probe that waits for replicas may take as long as a claim does.
                ready_s=1.0 + (self._settings.ledger.wait_timeout_s if self._settings.ledger.waits else 0.0),
            ),
        )
        return Gateway(create_app(services), stopping, ledger_ended)


def _merchant_files(settings: Settings, config: Path, environ: Mapping[str, str]) -> list[FromFile]:
    judges = Judges(
        url=partial(check_url, allow_http=settings.allow_http, allow=settings.allow_networks),
        schema=Schemas().schema_problems,
    )
    return read_merchants_folder(config / "merchants", environ, judges)
