"""A turn's effects: found again, named alike, kept in one form, given back, renewed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from decimal import Decimal

import pytest

from gateway.runtime import (
    Approval,
    AsyncOncegate,
    BadCall,
    EffectBlocked,
    EffectDenied,
    EffectLimited,
    EffectUnknown,
    NoAnswer,
    NotDone,
    Problem,
    Turn,
)

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.5}


@pytest.fixture
def turn(client):
    """A run of the turn: each call is another process that runs it."""
    return lambda **options: client.turn("acme", "c-1", options.pop("turn", "t-1"), **options)


class Work:
    """Gives `values` in order and counts; an exception among them is raised."""

    def __init__(self, *values):
        self.values = list(values)
        self.times = 0

    def __call__(self, *_):
        self.times += 1
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        if isinstance(value, BaseException):
            raise value
        return value


def tokens(played):
    return [sent["claim_token"] for sent in played.effects.submitted]


async def test_p7_2_a_value_is_made_once_and_found_again_with_one_request(turn, played):
    """7.2: the second run of the turn asks once and does nothing."""
    work = Work("ten o'clock", "eleven")
    assert [await run.step("now", work) for run in (turn(), turn(), turn())] == ["ten o'clock"] * 3
    assert work.times == 1
    assert played.effects.asked == {"submit": 3, "complete": 1}


async def test_the_same_name_twice_is_two_values_and_so_are_other_arguments(turn):
    """2.4: the second occurrence in a turn is another effect."""
    for _ in range(2):
        run = turn()
        work = Work(1, 2, 3, 4)
        assert await run.step("draw", work) == 1
        assert await run.step("draw", work) == 2
        assert await run.step("draw", work, {"of": "cards"}) == 3
        assert await run.step("roll", work) == 4
    assert work.times == 0


@pytest.mark.parametrize("other", [{"turn": "t-2"}, {"attempt": 2}], ids=str)
async def test_another_turn_or_attempt_makes_other_tokens(turn, played, other):
    """2.4, 7.2: occurrences start anew there; what an earlier attempt did is the gateway's to find."""
    await turn().step("now", Work(1))
    await turn(**other).step("now", Work(1))
    assert len(set(tokens(played))) == 2


async def test_the_tokens_are_the_same_in_every_version(turn, played):
    """A turn that was begun by one version is gone on with by the next: this digest must never change."""
    await turn().step("now", Work(1), {"zone": "Kochi", "n": 1.50, "list": [None, True, "é"]})
    args = r'{"list":[null,true,"\u00e9"],"n":15e-1,"zone":"Kochi"}'
    what = digest_of("local", "now", args)
    assert tokens(played) == [digest_of("oncegate.turn.1", "acme", "c-1", "t-1", "1", what, "0")]
    assert tokens(played) == ["a6c53416638b916f6a1b46030297371058c974f5af6124fc9601a635de6e378f"]


def digest_of(*parts):
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part.encode() for part in parts)).hexdigest()


@pytest.mark.parametrize(
    ("value", "kept", "floats"),
    [
        (None, None, None),
        ((1, [2]), [1, [2]], [1, [2]]),
        (1.10, Decimal("1.1"), 1.1),
        (Decimal("12.50"), Decimal("12.50"), 12.5),
        ({"n": 10**30, "t": True}, {"n": 10**30, "t": True}, {"n": 10**30, "t": True}),
    ],
)
async def test_p2_10_a_value_made_just_now_has_the_form_of_one_that_was_found(turn, value, kept, floats):
    """2.10: or a turn would go on with one type, and with another after a crash."""
    for _ in range(2):
        run = turn()
        for name, exact, expected in (("exact", True, kept), ("floats", False, floats)):
            found = await run.step(name, Work(value), exact=exact)
            assert (repr(found), type(found)) == (repr(expected), type(expected))


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), {1: 1}, object()], ids=["set", "nan", "key", "object"])
async def test_a_value_that_is_no_json_is_told_and_its_claim_given_back(turn, played, value):
    with pytest.raises(BadCall, match="local 'now' gave"):
        await turn().step("now", Work(value))
    assert played.effects.records == {}


async def test_arguments_that_are_no_json_never_leave(turn, played):
    with pytest.raises(BadCall):
        await turn().step("now", Work(1), {"a": {1}})
    assert played.bodies == []


