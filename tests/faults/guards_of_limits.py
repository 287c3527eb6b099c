"""Guards of rate limits: what is counted, once, in one step, and given back where nothing came of it (7.5)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_FLOOR
from typing import Any, Final

from msgspec.structs import replace

from gateway.core import claim as claiming
from gateway.core import holding, policy_limits, repeats
from gateway.core.policy_limits import Counted, RateLimit
from gateway.service import claiming as asking
from gateway.service import rate_limits
from gateway.service.claiming import Claiming
from gateway.service.rate_limits import RateLimits
from gateway.service.refusal_log import RefusalLog
from tests.faults.guards import Guard, changed_source, theme
from tests.faults.plan import How, Plan
from tests.faults.run import World

_begin, _hold, _began, _counted, _whom = (
    holding.begin,
    holding.hold,
    asking._began,
    rate_limits.counted,
    policy_limits._whom,
)
_LIMITED: Final = theme("limited")


def _under(*names: str) -> Callable[[Plan], bool]:
    return lambda plan: plan.theme == "limited" and any(name in plan.policy for name in names)


def _begun_unasked(view: Any, request: Any, own: Any) -> Any:
    return _begin(view, replace(request, limited=False), own)


def _begin_held_unasked(view: Any, request: Any, own: Any) -> Any:
    return _begin(view, replace(request, limited=False) if request.asks is not None else request, own)


def _held_unasked(view: Any, request: Any, own: Any, first: Any, kept: Any) -> Any:
    return _hold(view, replace(request, limited=False), own, first, kept)


async def _nothing_back(self: Any, passed: Any) -> None:
    return None


async def _unsaid(self: Any, *rest: Any) -> None:
    return None


def _asked_first(source: str) -> str:
    """Whatever the ledger has of it."""
    return source.replace(
        "        try:\n            while True:",
        "        if limits:\n"
        "            passed = await self._rate_limits.take(limits, Subject.of(claim))\n"
        "            claim = msgspec.structs.replace(claim, limited=False)\n"
        "        try:\n            while True:",
    )


def _landed_is_given_back(source: str) -> str:
    return source.replace("                    if lost.may_have_run:\n", "                    if False:\n")


def _nothing_is_given_back(source: str) -> str:
    return source.replace("if passed is not None:", "if False:")


def _counted_again(source: str) -> str:
    return source.replace("claim, limited=False), True", "claim, limited=True), True")


def _counts_of_the_second_only(source: str) -> str:
    return source.replace("taken.append((counter, got))", "taken[:] = [(counter, got)]")


def _lets_pass(source: str) -> str:
    return source.replace(
        'if limit.on_error == "deny":\n                    await self.give_back',
        "if False:\n                    await self.give_back",
    )


def _uncountable_passes(source: str) -> str:
    return source.replace(
        'if limit.on_error == "deny":\n                    await self._refuse',
        "if False:\n                    await self._refuse",
    )


def _one_each(limit: RateLimit, *rest: Any) -> Counted | None:
    found = _counted(limit, *rest)
    return None if found is None else replace(found, amount=1)


def _together(per: Any, conversation: str, turn: str | None, arguments: Any) -> tuple[str, ...] | None:
    whom = _whom(per, conversation, turn, arguments)
    return None if whom is None else whom[:1]


def _as_written(per: Any, conversation: str, turn: str | None, arguments: Any) -> tuple[str, ...] | None:
    value = per.find(arguments) if isinstance(per, policy_limits.Pointer) else None
    return ("text", per.text, value) if isinstance(value, str) else _whom(per, conversation, turn, arguments)


def _only_what_is_sent(decision: Any, claim: Any) -> bool:
    return isinstance(decision, asking.d.Granted) and _began(decision, claim)


def _whatever_is_granted(decision: Any, claim: Any) -> bool:
    return isinstance(decision, asking.d.Granted) or _began(decision, claim)


def _many_steps(world: World) -> None:
    world.counters.in_one_step = False


def _endless(world: World) -> None:
    world.counters.window_ends = False


def _to_any_window(world: World) -> None:
    world.counters.gives_to_its_window = False


def _of_claiming(change: Callable[[str], str]) -> tuple[tuple[Any, str, Any], ...]:
    return ((Claiming, "__call__", changed_source(Claiming, "__call__", change)),)


def _of_taking(change: Callable[[str], str]) -> tuple[tuple[Any, str, Any], ...]:
    return ((RateLimits, "take", changed_source(RateLimits, "take", change)),)


def _of_jobs(plan: Plan) -> bool:
    return plan.theme == "limited" and bool(plan.jobs)


def _repeats(plan: Plan) -> bool:
    return plan.theme == "limited" and any(ask.how is How.REISSUED for ask in plan.asks)


def _at_an_end(plan: Plan) -> bool:
    return plan.theme == "limited" and any(fault.kind == "count reply slow" for fault in plan.faults)


GUARDS_OF_LIMITS: Final = (
    Guard(
        "limits are asked",
        "7.5",
        ((claiming, "begin", _begun_unasked), (repeats, "begin", _begun_unasked)),
        fits=_LIMITED,
    ),
    Guard(
        "limits are asked of what is held",
        "7.5",
        (
            (holding, "begin", _begin_held_unasked),
            (claiming, "begin", _begin_held_unasked),
            (repeats, "begin", _begin_held_unasked),
        ),
        fits=_under("held"),
    ),
    Guard("limits are asked of repeats", "7.5", ((repeats, "hold", _held_unasked),), fits=_repeats),
    Guard("replays never count", "7.5", _of_claiming(_asked_first), fits=_LIMITED),
    Guard("what is new for nobody is given back", "7.5", _of_claiming(_nothing_is_given_back), fits=_LIMITED),
    Guard("both limits or none", "7.5", ((RateLimits, "give_back", _nothing_back),), fits=_under("platform")),
    Guard("every limit is given back", "7.5", _of_taking(_counts_of_the_second_only), fits=_under("platform")),
    Guard("what may have landed stays counted", "7.5", _of_claiming(_landed_is_given_back), fits=_LIMITED),
    Guard("what began stays counted", "7.5", ((asking, "_began", lambda decision, claim: False),), fits=_LIMITED),
    Guard("what is held stays counted", "7.5", ((asking, "_began", _only_what_is_sent),), fits=_under("held")),
    Guard(
        "what is granted but not new does not count", "7.5", ((asking, "_began", _whatever_is_granted),), fits=_LIMITED
    ),
    Guard("counted once a claim", "7.5", _of_claiming(_counted_again), fits=_LIMITED),
    Guard("amounts are summed", "7.5", ((rate_limits, "counted", _one_each),), fits=_under("buyer")),
    Guard("sums are rounded up", "7.5", ((rate_limits, "ROUND_CEILING", ROUND_FLOOR),), fits=_under("buyer")),
    Guard("each is counted apart", "7.5", ((policy_limits, "_whom", _together),), fits=_LIMITED),
    Guard("one buyer, however written", "7.5", ((policy_limits, "_whom", _as_written),), fits=_under("buyer")),
    Guard("what cannot be counted waits", "7.5", _of_taking(_lets_pass), fits=_LIMITED),
    Guard("what does not say what is counted is refused", "7.5", _of_taking(_uncountable_passes), fits=_LIMITED),
    Guard("a limited call is in the log", "7.6", ((RefusalLog, "rate_limited", _unsaid),), fits=_LIMITED),
    Guard("count and end are one step", "7.5", world=_many_steps, fits=_LIMITED),
    Guard("windows end", "7.5", world=_endless, fits=_LIMITED),
    Guard("given back to its own window", "7.5", world=_to_any_window, fits=_at_an_end),
)
