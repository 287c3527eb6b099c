"""One call, from the runtime's request to its answer: the walk in docs/architecture.md.

This file knows the caller, the tool and the arguments, and asks the ledger; `running` sends and settles what
was granted; `reading` sends what needs no ledger.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.core import decisions as d
from gateway.core import identity
from gateway.core.answer import Answer
from gateway.core.conversation import Event, View
from gateway.core.errors import CallInFlight, LedgerUnavailable, Malformed
from gateway.core.identity import Arguments, Kind, Place, Scope
from gateway.core.model import Company, Principal, Tool
from gateway.core.ports import Clock, Ledger, Randomness
from gateway.core.record import Effect, Fault, Mode, Status
from gateway.core.requests import Claim, OnRepeat, Terms
from gateway.core.rights import Right, may
from gateway.service import answers, refusing
from gateway.service.answers import Asked
from gateway.service.asking import Asking
from gateway.service.call_request import CallRequest, arguments_of, check_scope
from gateway.service.deciding import Decider
from gateway.service.id_hints import IdHints
from gateway.service.reading import Reading
from gateway.service.recent_ids import RecentIds
from gateway.service.refusing import problem_of
from gateway.service.registry import Registry
from gateway.service.replay_notes import ReplayNotes
from gateway.service.running import Running
from gateway.service.schemas import ArgumentCheck
from gateway.service.sending import Trace
from gateway.service.settled_answers import Key, SettledAnswers, key_of
from gateway.service.waiting import Waiting

DEFAULT_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Platform settings of calls, in seconds."""

    lease_margin_s: float = 5.0
    """How much longer than its deadline a call may hold its claim (4.5)."""
    wait_margin_s: float = 1.0
    """How much longer than that deadline a concurrent duplicate waits for the answer (4.8)."""