async def test_what_raises_is_given_back_and_is_still_the_same_effect(turn, played):
    """7.2: tried again in the same run under another number, a later run would not find it and do it once more."""
    run, work = turn(), Work(ConnectionError("away"), "there")
    with pytest.raises(ConnectionError):
        await run.step("fetch", work)
    assert played.effects.records == {}
    assert await run.step("fetch", work) == "there"
    assert await turn().step("fetch", work) == "there"
    assert work.times == 2
    assert len(set(tokens(played))) == 1


async def test_a_run_that_is_cancelled_gives_its_claim_back(turn, played):
    """5.3, 7.2: its work was cut off, and is safe to do again."""
    begun = asyncio.Event()

    async def endless():
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(turn().step("fetch", endless))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert played.effects.records == {}


async def test_a_claim_that_cannot_be_given_back_hides_nothing(turn, played):
    """What the work raised is what the caller has to hear."""
    played.effects.refused["release"] = [("claim_lost", 409)]
    with pytest.raises(ConnectionError):
        await turn().step("fetch", Work(ConnectionError("away")))


async def test_not_done_is_recorded_and_said_again(turn, played):
    """7.2: a definite answer; asked once more it is another effect."""
    work = Work(NotDone("no_stock", "none left"), 7)
    for _ in range(2):
        run = turn()
        with pytest.raises(NotDone, match="none left") as raised:
            await run.step("reserve", work)
        assert (raised.value.code, raised.value.outcome) == ("no_stock", "not_sent")
        assert raised.value.effect_id == "0" * 64
        assert await run.step("reserve", work) == 7
    assert work.times == 2
    assert played.effects.asked["fail"] == 1


async def test_not_done_in_words_that_the_gateway_does_not_take_is_told_and_given_back(turn, played):
    """9.4: the work says that nothing was done, so it may be tried again."""
    played.effects.refused["fail"] = [("malformed", 400)]
    with pytest.raises(Problem, match="malformed"):
        await turn().step("reserve", Work(NotDone("no stock!", "")))
    assert played.effects.records == {}


async def test_p4_6_what_is_done_at_most_once_has_a_fresh_token_each_time_and_an_id(turn, played):
    """4.6, 2.1: a second process with the same token would be told "yours" while the first is at it still."""
    for _ in range(2):
        run = turn()
        assert await run.step("pay", Work("paid"), at_most_once=True) == "paid"
    first, second = played.effects.submitted
    assert first["claim_token"] != second["claim_token"]
    assert first["tool_call_id"] == second["tool_call_id"]
    assert first["tool_call_id"].startswith("turn_")
    assert (first["idempotency"], first["call_id_scope"]) == ("at_most_once", "conversation")


async def test_p4_6_what_is_done_at_most_once_is_not_given_back_when_it_raises(turn, played):
    """4.6: nobody knows what happened; its lease lapses, and the outcome is unknown."""
    with pytest.raises(ConnectionError):
        await turn().step("pay", Work(ConnectionError()), at_most_once=True)
    assert [record["status"] for record in played.effects.records.values()] == ["executing"]
    assert "release" not in played.effects.asked


SAID = {"effect_id": "ab" * 32, "status": None}
ERROR = {"code": "c", "message": "words"}


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        ({"decision": "denied", "error": ERROR, "reason": "no"}, EffectDenied, ("c", "not_sent", False)),
        ({"decision": "replay", "status": "denied", "error": ERROR}, EffectDenied, ("c", "not_sent", False)),
        ({"decision": "replay", "status": "failed", "error": ERROR}, NotDone, ("c", "not_sent", False)),
        ({"decision": "replay", "status": "indeterminate", "error": ERROR}, EffectUnknown, ("c", "unknown", False)),
        ({"decision": "replay", "status": "succeeded", "error": ERROR}, EffectUnknown, ("c", "unknown", False)),
        ({"decision": "rate_limited", "reason": "no"}, EffectLimited, ("rate_limited", "not_sent", True)),
        ({"decision": "blocked", "reason": "no"}, EffectBlocked, ("blocked", "not_sent", True)),
        ({"decision": "of a later version"}, EffectBlocked, ("of a later version", "not_sent", True)),
    ],
    ids=lambda part: str(part.get("decision")) + str(part.get("status", "")) if isinstance(part, dict) else None,
)
async def test_p7_2_every_decision_but_proceed_and_a_success_is_an_exception(turn, played, said, kind, told):
    """7.2, 7.3: and the work is not done."""
    work = Work(1)
    played.effects.said["now"] = SAID | said
    with pytest.raises(kind) as raised:
        await turn().step("now", work)
    assert (raised.value.code, raised.value.outcome, raised.value.retryable) == told
    assert raised.value.message in ("no", "words", "of a later version")
    assert work.times == 0


