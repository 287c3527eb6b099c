"""What goes wrong between a claim and its end leaves no claim behind (4.2, 4.11, 9.4)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.core.errors import CallInFlight, InternalFault, LedgerUnavailable, MerchantNotReady, MerchantUnreachable
from gateway.core.model import Principal, Role
from gateway.core.outcome import Reason, Seen, SeenKind
from gateway.core.record import Mode
from gateway.core.requests import OnRepeat, Resolve
from gateway.service.call_request import CallRequest
from gateway.service.sending import Trace
from gateway.web.calls import Calls
from gateway.web.metrics import Metrics
from gateway.web.operations import Asked
from gateway.web.services import Limits
from gateway.web.stopping import Stopping

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
EPSILON_S = 1e-6


async def stored(world: Any, tool_call_id: str) -> dict[str, Any]:
    (call,) = await world.look_up.calls(OPERATOR, "shop1", "c1", tool_call_id)
    return dict(call)


async def test_p4_6_a_repeat_without_a_signing_secret_gives_its_claim_back(world, seen, retag):
    """4.6, 6, 8: the last secret was retired while the outcome was unknown. 502, nothing sent, unknown as before;
    with a secret again the next repeat runs under the same key, without waiting for a lease."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY)
    world.merchant.behave = lambda _: seen["reset"]
    first = await world.call(tool_call_id="n1")
    tried = world.merchant.hits
    world.shelf.without_secret.add("shop1")
    for _ in range(2):
        with pytest.raises(MerchantNotReady) as refused:
            await world.call(tool_call_id="n1")
        assert (refused.value.status, refused.value.code, refused.value.outcome) == (
            502,
            "merchant_not_ready",
            "not_sent",
        )
        assert (await stored(world, "n1"))["status"] == "indeterminate"
    assert world.merchant.hits == tried
    world.shelf.without_secret.clear()
    world.merchant.behave = lambda _: seen["reply"](body="done")
    again = await world.call(tool_call_id="n1")
    assert (again.status, again.effect_id, world.merchant.hits) == ("succeeded", first.effect_id, tried + 1)
    assert world.merchant.header(tried, "idempotency-key") == first.effect_id


async def test_p8_a_new_call_without_a_signing_secret_records_nothing(world):
    """8: refused before the claim."""
    world.shelf.without_secret.add("shop1")
    with pytest.raises(MerchantNotReady):
        await world.call(tool_call_id="n1")
    assert await world.look_up.calls(OPERATOR, "shop1", "c1", "n1") == []
    world.shelf.without_secret.clear()
    assert (await world.call(tool_call_id="n1")).decision == "proceed"


def through_the_web(world: Any) -> Calls:
    return Calls(
        SimpleNamespace(  # type: ignore[arg-type]
            handle_call=world.handle, metrics=Metrics(), clock=world.clock, stopping=Stopping(), limits=Limits()
        )
    )


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("fault", [RuntimeError("whsec_top"), KeyError("whsec_top"), OSError("whsec_top")], ids=repr)
async def test_p9_4_a_fault_of_ours_behind_a_claim_ends_it_as_unknown(world, seen, retag, caplog, fault, mode):
    """9.4, 8, 4.6: nobody can say what was sent, so it is neither failed nor free; the caller gets the internal fault,
    and a repeat need not wait for the lease."""
    retag(world, "create_order", idempotency=mode)

    def broken(_: Any) -> Any:
        raise fault

    world.merchant.behave = broken
    principal = Principal("rt", Role.RUNTIME, frozenset({"shop1"}), "k1")
    request = CallRequest("shop1", "c1", "create_order", {"sku": "A"}, "n1")
    with pytest.raises(InternalFault) as internal:
        await through_the_web(world).one(Asked({}, None, request, Trace("req-1"), principal))
    assert (internal.value.status, internal.value.code, internal.value.outcome) == (500, "internal", "unknown")
    assert "whsec" not in f"{internal.value!r}{internal.value.message}{caplog.text}"
    left = await stored(world, "n1")
    assert left["status"] == "indeterminate"
    assert [e.get("reason") for e in left["events"] if e["type"] == "effect.indeterminate"] == ["gateway fault"]
    world.merchant.behave = lambda _: seen["reply"](body="done")
    before = world.clock.now
    again = await world.call(tool_call_id="n1")
    assert world.clock.now == before, "nobody waited"
    if mode is Mode.AT_MOST_ONCE:
        assert (again.decision, again.status, world.merchant.hits) == ("replay", "indeterminate", 1)
    else:
        assert (again.status, world.merchant.hits) == ("succeeded", 2)
        assert {world.merchant.header(i, "idempotency-key") for i in range(2)} == {again.effect_id}


