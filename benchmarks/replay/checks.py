"""What a replay must have shown, checked call by call. Pure: what was expected, what was seen, what arrived."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.replay.assistant import Arrival, Seen
from benchmarks.replay.exact import NUMBER
from benchmarks.replay.expected import Expected, Fate, recycled
from benchmarks.replay.recorded import RecordedCall
from benchmarks.replay.shop import REFUSED, Delivery

NOT_ONCE: Final = "a write did not reach the shop exactly once"
WRONG_ANSWER: Final = "an answer is not the recorded one"
RECYCLED: Final = "a recycled id was refused or got another call's result"
WRONG_FACT: Final = "an answer says something of the call that is not so"
STRAY: Final = "something reached the shop that nobody asked for like this"
NO_ANSWER: Final = "a call was never answered"


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that must not be. `rule` is one of the six above."""

    rule: str
    name: str
    detail: str


def check(expected: Sequence[Expected], seen: Sequence[Seen], deliveries: Sequence[Delivery]) -> list[Failure]:
    """Everything that went against the promises, in the order of the rules."""
    return [
        *_each_write_once(expected, deliveries),
        *_no_strays(deliveries),
        *_answers(expected, seen),
        *_effects(seen),
        *_all_answered(expected, seen),
    ]


def _each_write_once(expected: Sequence[Expected], deliveries: Sequence[Delivery]) -> Iterable[Failure]:
    arrived: dict[Hashable, list[str | None]] = defaultdict(list)
    for delivery in deliveries:
        if delivery.call is not None:
            arrived[delivery.call.at_the_shop].append(delivery.key)
    due: dict[Hashable, list[Expected]] = defaultdict(list)
    for each in expected:
        due[each.call.at_the_shop].append(each)
    for place, some in due.items():
        keys, name = arrived[place], some[0].call.name
        wanted = sum(each.fate is Fate.SENT for each in some)
        if any(each.fate is Fate.READ for each in some):
            if not keys:
                yield Failure(NO_ANSWER, name, "this read never reached the shop")
            elif any(keys):
                yield Failure(STRAY, name, "a read came with an Idempotency-Key")
        elif len(keys) != wanted:
            yield Failure(NOT_ONCE, name, f"it arrived {len(keys)} times, due: {wanted}")
        elif None in keys or len(set(keys)) != wanted:
            yield Failure(NOT_ONCE, name, f"{wanted} effects came under {len(set(keys) - {None})} keys")


def _no_strays(deliveries: Iterable[Delivery]) -> Iterable[Failure]:
    for delivery in deliveries:
        if delivery.note:
            name = delivery.call.name if delivery.call else f"key {delivery.key}"
            yield Failure(STRAY, name, delivery.note)


def _answers(expected: Sequence[Expected], seen: Iterable[Seen]) -> Iterable[Failure]:
    reused = {call.name for call in recycled(each.call for each in expected)}
    others: dict[tuple[str, str], list[RecordedCall]] = defaultdict(list)
    for each in expected:
        others[each.call.conversation, each.call.tool_call_id].append(each.call)
    for one in seen:
        call = one.expected.call
        wrong = _wrong_answer(one)
        if wrong is None:
            if (fact := _wrong_fact(one)) is not None:
                yield Failure(WRONG_FACT, call.name, f"{one.arrival}: {fact}")
            continue
        stolen = any(
            other.what != call.what and _shows(one.body, other)
            for other in others[call.conversation, call.tool_call_id]
        )
        rule = RECYCLED if stolen or call.name in reused else WRONG_ANSWER
        yield Failure(rule, call.name, f"{one.arrival}: {wrong}")


def _wrong_answer(one: Seen) -> str | None:
    body, answer_of = one.body, one.expected.answer_of
    if one.status != 200 or not isinstance(body, dict):
        return f"HTTP {one.status} {str(body)[:300]}"
    if one.expected.fate is Fate.HELD:
        first = body.get("first") or {}
        if (body.get("decision"), body.get("status")) != ("blocked", "awaiting_approval"):
            return f"not held: {body.get('decision')}, {body.get('status')}"
        return None if _shows(first, answer_of) else f"held, with another first: {str(first)[:300]}"
    return None if _shows(body, answer_of) else f"{str(body)[:300]} instead of {answer_of.result[:200]!r}"


def _shows(body: Any, call: RecordedCall) -> bool:
    """Whether an answer (or a held call's `first`) carries this call's recorded outcome."""
    if not isinstance(body, dict):
        return False
    error = body.get("error")
    if not call.refused:
        return body.get("status") == "succeeded" and error is None and body.get("result") == call.shown
    if body.get("status") != "failed" or not isinstance(error, dict) or body.get("result") is not None:
        return False
    details = error.get("details") or {}
    told = (error.get("code"), details.get("status"), details.get("body"))
    return told == ("merchant_refused", (NUMBER, str(REFUSED)), call.result)


def _wrong_fact(one: Seen) -> str | None:
    body, call, fate = one.body, one.expected.call, one.expected.fate
    facts = {
        "conversation": call.conversation,
        "tool_call_id": call.tool_call_id,
        "tool": call.tool,
        "side_effecting": fate is not Fate.READ,
        "recorded": fate is not Fate.READ,
    }
    for name, fact in facts.items():
        if body.get(name) != fact:
            return f"{name} is {body.get(name)!r}, not {fact!r}"
    decisions = _DECISIONS[fate]
    if one.arrival is Arrival.AFTER_RESTART and fate is Fate.SENT:
        decisions = {"replay"}
    if body["decision"] not in decisions:
        return f"the decision was {body['decision']}"
    if body["decision"] == "replay" and (body.get("replay") or {}).get("matched") != "tool_call_id":
        return f"replayed, but matched by {body.get('replay')}"
    return None


_DECISIONS: Final = {
    Fate.READ: {"proceed"},
    Fate.SENT: {"proceed", "replay"},
    Fate.SAME: {"replay"},
    Fate.HELD: {"blocked"},
}


def _effects(seen: Iterable[Seen]) -> Iterable[Failure]:
    """One effect id a call, however often it came; one `proceed` at most."""
    ids: dict[str, set[Any]] = defaultdict(set)
    proceeded: Counter[str] = Counter()
    for one in seen:
        if one.status == 200 and isinstance(one.body, dict) and one.expected.fate is not Fate.READ:
            ids[one.expected.call.name].add(one.body.get("effect_id"))
            proceeded[one.expected.call.name] += one.body.get("decision") == "proceed"
    for name, found in ids.items():
        if len(found) != 1 or None in found:
            yield Failure(WRONG_FACT, name, f"its answers name {len(found)} effect ids")
        if proceeded[name] > 1:
            yield Failure(WRONG_FACT, name, f"it proceeded {proceeded[name]} times")


def _all_answered(expected: Iterable[Expected], seen: Iterable[Seen]) -> Iterable[Failure]:
    answered = {(one.expected.call.name, one.arrival) for one in seen}
    for each in expected:
        for arrival in (Arrival.AT_ONCE, Arrival.AFTER_DROP, Arrival.AFTER_RESTART):
            if (each.call.name, arrival) not in answered:
                yield Failure(NO_ANSWER, each.call.name, f"nothing was read {arrival}")
