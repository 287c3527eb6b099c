"""One call, from the runtime's request to its answer: the walk in docs/architecture.md.

This file knows the caller, the tool and the arguments; `claiming` asks the ledger, `running` sends and settles what
was granted, and `reading` sends what needs no ledger.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from gateway.core import decisions as d
from gateway.core.answer import Answer
from gateway.core.conversation import View
from gateway.core.errors import Malformed
from gateway.core.identity import Place
from gateway.core.model import Company, Principal, Role, Tool
from gateway.core.ports import Clock
from gateway.core.record import Effect
from gateway.core.requests import Claim
from gateway.core.rights import Right, may
from gateway.service import answers
from gateway.service.answers import Asked
from gateway.service.call_request import CallRequest, arguments_of, check_scope
from gateway.service.claiming import Claiming
from gateway.service.claims import DEFAULT_TIMEOUT_S, CallLimits, Claims, Wanted
from gateway.service.id_hints import IdHints
from gateway.service.judging import NOTHING_AGAINST, Judged, Judging
from gateway.service.rate_limits import RateLimits
from gateway.service.reading import Reading
from gateway.service.refusal_log import RefusalLog, Subject
from gateway.service.refusing import problem_of
from gateway.service.registry import Registry
from gateway.service.replay_notes import ReplayNotes
from gateway.service.running import Running
from gateway.service.sending import Trace
from gateway.service.settled_answers import Key, SettledAnswers, key_of

HELD_READ = "a call that needs approval, a read-only one too,"


class HandleCall:
    """Answers one call. Raises GatewayError for what is not an answer."""

    def __init__(
        self,
        *,
        registry: Registry,
        refusals: RefusalLog,
        judging: Judging,
        claims: Claims,
        claiming: Claiming,
        running: Running,
        reading: Reading,
        rate_limits: RateLimits,
        notes: ReplayNotes,
        settled: SettledAnswers,
        clock: Clock,
        limits: CallLimits,
    ) -> None:
        self._registry = registry
        self._refusals = refusals
        self._judging = judging
        self._claims = claims
        self._claiming = claiming
        self._running = running
        self._reading = reading
        self._rate_limits = rate_limits
        self._notes = notes
        self._settled = settled
        self._clock = clock
        self._limits = limits
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
        wanted = Wanted(company, request.conversation, request.tool_call_id, request.tool, arguments, place, scope)
        return self._answer(wanted, principal.role, key, trace)

    async def _answer(self, wanted: Wanted, role: Role, key: Key | None, trace: Trace) -> Answer:
        company = wanted.company
        tool = self._registry.tool(company.name, wanted.target)
        judged = self._judging.call(company, tool, wanted.target, wanted.arguments, wanted.place.step, role)
        # What policy holds is recorded, a read too: an approval is of something that stands (7.4).
        if tool is not None and not tool.verdict.side_effecting and judged.asks is None:
            return await self._read_only(wanted, tool, judged, trace)
        if not _named(wanted):
            if isinstance(judged.refusal, d.Refused):
                raise problem_of(judged.refusal)
            kind = "a side-effecting call" if tool is None or tool.verdict.side_effecting else HELD_READ
            raise Malformed(
                f"{kind} needs a tool_call_id, or turn and attempt in its place",
                details={"fields": [{"field": "/tool_call_id", "problem": "missing or blank"}]},
            )
        asked = _asked(wanted, tool is None or tool.verdict.side_effecting)
        answer = await self._recorded(self._claims.of_call(wanted, tool, judged), asked, tool, judged, trace, key)
        assert answer is not None  # only a look-up ends without one
        return answer

    async def _recorded(
        self, claim: Claim, asked: Asked, tool: Tool | None, judged: Judged, trace: Trace, key: Key | None
    ) -> Answer | None:
        """The answer from the ledger, or from the merchant under a claim; None only for what is UNRECORDED."""
        timeout_s = tool.timeout_s if tool is not None else DEFAULT_TIMEOUT_S
        deadline = self._clock.monotonic() + timeout_s + self._limits.wait_margin_s
        decision, view, claim, at = await self._claiming(claim, deadline, judged.limits)
        if isinstance(decision, d.Granted):
            return await self._running.run(claim, decision.effect, view, asked, trace, at, key)
        if decision is d.UNRECORDED:
            return None
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
                return answers.of_hold(asked, effect, first, claim.terms.hold_ms)
            case d.Denied(fault=fault, first=first):
                await self._refusals.denied(Subject.of(claim), decision)
                return answers.of_denial(asked, fault, first)
            case d.Refused():
                raise problem_of(decision, partial(self._registry.tool, claim.company), claim.target)
        raise AssertionError(f"a claim was answered {decision}")

    async def _read_only(self, wanted: Wanted, tool: Tool, judged: Judged, trace: Trace) -> Answer:
        asked, company = _asked(wanted, False), wanted.company
        # However long ago: what it left unknown never expires, and a host's clock is not the ledger's.
        was_protected = tool.protected_until_ms is not None
        if was_protected and _named(wanted):
            claim = self._claims.of_call(wanted, tool, judged, unrecorded=True)
            # What it started as side-effecting goes on as that: its record says under which key and mode. With no
            # ledger to ask, nobody knows whether this is such a call, so it is refused like one (4.11).
            recorded = await self._recorded(claim, _asked(wanted, True), tool, NOTHING_AGAINST, trace, None)
            if recorded is not None:
                return recorded
        if isinstance(judged.refusal, d.Refused):
            raise problem_of(judged.refusal)
        subject = Subject(
            company.name,
            wanted.conversation,
            wanted.target,
            wanted.tool_call_id,
            wanted.place.turn,
            wanted.arguments,
            judged.ruled,
            int(company.retention_s * 1000),
        )
        if isinstance(judged.refusal, d.Denied):
            await self._refusals.denied(subject, judged.refusal)
            return answers.of_denial(asked, judged.refusal.fault, None)
        if judged.limits:
            await self._rate_limits.take(judged.limits, subject)
        return await self._reading.run(
            tool, wanted.tool_call_id, wanted.conversation, wanted.arguments, wanted.place, asked, trace
        )


def _asked(wanted: Wanted, side_effecting: bool) -> Asked:
    return Asked(wanted.company.name, wanted.conversation, wanted.tool_call_id, wanted.target, side_effecting)


def _named(wanted: Wanted) -> bool:
    """Whether the ledger has a name for it (2.1, 2.7)."""
    return wanted.tool_call_id is not None or (wanted.place.turn is not None and wanted.place.attempt is not None)
