"""Merchants with a status endpoint are asked about every unknown outcome, and the record settles by itself (5.4)."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.adapters import ledger_keys, redis_listings
from gateway.core.errors import LedgerUnavailable
from gateway.core.model import Principal, Role
from gateway.core.record import Mode
from gateway.service import asking as asking_module

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
STATUS = "https://shop1.example/status"
COMMITTED = {"status": "committed", "result": {"order": "O-9"}}
VOID = {"status": "void"}
IN_PROGRESS = {"status": "in_progress"}


class Shop:
    """Loses its reply to every call, and answers at its status endpoint what it was told: a body, a `Seen`, or, once a
    gate opens, the body that it was told meanwhile."""

    def __init__(self, world: Any, seen: dict[str, Any]) -> None:
        self.world, self.seen = world, seen
        self.says: Any = IN_PROGRESS
        self.calls: list[Any] = []
        self.questions: list[Any] = []
        self.asked_at: list[float] = []
        world.merchant.behave = self.behave

    def behave(self, request: Any) -> Any:
        if not request.url.endswith("/status"):
            self.calls.append(request)
            return self.seen["timed_out"]
        self.questions.append(request)
        self.asked_at.append(self.world.clock.now)
        if isinstance(self.says, asyncio.Event):
            return self._wait(self.says)
        return self.seen["reply"](body=self.says) if isinstance(self.says, dict) else self.says

    async def _wait(self, gate: asyncio.Event) -> Any:
        await gate.wait()
        return self.seen["reply"](body=self.says)

    @property
    def keys(self) -> list[str]:
        return [json.loads(question.body)["idempotency_key"] for question in self.questions]


@pytest.fixture(autouse=True)
def few_buckets(monkeypatch) -> Iterator[None]:
    """The in-memory ledger takes a tenth of a second to look at all 4,096, and hours pass here."""
    monkeypatch.setattr(redis_listings, "BUCKETS", 16)
    monkeypatch.setattr(ledger_keys, "bucket_of", lambda conversation: conversation[0] % 16)
    ledger_keys.Bucket.of.cache_clear()  # it remembers where other tests' conversations are, and would where these are
    yield
    ledger_keys.Bucket.of.cache_clear()


@pytest.fixture
def shop(world, seen, retag) -> Shop:
    for name in ("create_order", "cancel_order"):
        retag(world, name, status_endpoint=STATUS)
    return Shop(world, seen)


async def passes(world: Any, seconds: float = 0.0, step: float = 0.25) -> None:
    """Time passes, and the gateway does what it does unasked."""
    ends = world.clock.now + seconds
    while True:
        await world.asking.once()
        for _ in range(60):  # what is on its way arrives; what hangs stays where it is
            await asyncio.sleep(0)
        if world.clock.now >= ends:
            return
        world.clock.now = min(ends, world.clock.now + step)


async def stored(world: Any, tool_call_id: str = "n1") -> dict[str, Any]:
    (call,) = await world.look_up.calls(OPERATOR, "shop1", "c1", tool_call_id)
    return call


# --- what is asked, and what its answer does -------------------------------------------------------------------


async def test_p5_4_a_call_that_became_unknown_is_asked_about_and_settles_by_itself(world, shop):
    """5.4, 6: signed, with the key and the context of the call; nobody had to ask for anything."""
    shop.says = COMMITTED
    began = int(time.time())  # the ledger's own clock
    first = await world.call(tool_call_id="n1", turn="t1", step=1, attempt=2)
    assert first.status == "indeterminate"
    await passes(world, 0.9)
    assert shop.questions == []
    await passes(world, 0.25)
    (question,) = shop.questions
    assert question.url == STATUS
    asked = json.loads(question.body)
    assert began <= asked.pop("first_at") <= time.time()
    assert asked == {
        "idempotency_key": first.effect_id,
        "tool": "create_order",
        "context": {"company": "shop1", "conversation": "c1", "turn": "t1", "tool_call_id": "n1", "attempt": 2},
    }
    assert world.merchant.deadlines[-1] == 10.0
    assert (await stored(world))["status"] == "succeeded"
    again = await world.call(tool_call_id="n1", turn="t1", step=1, attempt=2)
    assert (again.decision, again.status, bytes(again.result)) == ("replay", "succeeded", b'{"order": "O-9"}')
    assert len(shop.calls) == 1
    assert world.said == ["committed"]


async def test_p5_4_a_question_is_a_message_of_its_own(world, shop):
    """5.4, 6: signed under an id that no call has, without Idempotency-Key: no store of replies may mix the two up."""
    await world.call(tool_call_id="n1")
    await passes(world, 4)
    assert len(shop.questions) > 1
    headers = [dict(question.headers) for question in shop.questions]
    ids = {each["webhook-id"] for each in headers}
    assert len(ids) == len(headers)
    assert dict(shop.calls[0].headers)["webhook-id"] not in ids
    assert not [each for each in headers if "idempotency-key" in each]


async def test_p5_4_void_settles_as_not_executed_and_the_work_may_be_done_anew(world, shop):
    """5.4, 4.7: until then an identical call is denied; from then on it runs under a key of its own."""
    await world.call(tool_call_id="n1")
    denied = await world.call(tool_call_id="n2")
    assert (denied.decision, denied.error["code"]) == ("denied", "prior_outcome_unknown")
    shop.says = VOID
    await passes(world, 10)
    again = await world.call(tool_call_id="n1")
    assert (again.decision, again.status, again.error["code"]) == ("replay", "failed", "not_executed")
    world.merchant.behave = lambda _: shop.seen["reply"](body="O-10")
    fresh = await world.call(tool_call_id="n2")
    assert (fresh.decision, fresh.status) == ("proceed", "succeeded")
    assert fresh.effect_id != again.effect_id


async def test_p5_4_the_event_says_who_said_so(world, shop):
    """5.4, 7.6"""
    shop.says = VOID
    await world.call(tool_call_id="n1")
    await passes(world, 2)
    event = (await stored(world))["events"][-1]
    assert {name: event[name] for name in ("type", "outcome", "by", "said_by_merchant", "code")} == {
        "type": "effect.resolved",
        "outcome": "failed",
        "by": "merchant",
        "said_by_merchant": True,
        "code": "not_executed",
    }


@pytest.mark.parametrize("says", [IN_PROGRESS, {"status": "unknown"}, {}, "timed_out", "reset", "no_connection"])
async def test_p5_4_an_answer_that_says_nothing_is_asked_for_again_ever_more_seldom(world, shop, says):
    """5.4: doubled each time, up to the longest pause; the call itself is never sent again."""
    shop.says = says if isinstance(says, dict) else shop.seen[says]
    began = world.clock.now
    await world.call(tool_call_id="n1")
    await passes(world, 240)
    waits = [at - before for before, at in zip([began, *shop.asked_at], shop.asked_at, strict=False)]
    planned = [1, 2, 4, 8, 16, 32, 60, 60]
    assert len(waits) == len(planned)
    late = [got - wanted for got, wanted in zip(waits, planned, strict=True)]
    assert min(late) >= 0
    assert max(late) <= asking_module.WALK_S + asking_module.TICK_S, "met at the next walk"
    assert (await stored(world))["status"] == "indeterminate"
    assert len(shop.calls) == 1
    shop.says = COMMITTED
    await passes(world, 63)
    assert (await stored(world))["status"] == "succeeded"


async def test_p5_4_a_merchant_that_asks_to_be_left_alone_is(world, shop):
    """5.4: Retry-After is kept, up to the longest pause."""
    shop.says = shop.seen["reply"](503)
    shop.says = type(shop.says)(
        shop.says.kind, shop.says.reason, True, 503, body=b"", content_type="text/plain", retry_after=("40",)
    )
    await world.call(tool_call_id="n1")
    await passes(world, 39)
    assert len(shop.questions) == 1
    await passes(world, 6)
    assert len(shop.questions) == 2


async def test_p5_4_pauses_are_spread_so_that_questions_do_not_fall_together(world, shop):
    """5.4: by a quarter either way, as the randomness that was handed in says."""
    draws = [0.0, 1.0, 0.5]
    world.asking._jitter = lambda: draws.pop(0) if draws else 0.5
    for number in range(3):
        await world.call(tool_call_id=f"n{number}", arguments={"n": number}, conversation=f"c{number}")
    began = world.clock.now
    await passes(world, 1.5)
    assert [round(at - began, 2) for at in shop.asked_at[:3]] == [0.75, 1.0, 1.25]


# --- who is not asked -----------------------------------------------------------------------------------------


async def test_p5_4_what_runs_again_is_not_asked_about(world, shop, retag, silent):
    """5.4, 4.6: under safe_to_retry the repeat has taken it up; its own answer is what counts."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY)
    await world.call(tool_call_id="n1")
    world.merchant.behave = silent
    sent = world.merchant.hits
    again = asyncio.ensure_future(world.call(tool_call_id="n1"))
    await world.merchant.reached(sent + 1)
    await passes(world, 8)
    assert shop.questions == []
    assert (await stored(world))["status"] == "executing"
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


