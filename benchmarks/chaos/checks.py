"""What must hold of a block once it is calm, whatever was done to the processes. Pure: a `Sight` in, violations out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.chaos.plan import Intent
from benchmarks.chaos.sight import Row, Sight, counts, name_of, put_off
from benchmarks.chaos.traffic import Answer
from gateway.core.event_chain import verify
from gateway.core.identity import conversation_digest

TWICE: Final = "done more often than wanted"
UNTRUE_SUCCESS: Final = "told succeeded, and the merchant has no such order"
UNTRUE_NO: Final = "told not done, and it was"
CHANGED: Final = "an outcome that was final changed"
RERUN: Final = "an unknown outcome was run again"
UNSETTLED: Final = "not settled after the lease and the sweep"
MIXED_UP: Final = "another call's result, or a refusal that belongs to another call"
FAULTY: Final = "the gateway answered as it should not"
CHAIN: Final = "sealed events are missing or changed"
_NO_WORD: Final = frozenset({0, 503, 409})


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not be, of one intent (by name) or one effect."""

    rule: str
    intent: str
    detail: str


def check(sight: Sight) -> list[Violation]:
    """Everything that went against the promises, in the order of the rules."""
    by_intent = sight.answers_by_intent()
    arrivals: dict[str, list[Row]] = defaultdict(list)
    orders: dict[str, list[Row]] = defaultdict(list)
    for row in sight.arrivals:
        arrivals[name_of(row)].append(row)
    for row in sight.orders:
        orders[name_of(row)].append(row)
    found = [*_rivals(sight, arrivals)]
    for intent in sight.intents:
        answers = by_intent.get(intent, [])
        found += _once(intent, arrivals[intent.name], orders[intent.name])
        found += _successes(intent, answers, orders)
        found += _refusals(intent, answers, arrivals[intent.name], orders[intent.name])
        found += _last_word(intent, answers, sight)
        found += _faults(intent, answers)
    return [*found, *_steady(sight), *_chains(sight)]


def _once(intent: Intent, arrivals: list[Row], orders: list[Row]) -> Iterable[Violation]:
    if len(orders) > intent.wanted:
        yield Violation(TWICE, intent.name, f"{len(orders)} orders, wanted: {intent.wanted}")
    if not intent.terms.at_most_once:
        return
    counted = [row for row in arrivals if counts(row)]
    if len(counted) > intent.wanted:
        yield Violation(TWICE, intent.name, f"sent {len(counted)} times, wanted: {intent.wanted}")
    for key, times in Counter(row["key"] for row in arrivals if not put_off(row)).items():
        if times > 1:
            yield Violation(TWICE, intent.name, f"key {key} was sent {times} times")


def _rivals(sight: Sight, arrivals: dict[str, list[Row]]) -> Iterable[Violation]:
    groups: dict[str, list[Intent]] = defaultdict(list)
    for intent in sight.intents:
        if intent.rivals is not None:
            groups[intent.rivals].append(intent)
    for intents in groups.values():
        done = [intent.name for intent in intents if any(counts(row) for row in arrivals[intent.name])]
        if len(done) > 1:
            yield Violation(MIXED_UP, intents[0].name, f"one id, and both were sent: {', '.join(done)}")


def _successes(intent: Intent, answers: list[Answer], orders: dict[str, list[Row]]) -> Iterable[Violation]:
    for answer in answers:
        for shown in (answer.body, answer.body.get("first") or {}):
            if answer.status != 200 or shown.get("status") != "succeeded":
                continue
            result = shown.get("result")
            if not isinstance(result, dict) or (result["name"], result["quantity"], result["price"]) != intent.ordered:
                yield Violation(MIXED_UP, intent.name, f"{answer.request} shows {result}")
            elif not any(_is(order, result, shown) for order in orders[intent.name]):
                yield Violation(UNTRUE_SUCCESS, intent.name, f"{answer.request} shows {result}")


def _is(order: Row, result: dict[str, Any], shown: dict[str, Any]) -> bool:
    said = (order["name"], order["quantity"], order["price"], order["number"], order["key"])
    return said == (result["name"], result["quantity"], result["price"], result["id"], shown.get("effect_id"))


