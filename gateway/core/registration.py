"""What becomes of a declared tool: its names, its verdict, its version, and how long it stays looked up. Pure.

A verdict is given when a tool is registered and stored with that version (3.3). Three moments may change it
later: the tool is registered anew, an override that decided it comes or goes, or the heuristic is switched.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import msgspec

from gateway.core.model import Company, SigningSecret, Tool
from gateway.core.policy import Bundle
from gateway.core.record import Mode
from gateway.core.requests import OnRepeat
from heuristics import Hints, Verdict, classify, shared_prefix

FORMAT: Final = 1
"""Version of the stored form of a tool."""
MAX_NAME_BYTES: Final = 128
MIN_TIMEOUT_S: Final = 0.1
MAX_TIMEOUT_S: Final = 60.0
"""Bounds of a tool's deadline: below, no network answers; above, a customer in a chat has gone, and every
claim (lease = deadline + margin, 4.5) would keep its duplicates waiting as long."""
LOOKED_UP_SLACK_MS: Final = 3_600_000
"""Added to the retention time of a tool that turned read-only: a call may still be running then, and be
settled and kept from a little later, and hosts' clocks differ."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

Source = Literal["api", "file"]


@dataclass(frozen=True, slots=True)
class Declared:
    """A tool as its merchant declares it, checked for form."""

    endpoint: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    side_effecting: bool | None = None
    idempotency: Mode | None = None
    on_repeat: OnRepeat | None = None
    timeout_s: float = 10.0
    status_endpoint: str | None = None
    unavailable_means_not_executed: bool = False
    hints: Hints = field(default_factory=Hints)


@dataclass(frozen=True, slots=True)
class FromFile:
    """A company defined in a configuration file. Its secrets stay in this process and are never stored."""

    company: str
    file: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, Declared] = field(default_factory=dict)
    secrets: tuple[SigningSecret, ...] = ()
    """Newest first."""
    policy: Bundle | None = None
    """The company's own rules (7.3)."""


class StoredTool(msgspec.Struct, frozen=True):
    """A tool's document. `tool` is None once it is removed: the version and what it protected are kept, so that
    one registered again is the next version and stays looked up (3.6)."""

    format: int
    company: str
    name: str
    version: int
    source: Source
    protected_until_ms: int | None = None
    announced: bool = False
    """Whether `tool.registered` or `tool.removed` of this version is in the event log."""
    tool: Tool | None = None


def name_problem(name: object) -> str | None:
    """What is wrong with a tool's or company's name, if anything. Names are compared byte for byte."""
    if not isinstance(name, str):
        return "must be a string"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "holds half of a surrogate pair"
    if not 0 < size <= MAX_NAME_BYTES:
        return f"must have 1 to {MAX_NAME_BYTES} bytes, not {size:,}"
    if _CONTROL.search(name):
        return "must not hold control characters"
    if name != name.strip():
        return "must not begin or end with white space"
    return None


def company_problem(name: object) -> str | None:
    """As `name_problem`; `*` stands for all companies in a key, so no company is called that."""
    return "must not be *, which stands for all companies" if name == "*" else name_problem(name)


def verdict_on(
    name: str,
    declared: Declared,
    company: Company,
    names: Collection[str],
    platform_overrides: Mapping[str, bool],
) -> Verdict:
    """The verdict on one tool among all of its company's names (3.1 to 3.4)."""
    return classify(
        name,
        heuristic=company.heuristic,
        prefix=shared_prefix(sorted({*names, name})),
        tool_override=declared.side_effecting,
        company_overrides=company.overrides,
        platform_overrides=platform_overrides,
        hints=declared.hints,
    )


def registered(
    before: StoredTool | None,
    company: Company,
    name: str,
    declared: Declared,
    verdict: Verdict,
    source: Source,
    now_ms: int,
) -> StoredTool:
    """The document after a registration: `before` itself if nothing changes, else the next version."""
    looked_up = _looked_up(before, verdict.side_effecting, company, now_ms)
    version = before.version if before is not None else 0
    tool = Tool(
        company=company.name,
        name=name,
        version=version,
        endpoint=declared.endpoint,
        verdict=verdict,
        description=declared.description,
        parameters=declared.parameters,
        side_effecting=declared.side_effecting,
        idempotency=declared.idempotency,
        on_repeat=declared.on_repeat,
        timeout_s=float(declared.timeout_s),
        status_endpoint=declared.status_endpoint,
        unavailable_means_not_executed=declared.unavailable_means_not_executed,
        hints=declared.hints,
        protected_until_ms=looked_up,
    )
    if before is not None and before.tool == tool and before.source == source:
        return before
    tool = replace(tool, version=version + 1)
    return StoredTool(FORMAT, company.name, name, version + 1, source, looked_up, tool=tool)


def removed(before: StoredTool, company: Company, now_ms: int) -> StoredTool:
    """The document after a removal: a mark that keeps the version and what must still be looked up."""
    looked_up = _looked_up(before, False, company, now_ms)
    return StoredTool(FORMAT, before.company, before.name, before.version + 1, before.source, looked_up)


def declared_by(tool: Tool) -> Declared:
    """What the merchant declared of a stored tool."""
    return Declared(
        endpoint=tool.endpoint,
        description=tool.description,
        parameters=tool.parameters,
        side_effecting=tool.side_effecting,
        idempotency=tool.idempotency,
        on_repeat=tool.on_repeat,
        timeout_s=tool.timeout_s,
        status_endpoint=tool.status_endpoint,
        unavailable_means_not_executed=tool.unavailable_means_not_executed,
        hints=tool.hints,
    )


def overtaken(stored: Verdict, fresh: Verdict) -> bool:
    """Whether a fresh verdict replaces a stored one without a new registration: only if another rule gives it, or
    an override says otherwise. A word list that grew with an upgrade changes no stored verdict by itself."""
    by_name = stored.source == fresh.source and stored.source.startswith(("heuristic:", "hint"))
    return stored != fresh and not by_name


def _looked_up(before: StoredTool | None, side_effecting: bool, company: Company, now_ms: int) -> int | None:
    """Until when the ledger is asked about a tool that is read-only now (wall clock, ms), None if never (3.6)."""
    if before is None or side_effecting:
        # A side-effecting tool is always looked up; the time starts when it stops being one.
        return None
    if before.tool is not None and before.tool.verdict.side_effecting:
        return now_ms + int(company.retention_s * 1000) + LOOKED_UP_SLACK_MS
    return before.protected_until_ms