CHANGES = {
    "no status endpoint": {"status_endpoint": None},
    "another shop by now": {"endpoint": "https://elsewhere.example/tools"},
}


@pytest.mark.parametrize("change", CHANGES)
async def test_p5_4_nobody_is_asked_who_could_not_know(world, shop, retag, change):
    """5.4, 4.6: a `void` from another shop would say nothing of what the first one did."""
    await world.call(tool_call_id="n1")
    before = retag(world, "create_order", **CHANGES[change])
    await passes(world, 8)
    assert shop.questions == []
    repeat = await world.call(tool_call_id="n1")
    assert (repeat.decision, repeat.status) == ("replay", "indeterminate")
    assert shop.questions == []
    retag(world, "create_order", status_endpoint=STATUS, endpoint=shop.calls[0].url)
    shop.says = COMMITTED
    await passes(world, 3)
    assert len(shop.questions) == 1, "an endpoint that is registered later is asked about what is still unknown"
    assert (await stored(world))["status"] == "succeeded"
    assert before.version == 1


async def test_p5_4_a_removed_tool_and_a_company_without_a_secret_are_left_until_they_are_back(world, shop):
    """5.4, 6: a question that nobody signed would be one that anybody can ask."""
    await world.call(tool_call_id="n1")
    tool = world.shelf.shelf.pop(("shop1", "create_order"))
    await passes(world, 4)
    world.shelf.shelf["shop1", "create_order"] = tool
    world.shelf.without_secret.add("shop1")
    await passes(world, 4)
    assert shop.questions == []
    world.shelf.without_secret.clear()
    await passes(world, 3)
    assert len(shop.questions) == 1


