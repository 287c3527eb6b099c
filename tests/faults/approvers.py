"""Those who decide approvals (7.4): operators, a principal that a rule names, the customer through a runtime.

They decide twice, at once, too late, and what they have in their hands may be outdated by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.core.errors import GatewayError
from gateway.core.model import Principal, Role
from gateway.service.decide_approval import Verdict
from gateway.service.sending import Trace
from tests.faults import judged_effects
from tests.faults.callers import PAUSES_S, request
from tests.faults.clock import pause
from tests.faults.loop import NOBODY
from tests.faults.plan import COMPANY, Approver, Ask
from tests.faults.shop import RUNTIME

if TYPE_CHECKING:
    from tests.faults.run import World

WHO: Final = {
    "op": Principal("op", Role.OPERATOR, frozenset({COMPANY}), "k2"),
    "boss": Principal("boss", Role.MERCHANT, frozenset({COMPANY}), "k3"),
    "customer": RUNTIME,
}
_TRACE: Final = Trace("req-2")
LOOKS: Final = 4
LOOK_S: Final = 2.0
_NOTHING: Final = Ask(0.0, 0, "", None, "", "", None, None, None, "")


async def approver(world: World, one: Approver) -> None:
    """Look until something is pending, think, and decide all of it."""
    await pause(world.loop, one.at)
    for _ in range(LOOKS):
        pending = await _pending(world, one)
        if pending:
            await pause(world.loop, one.thinks_s)
            for number in range(one.times):
                for shown in pending:
                    gateway = (one.gateway + number) % world.plan.gateways
                    deciding = _decided(world, one, gateway, shown)
                    world.loop.create_task(deciding, context=NOBODY.copy())
            return
        await pause(world.loop, LOOK_S)


async def _pending(world: World, one: Approver) -> list[dict[str, Any]]:
    """All pages of what is pending."""

    async def look(process: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            shown, cursor = await process.desk.decide_approval.pending(WHO[one.who], COMPANY, cursor, 10)
            found += [each for each in shown if each["status"] == "pending"]
            if cursor is None:
                return found

    answer = await request(
        world, one.gateway, _NOTHING, f"{one.who} looks at what is pending", one.patience, look, _any
    )
    return answer if isinstance(answer, list) else []


def _any(watch: Any, served: Any, answer: Any) -> None:
    if isinstance(answer, GatewayError) and answer.code != "ledger_unavailable":
        watch.broke("8", f"what is pending cannot be listed: {answer.code}")


async def _decided(world: World, one: Approver, gateway: int, shown: dict[str, Any]) -> None:
    said, name = ("granted" if one.grants else "denied"), shown["id"]
    arguments = shown["arguments"]
    sku = "" if arguments is None else str(msgspec.json.decode(bytes(arguments))["sku"])
    ask = Ask(
        one.at, gateway, shown["conversation"], shown["tool_call_id"], shown["tool"], sku, shown["turn"], shown["step"],
        None, "approved",
    )  # fmt: skip
    words = Verdict("looked at it", "yes, please" if one.who == "customer" else None)

    async def act(process: Any) -> Any:
        if one.grants:
            return await process.desk.decide_approval.grant(WHO[one.who], name, words, _TRACE)
        return await process.desk.decide_approval.deny(WHO[one.who], name, words)

    for number in range(one.tries):
        answer = await request(
            world,
            (gateway + number) % world.plan.gateways,
            ask,
            f"{one.who} says {said} of {shown['effect_id'][:8]}",
            one.patience,
            act,
            lambda watch, served, answer: judged_effects.decision(watch, served, name, said, answer),
        )
        if isinstance(answer, dict):
            world.count(f"approval {said}")
        if answer is not None and not (isinstance(answer, GatewayError) and answer.retryable):
            if isinstance(answer, GatewayError):
                world.count(f"approval: {answer.code}")
            return
        await pause(world.loop, PAUSES_S[min(number, 2)])
