"""One effect of a turn, from its claim to its recorded outcome (7.2)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from gateway.runtime.answer import Replay
from gateway.runtime.effect import Effect, Standing, Submitted
from gateway.runtime.errors import (
    BadCall,
    EffectBlocked,
    EffectDenied,
    EffectLimited,
    EffectOverruled,
    EffectUnknown,
    NotDone,
    OncegateError,
    Problem,
)
from gateway.runtime.exact_json import decode, encode
from gateway.runtime.lease import renewed
from gateway.runtime.turn_names import TurnNames

GIVE_BACK_S: Final = 5.0
"""How long a claim is tried to be given back. What stays claimed is given back by its lease."""
AT_MOST_ONCE: Final = "at_most_once"


class Effects(Protocol):
    """What recording needs of a client; `AsyncOncegate` has it."""

    async def submit(self, effect: Effect, *, exact: bool = True) -> Submitted: ...
    async def complete(
        self, company: str, conversation: str, effect_id: str, claim_token: str, result: Any
    ) -> Standing: ...
    async def fail(
        self, company: str, conversation: str, effect_id: str, claim_token: str, code: str, message: str
    ) -> Standing: ...
    async def renew(self, company: str, conversation: str, effect_id: str, claim_token: str) -> Standing: ...
    async def release(self, company: str, conversation: str, effect_id: str, claim_token: str) -> Standing: ...


@dataclass(frozen=True, slots=True)
class Recorded:
    """What an effect gave, as the record has it. `replay` is None where it was done just now."""

    value: Any = field(repr=False)
    effect_id: str | None = None
    replay: Replay | None = None


class Recording:
    """The effects of one attempt of a turn, each done once."""

    def __init__(
        self,
        client: Effects,
        company: str,
        conversation: str,
        turn: str,
        attempt: int,
        *,
        fresh: Callable[[], str],
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self._client = client
        self._place = (company, conversation, turn, attempt)
        self._names = TurnNames(company, conversation, turn, attempt, fresh)
        self._sleep = sleep

    @contextlib.asynccontextmanager
    async def effect(
        self,
        kind: str,
        target: str,
        args: Mapping[str, Any],
        *,
        step: int | None,
        at_most_once: bool = False,
        tool_call_id: str | None = None,
        exact: bool = True,
    ) -> AsyncIterator[Claimed]:
        """The block does the effect if `done` is None, and hands what it gave to `settle`. What it raises is raised,
        the claim is given back first unless the effect is `at_most_once`; then its outcome is unknown, but for
        `NotDone`, which is recorded.

        Raises EffectStopped kinds, and what a client's method raises."""
        named = self._names.next(kind, target, args, at_most_once=at_most_once)
        effect = Effect(
            *self._place,
            kind=kind,
            target=target,
            args=args,
            claim_token=named.claim_token,
            idempotency=AT_MOST_ONCE if at_most_once and kind != "tool_call" else None,
            tool_call_id=tool_call_id or named.tool_call_id,
            step=step,
            call_id_scope="conversation" if named.tool_call_id is not None and tool_call_id is None else None,
        )
        claimed: Claimed | None = None
        try:
            claimed = Claimed(self._client, effect, await self._client.submit(effect, exact=exact), exact)
            if claimed.done is not None:
                yield claimed
                return
            async with renewed(claimed.renew, claimed.lease_s, self._sleep):
                try:
                    yield claimed
                except NotDone as fault:
                    if claimed.done is None:
                        await claimed.fail(fault)
                    raise
                except BaseException:
                    if claimed.done is None and not claimed.left and not at_most_once:
                        await claimed.give_back()
                    raise
        except NotDone:
            raise  # recorded: its number stays taken
        except BaseException:
            if claimed is None or claimed.done is None:
                self._names.back(named)
            raise


class Claimed:
    """One submission. `done` is its recorded outcome, or None: then whoever asked does it."""

    def __init__(self, client: Effects, effect: Effect, said: Submitted, exact: bool) -> None:
        self._client = client
        self._effect = effect
        self._exact = exact
        self.left = False
        """Whether an outcome has left whose fate is not known."""
        self.lease_s = said.lease_s
        self._effect_id = said.effect_id or ""
        self.done = _read(said)

    async def settle(self, value: Any) -> Recorded:
        """Record what it gave. What comes back went through the record's form, so that a run that did the work and
        one that finds it done go on with the same.

        Where another runner of the same effect was first, what it recorded comes back, its `replay` set. Raises
        BadCall where `value` is not JSON."""
        try:
            kept = decode(encode(value), exact=self._exact)
        except ValueError as fault:
            raise BadCall(f"what {self._effect.kind} {self._effect.target!r} gave cannot be kept: {fault}") from None
        for last in (False, True):
            try:
                self.left = True
                await self._client.complete(*self._whose(), kept)
            except Problem as problem:
                if problem.status in (400, 413):
                    self.left = False
                if problem.status not in (404, 409) or last:
                    raise
                self.done = await self._look_again()
                if self.done is not None:
                    return self.done
            else:
                self.done = Recorded(kept, self._effect_id)
                return self.done
        raise AssertionError("unreachable")

    async def fail(self, fault: NotDone) -> None:
        """Raises Problem, the claim given back, where the gateway does not take the words: nothing was done."""
        try:
            await self._client.fail(*self._whose(), fault.code, fault.message)
        except Problem as problem:
            if problem.status == 400:
                await self.give_back()
            raise
        fault.effect_id = self._effect_id

    async def renew(self) -> None:
        await self._client.renew(*self._whose())

    async def give_back(self) -> None:
        """Tried for a moment only: whatever ended the work matters more."""
        with contextlib.suppress(OncegateError, TimeoutError, RuntimeError):
            async with asyncio.timeout(GIVE_BACK_S):
                await self._client.release(*self._whose())

    async def _look_again(self) -> Recorded | None:
        """Another outcome stands, or the claim is gone. The same token says what there is now."""
        said = await self._client.submit(self._effect, exact=self._exact)
        if said.decision not in ("proceed", "replay"):
            raise EffectOverruled(
                f"it was done here, and what is recorded is {said.decision}", code="overruled", effect_id=said.effect_id
            )
        self._effect_id = said.effect_id or self._effect_id
        found = _read(said)
        return found if found is None or found.replay is not None else replace(found, replay=Replay("effect"))

    def _whose(self) -> tuple[str, str, str, str]:
        return self._effect.company, self._effect.conversation, self._effect_id, self._effect.claim_token


def _read(said: Submitted) -> Recorded | None:
    """The recorded outcome; None where it may be run. Raises EffectStopped kinds for everything else."""
    code = said.error.code if said.error is not None else said.decision
    words = said.reason or (said.error.message if said.error is not None else said.decision)
    match said.decision, said.status:
        case "proceed", _:
            return None
        case "replay", "succeeded" if said.error is None:
            return Recorded(said.result, said.effect_id, said.replay)
        case "replay", "failed":
            raise NotDone(code, words, effect_id=said.effect_id)
        case ("replay", "denied") | ("denied", _):
            raise EffectDenied(words, code=code, effect_id=said.effect_id)
        case "replay", _:
            raise EffectUnknown(words, code=code, effect_id=said.effect_id)
        case "rate_limited", _:
            raise EffectLimited(words, retry_after=said.retry_after_s)
    raise EffectBlocked(words, code=code, effect_id=said.effect_id, approval=said.approval, first=said.first)