async def test_p4_8_who_waits_for_a_call_that_ends_in_a_fault_of_ours_is_told_that_it_is_unknown(world):
    """4.8, 9.4: the duplicate is woken, and does not send."""
    gate = asyncio.Event()

    async def broken(_: Any) -> Any:
        await gate.wait()
        raise RuntimeError

    world.merchant.behave = broken
    first = asyncio.ensure_future(world.call(tool_call_id="n1"))
    await world.merchant.reached()
    second = asyncio.ensure_future(world.call(tool_call_id="n1"))
    for _ in range(20):
        await asyncio.sleep(0)
    gate.set()
    ended = await asyncio.gather(first, second, return_exceptions=True)
    assert isinstance(ended[0], RuntimeError)
    assert (ended[1].decision, ended[1].status) == ("replay", "indeterminate")
    assert world.merchant.hits == 1


@pytest.mark.parametrize("timeout_s", [0.5, 3.0, 10.0])
@pytest.mark.parametrize(("tool", "what"), [("create_order", "reset"), ("create_order", "no_connection"), ("get_menu", "reset")])  # fmt: skip
async def test_p5_2_no_try_is_given_more_than_is_left_of_the_deadline(world, seen, retag, tool, what, timeout_s):
    """5.2, 4.5: the deadline is of the whole exchange, tries and the pauses between them included."""
    retag(world, tool, idempotency=Mode.SAFE_TO_RETRY, timeout_s=timeout_s)
    began, at = world.clock.now, []

    def slow(_: Any) -> Any:
        at.append(world.clock.now)
        world.clock.now += timeout_s / 8
        return seen[what]

    world.merchant.behave = slow
    await asyncio.gather(world.call(tool_call_id="n1", tool=tool), return_exceptions=True)
    given = world.merchant.deadlines
    assert len(given) > 1
    for when, deadline_s in zip(at, given, strict=True):
        assert 0 < deadline_s <= timeout_s + EPSILON_S
        assert when + deadline_s <= began + timeout_s + EPSILON_S
    assert given == sorted(given, reverse=True)


@pytest.mark.parametrize("timeout_s", [0.5, 10.0])
async def test_p5_2_one_try_is_given_the_tools_deadline(world, retag, timeout_s):
    """5.2: what the claim itself took is not added to it."""
    retag(world, "create_order", timeout_s=timeout_s)
    await world.call(tool_call_id="n1")
    assert world.merchant.deadlines == [pytest.approx(timeout_s, abs=0.001)]
    assert world.merchant.deadlines[0] <= timeout_s + EPSILON_S


@pytest.mark.parametrize("timeout_s", [0.5, 10.0])
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_k1_12_a_duplicate_waits_for_its_deadline_and_the_margin_and_no_longer(
    world, silent, retag, elsewhere, timeout_s
):
    """K1-12, 4.8: at the same gateway as at another; then 409, and still one send."""
    retag(world, "create_order", timeout_s=timeout_s)
    world.merchant.behave = silent
    first = asyncio.ensure_future(world.call(tool_call_id="x1"))
    await world.merchant.reached()
    began = world.clock.now
    gateway = world.another_gateway() if elsewhere else world
    with pytest.raises(CallInFlight) as in_flight:
        await gateway.call(tool_call_id="x1")
    assert world.clock.now - began == pytest.approx(timeout_s + 1.0)
    assert (in_flight.value.outcome, in_flight.value.retry_after_s) == ("in_flight", 1.0)
    assert world.merchant.hits == 1
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