# --- several gateways, many calls -----------------------------------------------------------------------------


async def test_p5_4_another_gateway_finds_what_a_killed_one_left_unknown(world, shop, silent, kill, ledger_time):
    """5.4, 4.5: the index is everybody's; a lapsed lease is an unknown outcome like any other."""
    world.merchant.behave = silent
    await kill(world, tool_call_id="n1")
    ledger_time.advance(15)
    world.merchant.behave = shop.behave
    restarted = world.another_gateway()
    assert await restarted.sweep.once() == 1
    third = world.another_gateway()
    shop.says = COMMITTED
    await passes(third, 0)
    assert (await stored(third))["status"] == "succeeded"
    await passes(restarted, 3)
    assert len(shop.questions) == 1, "what is settled is not asked about"


async def test_p5_4_two_gateways_that_ask_at_once_settle_once(world, shop):
    """5.4, 4.15"""
    await world.call(tool_call_id="n1")
    shop.says = gate = asyncio.Event()
    others = [world.another_gateway(), world.another_gateway()]
    for each in others:
        await passes(each)
    assert len(shop.questions) == 2
    shop.says = COMMITTED
    gate.set()
    for each in others:
        await passes(each)
    assert [each.said for each in others] == [["committed"], ["committed"]]
    assert not [each for each in others if each.asking._asking]
    types = [event["type"] for event in (await stored(world))["events"]]
    assert types[-2:] == ["effect.indeterminate", "effect.resolved"]


