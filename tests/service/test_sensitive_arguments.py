"""What a tool's parameters mark `x-sensitive` is told to its merchant and to nobody else (promise 9.3)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.adapters.redis_seals import RedisSeals
from gateway.adapters.schemas import Schemas
from gateway.core.conversation import EventLog
from gateway.core.errors import GatewayError
from gateway.core.model import Principal, Role
from gateway.core.policy_bundle import read_bundle
from gateway.core.strict_json import parse
from gateway.service.call_request import CallRequest
from gateway.service.decide_approval import Verdict
from gateway.service.read_feed import ReadFeed
from gateway.service.seal_events import SealEvents
from gateway.service.sending import Trace

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
RUNTIME = Principal("rt", Role.RUNTIME, frozenset({"shop1"}), "k1")
SOUGHT = "411177774111"
"""Too long to stand by chance in a time, a thread's number or a hash: every line of the log is searched for it."""
SECRET = f"card {SOUGHT}"
NUMBER = int(SOUGHT)

CARD = {"type": "string", "maxLength": 40, "x-sensitive": True}
SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a field": ({"properties": {"card": CARD}}, {"card": SECRET}),
    "a number": ({"properties": {"card": {"type": "number", "x-sensitive": True}}}, {"card": NUMBER}),
    "an object, its names too": (
        {"properties": {"pay": {"type": "object", "x-sensitive": True}}},
        {"pay": {SECRET: {"of": NUMBER}}},
    ),
    "items": ({"properties": {"cards": {"items": CARD}}}, {"cards": ["x", SECRET]}),
    "by reference": ({"properties": {"card": {"$ref": "#/$defs/c"}}, "$defs": {"c": CARD}}, {"card": SECRET}),
    "by a pattern": ({"patternProperties": {"^pay": CARD}}, {"pay_with": SECRET}),
    "in one branch": ({"anyOf": [{"properties": {"card": CARD}}, {"required": ["none"]}]}, {"card": SECRET}),
    "any other field": ({"additionalProperties": CARD, "properties": {"sku": {}, "n": {}}}, {"other": SECRET}),
    "everything": ({"x-sensitive": True}, {SECRET: SECRET}),
    "all names": ({"propertyNames": {"x-sensitive": True}}, {SECRET: 1}),
    "a document in a text": (
        {"properties": {"doc": {"contentMediaType": "application/json", "contentSchema": {"properties": {"c": CARD}}}}},
        {"doc": json.dumps({"c": SECRET})},
    ),
}
POLICIES = {
    "none": None,
    "approval": {
        "decision": "require_approval",
        "approvers": ["operator"],
        "timeout_s": 900,
        "message": "Is it wanted?",
    },
    "denied": {"decision": "deny", "reason": "not today"},
}
STEPS = ("call", "again", "other", "wrong", "hold", "grant", "deny", "lapse", "resolve", "another version", "removed")
REPLIES = ("reply", "refused", "broken", "silent", "away")


