"""Decisions that leave no record are lines in the log all the same: denied, rate limited (promises 7.3, 7.5, 7.6)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.core import decisions as d
from gateway.core import identity
from gateway.core.conversation import Event
from gateway.core.errors import LedgerUnavailable
from gateway.core.granting import said_of
from gateway.core.identity import Arguments
from gateway.core.ports import Ledger
from gateway.core.requests import Claim, Ruled

_log = logging.getLogger("oncegate.calls")


class Subject(msgspec.Struct, frozen=True):
    """What was asked for, recorded or not."""

    company: str
    conversation: str
    target: str
    tool_call_id: str | None
    turn: str | None
    arguments: Arguments
    ruled: Ruled | None
    keep_ms: int

    @classmethod
    def of(cls, claim: Claim) -> Subject:
        return cls(
            claim.company,
            claim.conversation,
            claim.target,
            claim.tool_call_id,
            claim.place.turn,
            claim.arguments,
            claim.ruled,
            claim.terms.retention_ms,
        )


class RefusalLog:
    """Appends to the conversation's events; a refusal stands, though its line be lost with the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def denied(self, subject: Subject, denied: d.Denied) -> None:
        said: dict[str, Any] = {"code": denied.fault.code, **_what(subject), "turn": subject.turn, **denied.said}
        if denied.first is not None:
            said["first"] = denied.first.hex
        await self._append(subject, Event("effect.denied", None, said))

    async def rate_limited(self, subject: Subject, ruled: Ruled, reason: str | None) -> None:
        """`ruled`: the rule whose limit it is, which need not be the one that decided."""
        said: dict[str, Any] = {**_what(subject), "turn": subject.turn, **said_of(ruled)}
        if reason is not None:
            said["reason"] = reason
        await self._append(subject, Event("effect.rate_limited", None, said))

    async def _append(self, subject: Subject, event: Event) -> None:
        conversation = identity.conversation_digest(subject.company, subject.conversation)
        try:
            await self._ledger.append(conversation, [event], subject.keep_ms)
        except LedgerUnavailable:
            _log.warning("a refusal could not be logged", extra={"type": event.type})


def _what(subject: Subject) -> Mapping[str, Any]:
    return {"target": subject.target, "tool_call_id": subject.tool_call_id}