def _refusals(intent: Intent, answers: list[Answer], arrivals: list[Row], orders: list[Row]) -> Iterable[Violation]:
    sent = {row["request"] for row in arrivals}
    done = {row["key"] for row in orders}
    for answer in answers:
        not_sent = answer.body.get("outcome") == "not_sent" and answer.body.get("code") != "merchant_not_ready"
        if (not_sent or answer.body.get("decision") in ("denied", "blocked")) and answer.request in sent:
            yield Violation(UNTRUE_NO, intent.name, f"{answer.request} ({answer.said}) reached the merchant")
        if answer.body.get("status") == "failed" and answer.effect in done:
            yield Violation(UNTRUE_NO, intent.name, f"{answer.request} ({answer.said}), and there is an order")
    last = [answer for answer in answers if answer.calm]
    if orders and last and all(_is_no(answer) for answer in last):
        yield Violation(UNTRUE_NO, intent.name, f"every last word was no, and there are orders: {len(orders)}")


def _is_no(answer: Answer) -> bool:
    if answer.status != 200:
        return answer.body.get("outcome") == "not_sent"
    return answer.body["status"] == "failed" or (answer.body["decision"] == "denied" and not answer.body.get("first"))


def _last_word(intent: Intent, answers: list[Answer], sight: Sight) -> Iterable[Violation]:
    """Asked when all is calm, a call is answered, and as its record stands."""
    asked = {ask for ask in sight.asks if ask.intent == intent}
    for answer in answers:
        if not answer.calm:
            continue
        asked.discard(answer.ask)
        superseded = answer.body.get("code") == "attempt_superseded"
        if answer.status in _NO_WORD and not superseded:
            yield Violation(UNSETTLED, intent.name, f"when all was calm, {answer.request} got {answer.said}")
        if answer.effect is not None:
            record = sight.records.get(answer.effect)
            if record is None or record["status"] != answer.body["status"]:
                stands = record["status"] if record else "nothing"
                yield Violation(CHANGED, intent.name, f"{answer.request} got {answer.said}; recorded: {stands}")
    for ask in asked:
        yield Violation(UNSETTLED, intent.name, f"{ask.tool_call_id} was not asked again")


def _faults(intent: Intent, answers: list[Answer]) -> Iterable[Violation]:
    for answer in answers:
        code = answer.body.get("code")
        if code == "tool_call_id_reused" and intent.rivals is None:
            yield Violation(MIXED_UP, intent.name, f"{answer.request}: {answer.body}")
        expected = {"tool_call_id_reused", "attempt_superseded", "call_in_flight", "ledger_unavailable", "stopping"}
        expected |= {"merchant_unreachable", "merchant_not_ready"}
        if answer.status not in (0, 200) and code not in expected:
            yield Violation(FAULTY, intent.name, f"{answer.request}: {answer.said} {answer.body.get('detail')}")


def _steady(sight: Sight) -> Iterable[Violation]:
    """What was told once and recorded is told for ever; what is unknown is never sent again (4.6)."""
    by_effect: dict[str, list[Answer]] = defaultdict(list)
    for answer in sorted(sight.answers, key=lambda each: each.heard):
        if answer.effect is not None:
            by_effect[answer.effect].append(answer)
    released = {e["effect_id"] for events in sight.events.values() for e in events if e["type"] == "effect.released"}
    for effect, answers in by_effect.items():
        intent = answers[0].ask.intent
        if any(answer.ask.intent != intent for answer in answers):
            names = sorted({answer.ask.intent.name for answer in answers})
            yield Violation(MIXED_UP, intent.name, f"effect {effect} answered several calls: {', '.join(names)}")
        settled = next((a for a in answers if a.body["status"] in ("succeeded", "failed") and a.body["recorded"]), None)
        unknown = next((a for a in answers if a.body["status"] == "indeterminate"), None)
        for answer in answers:
            if settled is not None and answer.sent > settled.heard and _shown(answer) != _shown(settled):
                yield Violation(CHANGED, intent.name, f"{settled.said}, and later {answer.request}: {answer.said}")
            # A release proves that nothing was sent: then, and only then, it may run after all.
            may_run = not intent.terms.at_most_once or effect in released
            if unknown is None or may_run or answer.sent <= unknown.heard:
                continue
            if answer.body["decision"] == "proceed":
                yield Violation(RERUN, intent.name, f"{unknown.request} was told unknown, {answer.request} was sent")


def _chains(sight: Sight) -> Iterable[Violation]:
    """What was sealed stands, whoever died while sealing it (7.6)."""
    for name, seal in sight.seals.items():
        company, _, conversation = name.partition("/")
        head = None if seal["head"] is None else bytes.fromhex(seal["head"])
        digest = conversation_digest(company, conversation)
        wrong = verify(digest, seal["sealed"], head, sight.events.get(name, [])).wrong
        if wrong:
            yield Violation(CHAIN, name, wrong)


def _shown(answer: Answer) -> tuple[Any, Any, Any]:
    return answer.body["status"], answer.body["result"], answer.body["error"]