class HandleCall:
    """Answers one call. Raises GatewayError for what is not an answer."""

    def __init__(
        self,
        *,
        registry: Registry,
        ledger: Ledger,
        decider: Decider,
        running: Running,
        reading: Reading,
        waiting: Waiting,
        asking: Asking,
        notes: ReplayNotes,
        settled: SettledAnswers,
        schemas: ArgumentCheck,
        clock: Clock,
        randomness: Randomness,
        limits: CallLimits,
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._decider = decider
        self._running = running
        self._reading = reading
        self._waiting = waiting
        self._asking = asking
        self._notes = notes
        self._schemas = schemas
        self._clock = clock
        self._randomness = randomness
        self._limits = limits
        self._settled = settled
        self._recent = RecentIds()
        self._hints = IdHints()

    async def __call__(self, principal: Principal, request: CallRequest, trace: Trace) -> Answer:
        await self._registry.refresh()
        begun = self.begin(principal, request, trace)
        return begun if isinstance(begun, Answer) else await begun

    def begin(self, principal: Principal, request: CallRequest, trace: Trace) -> Answer | Coroutine[Any, Any, Answer]:
        """The answer, where it is at hand and nothing has to be waited for (ADR 7); else what gives it when awaited.

        The registry must have been refreshed. Raises GatewayError for what is wrong whatever the ledger says.
        """
        may(principal, Right.CALL, request.company)
        company = self._registry.company(request.company)
        arguments = arguments_of(request)
        place = Place(request.turn, request.step, request.attempt)
        scope = request.call_id_scope or company.call_id_scope
        check_scope(request, scope)
        key = key_of(company.name, request.conversation, request.tool_call_id, place, scope, request.tool, arguments)
        kept = self._settled.get(key)
        if kept is not None:
            asked = Asked(company.name, request.conversation, request.tool_call_id, request.tool)
            return self._replayed(asked, kept[0], "tool_call_id", kept[1], company)
        return self._answer(company, request, arguments, place, scope, key, trace)

    async def _answer(
        self,
        company: Company,
        request: CallRequest,
        arguments: Arguments,
        place: Place,
        scope: Scope,
        key: Key | None,
        trace: Trace,
    ) -> Answer:
        tool = self._registry.tool(request.company, request.tool)
        refusal = self._refusal(company, tool, request, arguments)
        if tool is not None and not tool.verdict.side_effecting:
            return await self._read_only(company, tool, request, arguments, place, scope, refusal, trace)
        if request.tool_call_id is None and (request.turn is None or request.attempt is None):
            if isinstance(refusal, d.Refused):
                raise problem_of(refusal)
            raise Malformed(
                "a side-effecting call needs a tool_call_id, or turn and attempt in its place",
                details={"fields": [{"field": "/tool_call_id", "problem": "missing or blank"}]},
            )
        claim = self._claim(company, tool, request, arguments, place, scope, refusal)
        asked = Asked(company.name, request.conversation, request.tool_call_id, request.tool)
        answer = await self._recorded(claim, asked, tool, trace, key)
        assert answer is not None  # only a look-up ends without one
        return answer

    async def _recorded(
        self, claim: Claim, asked: Asked, tool: Tool | None, trace: Trace, key: Key | None
    ) -> Answer | None:
        """The answer from the ledger, or from the merchant under a claim; None only for what is UNRECORDED."""
        timeout_s = tool.timeout_s if tool is not None else DEFAULT_TIMEOUT_S
        deadline = self._clock.monotonic() + timeout_s + self._limits.wait_margin_s
        likely_new = claim.refusal is None and not self._recent.known(claim.slot)
        looks, asked_merchant = 0, False
        while True:
            claimed = self._clock.monotonic()
            try:
                decision, view = await self._decider.claim(claim, likely_new=likely_new)
            except LedgerUnavailable as lost:
                if lost.may_have_run:
                    self._running.withdraw(claim)
                raise
            match decision:
                case d.Granted(effect=effect):
                    return await self._running.run(claim, effect, view, asked, trace, claimed, key)
                case d.Wait(effect_id=effect_id, repeat_of=kept):
                    claim = msgspec.structs.replace(claim, repeat_of=claim.repeat_of | kept)
                    if not await self._waiting.for_end(effect_id, deadline, looks):
                        raise CallInFlight(retry_after_s=1.0)
                    likely_new, looks = False, looks + 1
                case d.Replay(effect=Effect() as unknown) | d.Denied(first=Effect() as unknown) if (
                    unknown.status is Status.INDETERMINATE
                    and not asked_merchant
                    and await self._asking.before_answering(unknown, deadline)
                ):
                    likely_new, asked_merchant = False, True
                case d.Refused() if decision is d.UNRECORDED:
                    return None
                case _:
                    return await self._stored(claim, decision, view, asked, key)

    def _replayed(self, asked: Asked, effect: Effect, matched: str, now_ms: int, company: Company) -> Answer:
        self._notes.note(effect, matched, int(company.retention_s * 1000))
        return answers.of_replay(asked, effect, matched, now_ms)

    async def _stored(
        self, claim: Claim, decision: d.Decision, view: View, asked: Asked, key: Key | None = None
    ) -> Answer:
        now_ms = view.now_ms or self._clock.wall_ms()
        match decision:
            case d.Replay(effect=effect, matched=matched):
                self._hints.replayed(claim.company, claim.tool_call_id, claim.place.turn)
                if claim.slot in effect.slots:
                    self._settled.put(key, effect, now_ms)
                return self._replayed(asked, effect, matched, now_ms, self._registry.company(claim.company))
            case d.Blocked(effect=effect, first=first):
                return answers.of_hold(asked, effect, first)
            case d.Denied(fault=fault, first=first):
                await self._log_denial(claim, fault, first)
                return answers.of_denial(asked, fault, first)
            case d.Refused():
                raise problem_of(decision)
        raise AssertionError(f"a claim was answered {decision}")

    async def _read_only(
        self,
        company: Company,
        tool: Tool,
        request: CallRequest,
        arguments: Arguments,
        place: Place,
        scope: Scope,
        refusal: d.Denied | d.Refused | None,
        trace: Trace,
    ) -> Answer:
        asked = Asked(company.name, request.conversation, request.tool_call_id, request.tool, False)
        # However long ago: what it left unknown never expires, and a host's clock is not the ledger's.
        was_protected = tool.protected_until_ms is not None
        named = request.tool_call_id is not None or (request.turn is not None and request.attempt is not None)
        if was_protected and named:
            # What it started as side-effecting goes on as that: its record says under which key and mode. With no
            # ledger to ask, nobody knows whether this is such a call, so it is refused like one (4.11).
            claim = self._claim(company, tool, request, arguments, place, scope, d.UNRECORDED)
            recorded = await self._recorded(
                claim, msgspec.structs.replace(asked, side_effecting=True), tool, trace, None
            )
            if recorded is not None:
                return recorded
        if isinstance(refusal, d.Refused):
            raise problem_of(refusal)
        if isinstance(refusal, d.Denied):
            return answers.of_denial(asked, refusal.fault, None)
        return await self._reading.run(tool, request.tool_call_id, request.conversation, arguments, place, asked, trace)

    def _refusal(
        self, company: Company, tool: Tool | None, request: CallRequest, arguments: Arguments
    ) -> d.Denied | d.Refused | None:
        """What the call gets should it be new; a recorded one replays whatever happened since (4.10)."""
        if tool is None:
            near = self._registry.nearest_tools(company.name, request.tool)
            return refusing.unknown_tool(company.name, request.tool, near)
        if not self._registry.secrets(company.name):
            return refusing.no_secret(company.name)
        problems = self._schemas.problems(tool, arguments.plain)
        if problems:
            return refusing.invalid_arguments(problems)
        if company.max_steps is not None and request.step is not None and request.step > company.max_steps:
            return d.Denied(
                Fault("step_limit", f"Not done: a turn has at most {company.max_steps} steps. Answer the customer now.")
            )
        return None

    def _claim(
        self,
        company: Company,
        tool: Tool | None,
        request: CallRequest,
        arguments: Arguments,
        place: Place,
        scope: Scope,
        refusal: d.Denied | d.Refused | None,
    ) -> Claim:
        timeout_s = tool.timeout_s if tool is not None else DEFAULT_TIMEOUT_S
        terms = Terms(
            # Not `tool.mode`: one that is read-only by now may still have a hold that ends, and that is no read.
            mode=(tool.idempotency if tool is not None else None) or Mode.AT_MOST_ONCE,
            on_repeat=(tool.on_repeat if tool is not None else None) or OnRepeat.HOLD,
            lease_ms=int((timeout_s + self._limits.lease_margin_s) * 1000),
            tool_version=tool.version if tool is not None else 0,
            endpoint=tool.endpoint if tool is not None else "",
            repeat_window_ms=int(company.repeat_window_s * 1000),
            retention_ms=int(company.retention_s * 1000),
            unavailable_means_not_executed=tool is not None and tool.unavailable_means_not_executed,
        )
        return Claim(
            company=company.name,
            conversation=request.conversation,
            tool_call_id=request.tool_call_id,
            kind=Kind.TOOL_CALL,
            target=request.tool,
            arguments=arguments,
            fingerprint=identity.fingerprint(Kind.TOOL_CALL, request.tool, arguments.canonical),
            place=place,
            scope=scope,
            terms=terms,
            token=self._randomness.token(),
            refusal=refusal,
        )

    async def _log_denial(self, claim: Claim, fault: Fault, first: Effect | None) -> None:
        data = {
            "code": fault.code,
            "target": claim.target,
            "tool_call_id": claim.tool_call_id,
            "turn": claim.place.turn,
        }
        if first is not None:
            data["first"] = first.hex
        conversation = identity.conversation_digest(claim.company, claim.conversation)
        try:
            await self._ledger.append(conversation, [Event("effect.denied", None, data)], claim.terms.retention_ms)
        except LedgerUnavailable:
            return  # the refusal stands; only its line in the log is lost
