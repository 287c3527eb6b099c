"""What must hold of every answer, at the moment at which it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.core.answer import Answer
from gateway.core.errors import GatewayError
from tests.faults import endings
from tests.faults.plan import How
from tests.faults.replies import Meaning

if TYPE_CHECKING:
    from tests.faults.callers import Served
    from tests.faults.invariants import Watch

_NOT_SENT: Final = ("merchant_unreachable", "merchant_not_ready")
_NOTHING_SENT: Final = (
    *("ledger_unavailable", "tool_call_id_reused", "attempt_superseded", "malformed", "unknown_tool", "rate_limited"),
)
_SHOWN: Final = ("succeeded", "failed", "denied", "indeterminate", "awaiting_approval")
"""Statuses that an answer with something to show may have (section 1)."""


def problem(watch: Watch, served: Served, problem: GatewayError) -> None:
    code = problem.code
    if code in _NOTHING_SENT and served.sends:
        watch.broke("8", f"{served.ask.call} is answered {code}, but it was sent")
    if code in _NOT_SENT and set(served.meanings) != {Meaning.NOT_DONE}:
        watch.broke("5", f"{served.ask.call} is answered {code}, after {', '.join(served.meanings)}")
    if code == "tool_call_id_reused" and not endings.given_twice(watch.world.plan, served.ask):
        watch.broke("2.2", f"{served.ask.call} is refused as reused, and never was")
    if code not in (*_NOT_SENT, *_NOTHING_SENT, "call_in_flight"):
        watch.broke("8", f"{served.ask.call} is answered {code}")
    known = served.meanings and served.meanings[-1] is not Meaning.NOT_DONE
    if known and served.meanings[-1] is Meaning.UNKNOWN and any(watch.started[key] > 1 for key in served.keys):
        known = False  # taken up by another (4.6), whose send still runs
    if known and code == "call_in_flight" and not served.keys & (watch.stirred | watch.forgotten):
        watch.broke("4.2", f"{served.ask.call} is answered {code}, after {', '.join(served.meanings)}")


def answer(watch: Watch, served: Served, answer: Answer) -> None:
    key, status = answer.effect_id or "", answer.status
    if answer.decision != "proceed" and served.sends:
        watch.broke("4.8", f"{served.ask.call} is answered {answer.decision}, but it was sent")
    if answer.decision == "proceed" and not served.sends:
        watch.broke("4.2", f"{served.ask.call} is answered as done by itself, and never was sent")
    if served.ask.how is How.MISUSED and answer.decision == "replay" and key in watch.senders:
        orders = watch.world.books.of(key)
        if any(order.sku != served.ask.sku for order in orders):
            watch.broke("2.2", f"{served.ask.call} is shown another call's outcome")
    if status not in _SHOWN:
        watch.broke("8", f"{served.ask.call} is answered {answer.decision}, {status}: {answer.message}")
    if status == "succeeded" and not answer.recorded and served.token in watch.claims_lost:
        watch.needs_alarm[key] = watch.world.processes[served.gateway]
    if key in watch.excuses:
        return
    if not answer.recorded and key in watch.refused_for_room and answer.decision == "proceed":
        watch.broke("4.11", f"{served.ask.call} is answered, but the outcome found no room in the ledger")
    result = None if answer.result is None else bytes(answer.result)
    if status == "succeeded":
        if answer.decision == "proceed":
            watch.told_of_success.setdefault(served.ask.group, set()).add(served.ask.intent)
        dropped = answer.error is not None
        if not watch.happened(key, result, dropped):
            watch.broke("4.2", f"{served.ask.call} is told of a success that did not happen: {result!r}")
        if any(o.sku != served.ask.sku or o.tool != served.ask.tool for o in watch.world.books.of(key)):
            watch.broke("2.2", f"{served.ask.call} is shown another call's result")
    if status == "failed" and (answer.recorded or key not in watch.resolved):
        watch.said_failed.add(key)
        watch.must_not_happen(key, "answered as failed")
    if answer.decision == "blocked" and answer.first is not None and answer.first["status"] == "succeeded":
        first = answer.first["effect_id"]
        shown = answer.first.get("result")
        dropped = shown is None
        if first not in watch.excuses and not watch.happened(first, None if dropped else bytes(shown), dropped):
            watch.broke("4.9", f"{served.ask.call} is shown a first that did not happen")
    if key not in watch.forgotten:
        _same_as_before(watch, served, answer, key)
        _recorded(watch, served, answer, key, result)
        _as_seen(watch, served, answer, key)


def _same_as_before(watch: Watch, served: Served, answer: Answer, key: str) -> None:
    """2.1, 2.5: an id that was answered with an effect's outcome stays bound to it."""
    ask = served.ask
    places = {(a.turn, a.step, a.attempt) for a in watch.world.plan.asks if a.call == ask.call}
    if answer.decision not in ("proceed", "replay") or ask.call is None or len(places) > 1:
        return
    before = watch.bound.setdefault((ask.conversation, ask.call, ask.sku), key)
    undone = watch.resolved | watch.forgotten | set(watch.excuses)
    if before != key and before not in undone and not watch.world.has_outlived_records:
        watch.broke("2.1", f"{ask.call} was {before[:8]} and now is {key[:8]}")


def _recorded(watch: Watch, served: Served, answer: Answer, key: str, result: bytes | None) -> None:
    """4.2: what is answered as recorded is recorded by now."""
    if not answer.recorded or answer.status not in ("succeeded", "failed"):
        return
    effect = watch.world.ledger.effect(bytes.fromhex(key))
    if effect is None or effect.status.value != answer.status or effect.outcome is None:
        watch.broke("4.2", f"{served.ask.call} is answered before its outcome is recorded")
    elif effect.outcome.result != result and not effect.outcome.dropped:
        watch.broke("2.1", f"{served.ask.call} is told another result than is recorded")


def _as_seen(watch: Watch, served: Served, answer: Answer, key: str) -> None:
    """Section 5: the answer says what the merchant's last reply means."""
    if not served.meanings or key in watch.stirred:
        return
    last = served.meanings[-1]
    if last is Meaning.NOT_DONE and watch.started[key] > 1:
        return  # released, and claimed by another before this one could say so
    if last is Meaning.UNKNOWN and watch.started[key] > 1 and answer.recorded:
        return  # another took it up meanwhile (4.6), and knows
    expected = {
        Meaning.DONE: ("succeeded",),
        Meaning.REFUSED: ("failed",),
        Meaning.UNKNOWN: ("indeterminate",),
        Meaning.NOT_DONE: ("indeterminate",) if key in watch.told_nothing else (),
    }[last]
    if answer.status not in expected:
        watch.broke("5", f"{served.ask.call} is answered {answer.status}, but the merchant's reply means: {last}")


def told(answer: Answer) -> str:
    result = "" if answer.result is None else bytes(answer.result).decode()[:60]
    code = "" if answer.error is None else answer.error["code"]
    recorded = "" if answer.recorded else ", not recorded"
    return f"{answer.decision}, {answer.status} {result}{code} ({(answer.effect_id or '')[:8]}{recorded})"