async def test_p5_4_a_company_whose_endpoint_hangs_does_not_keep_others_waiting(world, shop):
    """5.4: of eight questions at once a company has two; everybody's turn comes."""
    shop.says = asyncio.Event()
    for number in range(20):
        await world.call(tool_call_id=f"n{number}", arguments={"n": number}, conversation=f"c{number}")
    await passes(world, 6)
    assert len(shop.questions) == 2
    world.shelf.put("shop2", "create_order", status_endpoint="https://shop2.example/status")
    shop.says = VOID
    await world.call(company="shop2", tool_call_id="n1")
    await passes(world, 2)
    assert [json.loads(question.body)["context"]["company"] for question in shop.questions[2:]] == ["shop2"]


async def test_p5_4_all_of_many_are_asked_about_in_the_end(world, shop):
    """5.4: more than may be asked at once, and more than one page of the index."""
    keys = set()
    for number in range(30):
        answer = await world.call(tool_call_id=f"n{number}", arguments={"n": number}, conversation=f"c{number}")
        keys.add(answer.effect_id)
    shop.says = VOID
    other = world.another_gateway()
    await passes(other, 60)
    assert set(shop.keys) == keys
    assert (await world.look_up.unknown(OPERATOR, "shop1", None, 100)) == ([], None)


async def test_p9_4_what_is_kept_of_pauses_is_bounded_and_what_is_forgotten_is_met_again(world, shop, monkeypatch):
    """9.4, 5.4"""
    monkeypatch.setattr(asking_module, "MOST_KEPT", 3)
    monkeypatch.setattr(asking_module, "MOST_FRESH", 3)
    world.asking._jitter = random.Random(7).random
    for number in range(9):
        await world.call(tool_call_id=f"n{number}", arguments={"n": number}, conversation=f"c{number}")
    await passes(world, 60)
    assert len(set(shop.keys)) == 9
    assert len(world.asking._plans) <= 3
    assert len(world.asking._fresh) <= 3
    assert not world.asking._asking
    assert not world.asking._of_company


# --- a customer who waits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("says", "status"), [(COMMITTED, "succeeded"), (VOID, "failed")])
async def test_p5_4_a_repeat_asks_once_before_it_is_answered(world, shop, says, status):
    """5.4: the customer hears at once what the merchant knows."""
    shop.says = says
    await world.call(tool_call_id="n1")
    again = await world.call(tool_call_id="n1")
    assert (again.decision, again.status) == ("replay", status)
    assert len(shop.questions) == 1
    assert len(shop.calls) == 1


async def test_p5_4_an_identical_call_asks_before_it_is_denied_and_runs_if_the_first_is_void(world, shop):
    """5.4, 4.7: sent under its own key, once the merchant is bound not to do the first."""
    first = await world.call(tool_call_id="n1")
    shop.says = VOID
    second = await world.call(tool_call_id="n2")
    assert second.decision == "proceed"
    keys = [dict(call.headers)["idempotency-key"] for call in shop.calls]
    assert keys == [first.effect_id, second.effect_id]
    assert first.effect_id != second.effect_id


async def test_p5_4_a_model_that_repeats_itself_does_not_make_the_gateway_do_so(world, shop):
    """5.4: within the first pause one question is enough."""
    await world.call(tool_call_id="n1")
    for _ in range(5):
        again = await world.call(tool_call_id="n1")
        assert (again.decision, again.status) == ("replay", "indeterminate")
    assert len(shop.questions) == 1
    world.clock.now += 1
    await world.call(tool_call_id="n1")
    assert len(shop.questions) == 2