async def test_p7_4_a_blocked_effect_names_its_approval_and_runs_once_it_is_granted(turn, played):
    """7.4: submitted again with the same token."""
    approval = {"id": "ap-1", "message": "ask", "approvers": ["customer"], "expires_at": None}
    played.effects.said["pay"] = SAID | {"decision": "blocked", "approval": approval, "reason": "wait"}
    run = turn()
    with pytest.raises(EffectBlocked) as raised:
        await run.step("pay", Work(1))
    assert raised.value.approval == Approval("ap-1", None, "ask", ("customer",))
    del played.effects.said["pay"]
    assert await run.step("pay", Work(1)) == 1
    assert len(set(tokens(played))) == 1


async def test_a_limit_says_when(turn, played):
    """7.5"""
    played.effects.said["pay"] = SAID | {"decision": "rate_limited", "reason": "no", "retry_after_s": 2.5}
    with pytest.raises(EffectLimited) as raised:
        await turn().step("pay", Work(1))
    assert raised.value.retry_after == 2.5


async def test_p4_3_lost_replies_are_asked_for_again(turn, played):
    """4.3: the same token, the same outcome."""
    played.faults.extend(["drop_after", None, "drop_after"])
    work = Work(1)
    assert await turn().step("now", work) == 1
    assert (work.times, played.effects.asked) == (1, {"submit": 2, "complete": 2})


async def test_an_outcome_that_may_have_left_is_not_given_back(turn, played):
    """4.4: a release could pass it on the way. The next run finds it, or does it under the same token."""
    played.faults.append(None)
    played.faults.extend(["drop_after"] * 4)
    with pytest.raises(NoAnswer):
        await turn().step("now", Work(1))
    assert "release" not in played.effects.asked
    played.faults.clear()
    assert await turn().step("now", Work(2)) == 1


@pytest.mark.parametrize("status", [400, 413])
async def test_a_value_that_the_gateway_does_not_take_is_told_and_given_back(turn, played, status):
    """9.4: too large, too deep."""
    played.effects.refused["complete"] = [("payload_too_large", status)]
    with pytest.raises(Problem):
        await turn().step("now", Work(1))
    assert played.effects.records == {}


async def test_p4_4_where_another_run_was_faster_its_outcome_is_gone_on_with(turn, played):
    """4.4: one value a turn, whoever made it."""

    async def slow():
        played.effects.settle_all("theirs")
        return "ours"

    run = turn()
    found = await run.recorded("now", slow)
    assert (found.value, found.replay.matched) == ("theirs", "claim_token")
    assert await turn().step("now", Work("x")) == "theirs"


async def test_a_claim_that_another_run_gave_back_is_taken_anew_for_what_was_done(turn, played):
    """2.4: same token, same effect; the work is not done again."""

    async def slow():
        played.effects.records.clear()
        return "ours"

    assert await turn().step("now", slow) == "ours"
    assert await turn().step("now", Work("x")) == "ours"


async def test_a_report_that_is_refused_twice_is_raised(turn, played):
    played.effects.refused["complete"] = [("claim_lost", 409)] * 2
    with pytest.raises(Problem, match="claim_lost"):
        await turn().step("now", Work(1))


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what is waited for happens at the played gateway
            await asyncio.sleep(0)


@pytest.fixture
async def ticking(played, key):
    """A turn whose lease is renewed when the test lets a third of it pass."""
    ticks: asyncio.Queue[None] = asyncio.Queue()
    waits: list[float] = []

    async def sleep(seconds):
        waits.append(seconds)
        await ticks.get()

    async with AsyncOncegate(played.url, key) as client:
        yield client.turn("acme", "c-1", "t-1", sleep=sleep), ticks, waits


async def test_p7_2_a_lease_is_renewed_for_as_long_as_the_work_lasts(ticking, played):
    """7.2: three times a lease, with the effect's own token, and not afterwards."""
    turn, ticks, waits = ticking

    async def long():
        for times in range(1, 4):
            ticks.put_nowait(None)
            await until(lambda times=times: played.effects.asked["renew"] == times)
        return "done"

    assert await turn.step("report", long) == "done"
    assert set(waits) == {20.0}
    assert {sent["claim_token"] for what, sent in played.effects.reported if what == "renew"} == set(tokens(played))
    ticks.put_nowait(None)
    for _ in range(50):
        await asyncio.sleep(0)
    assert played.effects.asked["renew"] == 3
    assert [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "_renew"] == []