class Told:
    """Everything that left the service, but for what went to the merchant."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def hear(self, said: Any) -> None:
        if isinstance(said, GatewayError):
            self.words.append(f"{said!s} {said!r} {said.details!r}")
        elif isinstance(said, BaseException):
            raise said
        else:
            self.words.append(msgspec.json.encode(said, enc_hook=repr).decode())


async def story(
    world: Any, seen: dict[str, Any], shape: str, policy: str, steps: list[str], replies: list[str]
) -> Told:
    parameters, hidden = SHAPES[shape]
    told, gateway = Told(), world.another_gateway(schemas=Schemas())
    tool = world.shelf.put("shop1", "create_order", parameters={"type": "object", **parameters})
    rule = POLICIES[policy]
    if rule is not None:
        rules = [{"id": "r", "priority": 1, "when": {"target": "create_order"}, "then": rule}]
        world.shelf.policies["shop1"] = read_bundle({"default_action": "allow", "rules": rules})
    answers = iter(replies)
    kinds = {
        "reply": seen["reply"](),
        "refused": seen["reply"](422, {"error": {"code": "no", "message": "No."}}),
        "broken": seen["reset"],
        "silent": seen["timed_out"],
        "away": seen["no_connection"],
    }
    world.merchant.behave = lambda _: kinds[next(answers, "reply")]
    place = {"company": "shop1", "conversation": "c1", "tool": "create_order"}
    desk, look = gateway.desk, gateway.look_up

    async def ask(id_: str, arguments: Any) -> None:
        request = CallRequest(tool_call_id=id_, arguments=parse(json.dumps(arguments)), **place)
        told.hear(await heard(gateway.handle(RUNTIME, request, Trace("r"))))

    async def pending() -> list[dict[str, Any]]:
        shown, _ = await desk.decide_approval.pending(OPERATOR, "shop1", None, 50)
        told.hear(shown)
        for each in shown:
            told.hear(await heard(desk.decide_approval.get(OPERATOR, each["id"])))
        return shown

    for number, step in enumerate(steps):
        match step:
            case "call" | "again":
                await ask("call_1" if step == "again" else f"call_{number}", {"sku": "A", **hidden})
            case "other":
                await ask("call_1", {"sku": "B", "n": number, **{k: [v, SECRET] for k, v in hidden.items()}})
            case "wrong":
                wrong = {name: {"no": [SECRET * 9, NUMBER]} for name in hidden}
                await ask(f"call_{number}", {"sku": "A", **wrong})
            case "hold":
                await ask(f"call_h{number}", {"sku": "A", **hidden})
                await ask(f"call_i{number}", {"sku": "A", **hidden})
            case "grant":
                for each in await pending():
                    told.hear(await heard(desk.decide_approval.grant(OPERATOR, each["id"], Verdict(), Trace("g"))))
            case "deny":
                for each in await pending():
                    told.hear(await heard(desk.decide_approval.deny(OPERATOR, each["id"], Verdict("no"))))
            case "lapse":
                told.hear(await gateway.sweep.once())
            case "resolve":
                unknown, _ = await look.unknown(OPERATOR, "shop1", None, 50)
                told.hear(unknown)
            case "another version":
                # Without the marks: what is held keeps those that it was held under, what comes now has none.
                world.shelf.put("shop1", "create_order", version=tool.version + 1, parameters={"type": "object"})
                break
            case "removed":
                world.shelf.shelf.pop(("shop1", "create_order"), None)
    await pending()
    for id_ in ("call_1", *(f"call_{n}" for n in range(len(steps)))):
        told.hear(await look.calls(OPERATOR, "shop1", "c1", id_))
    told.hear(await look.events(OPERATOR, "shop1", "c1", 0, 500))
    seals = RedisSeals(world.commands)
    sealing = SealEvents(world.ledger, seals, world.clock, retention_ms=lambda _: 86_400_000)
    await sealing.bring_up_to_date(EventLog("shop1", "c1"))
    told.hear(await ReadFeed(world.ledger, seals).page(OPERATOR, "shop1", 0, None, 500))
    await gateway.settle_background()
    return told


async def heard(work: Any) -> Any:
    try:
        return await work
    except GatewayError as refused:
        return refused


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("shape", SHAPES)
def test_p9_3_a_sensitive_value_is_told_to_the_merchant_and_to_nobody_else(
    open_world: Any, seen: Any, caplog: Any, shape: str, policy: str
) -> None:
    """9.3: answers, problems, approvals, records, events, the feed and every line of the log, at any level."""
    steps = ["call", "again", "other", "wrong", "hold", "grant"]
    _nothing_is_told(open_world, seen, caplog, shape, policy, steps, ["silent", "broken"])


@pytest.mark.parametrize("shape", ["everything", "all names"])
def test_p9_3_names_recorded_under_marks_that_are_gone_are_told_to_nobody(
    open_world: Any, seen: Any, caplog: Any, shape: str
) -> None:
    """9.3, 2.2: an id that is used again names the fields that differ, but not once their tool, whose marks say which
    may be named, is removed."""
    _nothing_is_told(open_world, seen, caplog, shape, "none", ["call", "again", "removed", "other"], [])


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    shape=st.sampled_from(sorted(SHAPES)),
    policy=st.sampled_from(sorted(POLICIES)),
    steps=st.lists(st.sampled_from(STEPS), min_size=3, max_size=8),
    replies=st.lists(st.sampled_from(REPLIES), max_size=6),
)
def test_p9_3_whatever_becomes_of_a_call_its_sensitive_values_are_told_to_nobody_else(
    open_world: Any, seen: Any, caplog: Any, shape: str, policy: str, steps: list[str], replies: list[str]
) -> None:
    """9.3"""
    _nothing_is_told(open_world, seen, caplog, shape, policy, ["call", *steps], replies)


def _nothing_is_told(
    open_world: Any, seen: Any, caplog: Any, shape: str, policy: str, steps: list[str], replies: list[str]
) -> None:
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    told = asyncio.run(_alone(open_world, seen, shape, policy, steps, replies))
    lines = [json.dumps({**record.__dict__, "msg": record.getMessage()}, default=repr) for record in caplog.records]
    for words in (*told.words, *lines):
        assert SOUGHT not in words, words


async def _alone(open_world: Any, seen: Any, shape: str, policy: str, steps: list[str], replies: list[str]) -> Told:
    async with open_world() as world:
        told = await story(world, seen, shape, policy, steps, replies)
        # The merchant is sent the value: that nobody else is told it is no accident of its not being there.
        assert all(SOUGHT.encode() in request.body for request in world.merchant.requests[:1])
        return told