RETRY_AFTER = [(), ("30",), ("Wed, 21 Oct 2125 07:28:00 GMT",), ("-5",), ("120junk",), ("99999999999",), ("",), ("7", "3")]  # fmt: skip


@pytest.mark.parametrize("values", RETRY_AFTER)
async def test_k3_05_a_retry_after_never_makes_the_gateway_sleep_under_at_most_once(world, values):
    """K3-05, 5: it is a bounded hint for whoever asks again; the gateway's clock does not move."""
    world.merchant.behave = lambda _: Seen(
        SeenKind.REPLY, Reason.REPLIED, True, 429, "application/json", body=b"null", retry_after=values
    )
    before = world.clock.now
    with pytest.raises(MerchantNotReady) as refused:
        await world.call(tool_call_id="n1")
    assert world.clock.now == before
    assert world.merchant.hits == 1
    assert refused.value.retry_after_s is None or 0 <= refused.value.retry_after_s <= 3_600


@pytest.mark.parametrize("values", RETRY_AFTER)
async def test_k3_05_a_retry_after_never_holds_a_call_beyond_its_deadline_under_safe_to_retry(world, retag, values):
    """K3-05, 5.2: what fits in the deadline is waited for, nothing else."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY, timeout_s=10.0)
    world.merchant.behave = lambda _: Seen(
        SeenKind.REPLY, Reason.REPLIED, True, 429, "application/json", body=b"null", retry_after=values
    )
    before = world.clock.now
    with pytest.raises(MerchantNotReady):
        await world.call(tool_call_id="n1")
    assert world.clock.now - before <= 10.0


async def test_p4_6_a_worker_that_comes_late_while_another_sends_is_in_flight_never_done(
    world, seen, retag, ledger_time
):
    """4.5, 4.6, 8: its lease lapsed and another took the call up: what stands is no outcome to show yet."""
    retag(world, "create_order", idempotency=Mode.SAFE_TO_RETRY, timeout_s=1.0)
    other, forever = world.another_gateway(), asyncio.Event()
    second: list[asyncio.Future[Any]] = []

    async def first_is_slow(_: object) -> object:
        if len(world.merchant.requests) > 1:
            await forever.wait()
        ledger_time.advance(60)
        await other.sweep.once()
        second.append(asyncio.ensure_future(other.call(tool_call_id="n1")))
        await world.merchant.reached(2)
        return seen["reply"](422, {"error": "late no"})

    world.merchant.behave = first_is_slow
    with pytest.raises(CallInFlight):
        await world.call(tool_call_id="n1")
    second[0].cancel()
    await asyncio.gather(*second, return_exceptions=True)


class LostAtSettle:
    """A ledger that is away once the claim has landed."""

    def __init__(self, ledger: Any) -> None:
        self._ledger, self.swaps = ledger, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def swap(self, *args: Any) -> Any:
        self.swaps += 1
        if self.swaps in (2, 3):
            raise LedgerUnavailable
        return await self._ledger.swap(*args)


async def test_p4_12_a_dropped_result_is_said_to_be_dropped_also_where_it_could_not_be_recorded(world, seen):
    """4.11, 4.12: the same words whether or not the ledger was there."""
    world.decider._ledger = LostAtSettle(world.ledger)
    world.merchant.behave = lambda _: seen["reply"](body="x" * 1_048_577)
    unrecorded = await world.call(tool_call_id="n1")
    await world.settle_background()
    again = await world.call(tool_call_id="n1")
    assert (unrecorded.recorded, unrecorded.error["code"]) == (False, "result_dropped")
    assert again.error == unrecorded.error


async def test_p4_11_an_outcome_survives_a_ledger_that_answers_nonsense_when_it_is_recorded(world, seen):
    """4.11: whatever goes wrong between the merchant's answer and its record, the answer is not lost."""

    class Nonsense(LostAtSettle):
        async def swap(self, *args: Any) -> Any:
            self.swaps += 1
            if self.swaps in (2, 3):
                raise RuntimeError("a fault nobody thought of")
            return await self._ledger.swap(*args)

    world.decider._ledger = Nonsense(world.ledger)
    world.merchant.behave = lambda _: seen["reply"](body="done")
    first = await world.call(tool_call_id="n1")
    await world.settle_background()
    again = await world.call(tool_call_id="n1")
    assert (first.status, first.recorded, again.decision, again.status) == ("succeeded", False, "replay", "succeeded")
    assert world.merchant.hits == 1


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    ("answered", "status"), [(("reply", 400), "failed"), (("reset",), "indeterminate")], ids=["refused", "reset"]
)
async def test_p4_11_what_a_late_worker_saw_is_answered_where_an_operator_has_said_that_it_never_happened(
    world, seen, retag, ledger_time, mode, answered, status
):
    """4.4, 4.11: its lease lapsed and the unknown outcome was resolved as absent while the merchant was at it. The mark
    that this leaves is no outcome: shown as one, a refusal read "Done."."""
    retag(world, "create_order", idempotency=mode)
    how, *numbers = answered
    go_on = asyncio.Event()

    async def slow(_: Any) -> Seen:
        await go_on.wait()
        return seen[how](*numbers, body={"error": "no"}) if numbers else seen[how]

    world.merchant.behave = slow
    late = asyncio.ensure_future(world.call(tool_call_id="n1"))
    await world.merchant.reached()
    ledger_time.advance(20)
    assert await world.sweep.once() == 1
    (unknown,) = (await world.ledger.unknown("shop1", None, 10)).effects
    await world.decider.end(Resolve(unknown.effect_id, None, "op", "not in our books", 86_400_000), unknown)
    world.merchant.behave = lambda _: seen[how](*numbers, body={"error": "no"}) if numbers else seen[how]
    go_on.set()
    answer = await late
    assert (answer.status, answer.recorded, answer.result) == (status, False, None)
    assert answer.error is not None
    assert "Done" not in answer.message