async def test_p4_4_a_lost_lease_ends_the_renewing_and_not_the_work(ticking, played):
    """4.4: its success still counts where nothing else is recorded."""
    turn, ticks, _ = ticking
    played.effects.refused["renew"] = [("internal", 500), ("claim_lost", 409)]

    async def long():
        for _ in range(4):
            ticks.put_nowait(None)
        await until(lambda: ticks.qsize() <= 2)
        for _ in range(50):
            await asyncio.sleep(0)
        return "done"

    assert await turn.step("report", long) == "done"
    assert (played.effects.asked["renew"], ticks.qsize()) == (2, 2), "the 500 is tried again, the lost claim is not"


@pytest.mark.parametrize(
    ("field", "same"),
    [
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
        ({"user": "u-1", "metadata": {"trace": "x"}, "safety_identifier": "s"}, True),
        ({"request_id": "r", "idempotency_key": "k", "extra_headers": {"a": "b"}, "headers": {}}, True),
        ({"timeout": 30, "max_retries": 2, "service_tier": "flex", "store": True}, True),
        ({"prompt_cache_key": "p", "prompt_cache_retention": "24h"}, True),
        ({"temperature": Decimal("0.50")}, True),
        ({"seed": 7}, False),
        ({"temperature": 0.6}, False),
        ({"tools": []}, False),
        ({"max_tokens": 5}, False),
        ({"messages": [{"role": "user", "content": "hi", "stream": True}]}, False),
    ],
    ids=str,
)
async def test_p7_2_what_is_noise_in_a_question_makes_no_other_question(turn, played, field, same):
    """7.2: the top level's noise is left out of what is recorded; everything else counts."""
    ask = Work({"content": "one"}, {"content": "two"})
    assert await turn().model("m", REQUEST, ask) == {"content": "one"}
    assert (await turn().model("m", REQUEST | field, ask) == {"content": "one"}) is same
    assert set(played.effects.submitted[0]["args"]) == {"model", "messages", "temperature"}
    assert played.effects.submitted[0]["kind"] == "llm_call"


async def test_the_model_is_asked_the_whole_request_and_its_reply_has_floats(turn):
    seen = []

    async def ask(request):
        seen.append(request)
        return {"logprob": -0.25, "n": Decimal("1.5")}

    request = REQUEST | {"stream": False}
    for _ in range(2):
        assert json.dumps(await turn().model("m", request, ask)) == '{"logprob": -0.25, "n": 1.5}'
    assert seen == [request]


async def test_p9_4_a_long_text_is_named_by_its_digest(turn, played):
    """9.4: a picture in a question must not make the request too large; another picture is another question."""
    ask = Work("a cat", "a dog", "none")
    for picture, said in (("x" * 500_000, "a cat"), ("y" * 500_000, "a dog"), ("x" * 500_000, "a cat")):
        content = [{"type": "image", "data": picture}]
        assert await turn().model("m", {"messages": [{"role": "user", "content": content}]}, ask) == said
    assert max(map(len, played.bodies)) < 2_000


async def test_a_call_states_where_it_stands(turn, played):
    """2.1, 2.4"""
    answer = await turn(attempt=2).call("place_order", {"sku": "A"}, tool_call_id="a", step=3)
    assert answer.succeeded
    assert [(one["turn"], one["step"], one["attempt"]) for one in played.ran] == [("t-1", 3, 2)]


@pytest.mark.parametrize(("given", "scope"), [("call_9f", None), (None, "conversation")])
async def test_p4_6_a_tool_of_the_runtimes_own_is_found_by_an_id_and_its_mode_left_to_the_gateway(
    turn, played, given, scope
):
    """4.6, 7.2"""
    for _ in range(2):
        assert await turn().tool("send_mail", {"to": "a"}, Work("sent"), tool_call_id=given, step=2) == "sent"
    one, other = played.effects.submitted
    assert one["claim_token"] != other["claim_token"]
    assert one["tool_call_id"] == other["tool_call_id"]
    assert given in (None, one["tool_call_id"])
    assert (one["kind"], one.get("idempotency"), one.get("call_id_scope"), one["step"]) == ("tool_call", None, scope, 2)


@pytest.mark.parametrize("place", [("", "c", "t", 1), ("a", " ", "t", 1), ("a", "c", "", 1), ("a", "c", "t", 0)])
def test_a_turn_without_a_place_is_refused(client_of_no_use, place):
    with pytest.raises(ValueError, match="a turn needs"):
        Turn(client_of_no_use, *place)


@pytest.fixture
def client_of_no_use():
    return AsyncOncegate("http://127.0.0.1:1", "k")
