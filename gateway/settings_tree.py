"""The gateway's settings as one frozen tree: names, defaults and what is accepted. `gateway.settings` reads them.

A field's description ends the sentence "must be …".
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from gateway.adapters.redis_urls import LedgerUrlError, parse_ledger_url
from gateway.core.addresses import LOOPBACK, Network
from gateway.core.model import Company
from gateway.service.asking import Pace

MIB: Final = 1_048_576


def _ledger(url: str) -> str:
    try:
        parse_ledger_url(url)
    except LedgerUrlError:
        raise ValueError("not a ledger") from None  # the cause may hold what was typed
    return url


def _network(given: object) -> Network:
    if isinstance(given, IPv4Network | IPv6Network):
        return given
    if isinstance(given, str):
        return ip_network(given)
    raise ValueError("not a network")  # ip_network would take 1 for 0.0.0.1/32


# Plain: a validator of the library's behind it would be handed a network where it is strict about text.
NetworkText = Annotated[IPv4Network | IPv6Network, PlainValidator(_network)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LedgerSettings(_Section):
    """Where the ledger is, and how safely a claim must be kept before anything is sent (4.14)."""

    url: Annotated[str, AfterValidator(_ledger)] = Field(
        default="local:.oncegate",
        repr=False,
        description="a redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// URL, local:FOLDER, "
        "or memory",
        json_schema_extra={"secret": True},
    )
    wait_replicas: int = Field(default=0, ge=0, le=16, description="a whole number from 0 (none) to 16")
    wait_fsync: bool = Field(default=False, description="true or false; true needs Redis or Valkey 7.2")
    wait_timeout_s: float = Field(
        default=1.0, ge=0.01, le=20, description="seconds from 0.01 to 20, below ledger.command_timeout_s"
    )
    allow_unsafe: bool = Field(
        default=False, description="true or false; true starts on a Redis that may forget what was done"
    )
    connections: int = Field(default=4, ge=1, le=64, description="a whole number from 1 to 64")
    connect_timeout_s: float = Field(default=1.0, ge=0.05, le=30, description="seconds from 0.05 to 30")
    command_timeout_s: float = Field(default=2.0, ge=0.05, le=30, description="seconds from 0.05 to 30")

    @property
    def waits(self) -> bool:
        return self.wait_replicas > 0 or self.wait_fsync


class HttpSettings(_Section):
    """Where the gateway listens, and what it accepts (9.4)."""

    host: str = Field(default="127.0.0.1", min_length=1, description="an address or host name to listen on")
    port: int = Field(default=8080, ge=0, le=65_535, description="a whole number from 0 (any free one) to 65535")
    body_limit_bytes: int = Field(default=MIB, ge=1_024, le=64 * MIB, description="bytes from 1024 to 67108864")
    batch_limit: int = Field(default=64, ge=1, le=1_000, description="calls in one batch, from 1 to 1000")


class MerchantSettings(_Section):
    """How merchants are reached (9.2, 4.12)."""

    allow_http: bool = Field(default=False, description="true or false; true lets endpoints be plain http")
    allow_addresses: tuple[NetworkText, ...] = Field(
        default=(), description='networks such as ["10.1.0.0/16"]; in the environment, separated by commas'
    )
    keepalive_s: float = Field(
        default=4.0, ge=0, le=60, description="seconds from 0 to 60, below what merchants' servers keep"
    )
    result_cap_bytes: int = Field(default=MIB, ge=1_024, le=16 * MIB, description="bytes from 1024 to 16777216")


class CallSettings(_Section):
    """Times and bounds of calls, where company or tool say nothing else."""

    lease_margin_s: float = Field(default=5.0, ge=1, le=60, description="seconds from 1 to 60")
    wait_margin_s: float = Field(default=1.0, ge=0, le=30, description="seconds from 0 to 30")
    repeat_window_s: float = Field(default=60.0, ge=0, le=86_400, description="seconds from 0 to 86400")
    max_steps: Annotated[int, Field(ge=1, le=1_000)] | Literal["off"] = Field(
        default=6, description='a whole number from 1 to 1000, or "off"'
    )


class EffectSettings(_Section):
    """Effects that the runtime runs itself (7.2)."""

    lease_s: float = Field(
        default=60.0, ge=5, le=3_600, description="seconds from 5 to 3600 until a runner has to renew its claim"
    )


class EventSettings(_Section):
    """The event log (7.6)."""

    seal_after_s: float = Field(
        default=5.0, ge=0.1, le=3_600, description="seconds from 0.1 to 3600 until events are sealed, and in the feed"
    )


class AskingSettings(_Section):
    """How merchants with a status endpoint are asked about unknown outcomes (5.4)."""

    first_s: float = Field(
        default=1.0, ge=0.05, le=60, description="seconds from 0.05 to 60; doubled after each question in vain"
    )
    longest_s: float = Field(default=600.0, ge=1, le=86_400, description="seconds from 1 to 86400")
    at_once: int = Field(default=32, ge=1, le=1_000, description="questions on their way, from 1 to 1000")

    @property
    def pace(self) -> Pace:
        return Pace(self.first_s, self.longest_s, self.at_once)


class RetentionSettings(_Section):
    """How long settled effects are kept (4.13)."""

    days: float = Field(default=30.0, ge=1, le=3_650, description="days from 1 to 3650")


class RegistrationSettings(_Section):
    """How tools are judged when they are registered (3.1 to 3.5)."""

    on_finding: Literal["warn", "refuse"] = Field(default="warn", description='"warn" or "refuse"')
    heuristic: Literal["words", "platform"] = Field(default="words", description='"words" or "platform"')
    overrides: dict[Annotated[str, Field(min_length=1, max_length=128)], bool] = Field(
        default_factory=dict, description='tool names or globs with true or false, such as {"sync_*" = true}'
    )


class StopSettings(_Section):
    """How the gateway ends."""

    grace_s: float = Field(
        # A grace below a call's deadline would cut off calls whose outcome nobody then knows.
        default=30.0,
        ge=15,
        le=600,
        description="seconds from 15 to 600, longer than the slowest tool's timeout_s",
    )


class Settings(_Section):
    """All of it. `dev`: loopback only, http endpoints on this machine, and the key `dev`."""

    dev: bool = Field(default=False, description="true or false")
    ledger: LedgerSettings = LedgerSettings()
    http: HttpSettings = HttpSettings()
    merchants: MerchantSettings = MerchantSettings()
    calls: CallSettings = CallSettings()
    effects: EffectSettings = EffectSettings()
    asking: AskingSettings = AskingSettings()
    events: EventSettings = EventSettings()
    retention: RetentionSettings = RetentionSettings()
    registration: RegistrationSettings = RegistrationSettings()
    stop: StopSettings = StopSettings()

    @property
    def allow_http(self) -> bool:
        return self.merchants.allow_http or self.dev

    @property
    def allow_networks(self) -> tuple[Network, ...]:
        """What endpoints may be on besides public addresses (9.2)."""
        return (*self.merchants.allow_addresses, *(LOOPBACK if self.dev else ()))

    @property
    def company_defaults(self) -> Company:
        """What holds for a company that states nothing else."""
        steps = self.calls.max_steps
        return Company(
            name="",
            max_steps=None if steps == "off" else steps,
            heuristic=self.registration.heuristic,
            repeat_window_s=self.calls.repeat_window_s,
            retention_s=self.retention.days * 86_400.0,
            on_finding=self.registration.on_finding,
        )