async def test_p5_4_a_status_endpoint_that_hangs_holds_a_repeat_up_for_seconds_at_most(world, shop):
    """5.4"""
    await world.call(tool_call_id="n1")
    shop.says = asyncio.Event()
    began = world.clock.now
    again = await world.call(tool_call_id="n1")
    assert (again.decision, again.status) == ("replay", "indeterminate")
    assert world.clock.now - began <= asking_module.LONGEST_WAIT_S
    together = await asyncio.gather(*(world.call(tool_call_id="n1") for _ in range(3)))
    assert {answer.status for answer in together} == {"indeterminate"}
    assert len(shop.questions) == 1, "all wait for the one that is on its way"


# --- what goes wrong ------------------------------------------------------------------------------------------


async def test_p5_4_what_was_learnt_while_the_ledger_was_away_is_asked_for_again(world, shop, monkeypatch):
    """5.4, 4.11"""
    shop.says = COMMITTED
    await world.call(tool_call_id="n1")
    swap, away = world.ledger.swap, [True]

    async def flaky(*arguments: Any) -> Any:
        if away[0]:
            raise LedgerUnavailable(may_have_run=False)
        return await swap(*arguments)

    monkeypatch.setattr(world.ledger, "swap", flaky)
    await passes(world, 2)
    assert len(shop.questions) == 1
    assert (await stored(world))["status"] == "indeterminate"
    away[0] = False
    await passes(world, 4)
    assert len(shop.questions) == 2
    assert (await stored(world))["status"] == "succeeded"


async def test_p5_4_one_that_cannot_be_asked_about_does_not_keep_the_others_unknown(world, shop, monkeypatch, caplog):
    """5.4, 9.3: one line says so, with the kind of the fault and nothing of its text."""
    shop.says = VOID
    bad = await world.call(tool_call_id="n1")
    await world.call(tool_call_id="n2", arguments={"sku": "B"})
    end = world.decider.end

    async def spoilt(request: Any, effect: Any, seen: Any = None) -> Any:
        if effect.hex == bad.effect_id:
            raise ValueError("sku A")
        return await end(request, effect, seen)

    monkeypatch.setattr(world.decider, "end", spoilt)
    await passes(world, 2)
    assert (await stored(world, "n2"))["status"] == "failed"
    assert (await stored(world, "n1"))["status"] == "indeterminate"
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert bad.effect_id in line.getMessage()
    assert "sku" not in line.getMessage()


async def test_p5_4_an_endpoint_that_does_not_keep_the_contract_is_named_once_until_it_does(world, shop, caplog):
    """5.4, 9.3: a line for the operator, without a URL or a word of the answer."""
    shop.says = {"status": "no such order"}
    await world.call(tool_call_id="n1")
    await passes(world, 20)
    assert len(shop.questions) > 2
    (line,) = [record for record in caplog.records if record.name == "oncegate.asking"]
    assert (line.company, line.tool, line.reason) == ("shop1", "create_order", "unknown_status")
    assert set(world.said) == {"nothing"}


async def test_p5_4_the_passes_go_on_when_the_ledger_is_back_and_end_with_the_gateway(world, shop, monkeypatch):
    """5.4: an unreachable ledger and a fault that nobody expected are waited for; a stop gives up what is on its way."""
    await world.call(tool_call_id="n1")
    unknown, faults = world.ledger.unknown, [LedgerUnavailable(), RuntimeError("odd")]

    async def flaky(*arguments: Any) -> Any:
        if faults:
            raise faults.pop(0)
        return await unknown(*arguments)

    monkeypatch.setattr(world.ledger, "unknown", flaky)
    shop.says = asyncio.Event()
    asking = asyncio.ensure_future(world.asking.forever())
    for _ in range(10_000):
        if shop.questions and not faults:
            break
        await asyncio.sleep(0)
    assert len(shop.questions) == 1
    (question,) = world.asking._asking.values()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert question.cancelled()
    assert (await stored(world))["status"] == "indeterminate"