class ReleaseHeardLate:
    """A ledger whose reply to the first release is lost; `meanwhile` happens before it is asked again."""

    def __init__(self, ledger: Any, meanwhile: Any) -> None:
        self._ledger, self._meanwhile = ledger, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def swap(self, where: Any, view: Any, writes: Any) -> Any:
        swap = await self._ledger.swap(where, view, writes)
        if self._meanwhile is not None and any(event.type == "effect.released" for event in writes.events):
            meanwhile, self._meanwhile = self._meanwhile, None
            await meanwhile()
            raise LedgerUnavailable(may_have_run=True)
        return swap


@pytest.mark.parametrize("same_call", [False, True], ids=["another call", "the same call"])
async def test_p4_3_a_release_that_is_sent_again_shows_no_other_calls_outcome(world, seen, retag, same_call):
    """2.4, 4.2, 4.3: two are wanted, the first is never sent, and its number is the second's by the time that its
    release is repeated. Told "succeeded" as well, the customer would have two orders on paper and one in the shop."""
    retag(world, "add_to_cart", on_repeat=OnRepeat.RUN)
    other = world.another_gateway()
    behaves = iter([seen["no_connection"], seen["reply"](body={"order": "O-1"})])
    world.merchant.behave = lambda _: next(behaves)
    place = {"tool": "add_to_cart", "turn": "t1", "step": 1, "attempt": 1}
    second: list[Any] = []

    async def meanwhile() -> None:
        second.append(await other.call(tool_call_id="n1" if same_call else "n2", **place))

    world.decider._ledger = ReleaseHeardLate(world.ledger, meanwhile)
    if same_call:
        answer = await world.call(tool_call_id="n1", **place)
        assert (answer.status, answer.effect_id, answer.result) == ("succeeded", second[0].effect_id, second[0].result)
        return
    with pytest.raises(MerchantUnreachable):
        await world.call(tool_call_id="n1", **place)
    assert (second[0].status, world.merchant.hits) == ("succeeded", 2)
    world.merchant.behave = lambda _: seen["reply"](body={"order": "O-2"})
    again = await world.call(tool_call_id="n1", **place)
    assert (again.status, world.merchant.hits) == ("succeeded", 3)
    assert again.effect_id != second[0].effect_id
