"""Lapsed leases: who may end them, by which clock, and what may not stop it (4.5, K8-11)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from gateway.adapters import ledger_codec as codec
from gateway.adapters.ledger_keys import Bucket
from gateway.core.answer import iso
from gateway.core.errors import CallInFlight, LedgerUnavailable
from gateway.core.identity import conversation_digest
from gateway.core.model import Principal, Role
from gateway.core.ports import Page
from gateway.core.record import FORMAT, Effect
from gateway.service.deciding import Decider
from gateway.service.declarations import Resolution
from gateway.service.replay_notes import ReplayNotes
from gateway.service.sweep import Sweep
from gateway.service.waiting import Waiting

OPERATOR = Principal("op", Role.OPERATOR, frozenset({"*"}), "k0")
LEASE_S = 15
"""Of a tool with the default deadline: 10 s, and a margin of 5."""


async def statuses(world: Any, *tool_call_ids: str) -> list[str]:
    found = [await world.look_up.calls(OPERATOR, "shop1", "c1", each) for each in tool_call_ids]
    return [call["status"] for (call,) in found]


def swept_over(world: Any, ledger: Any) -> Sweep:
    return Sweep(ledger, Decider(ledger), Waiting(world.clock), ReplayNotes(ledger, world.clock, None), world.clock)


async def leave_behind(world: Any, silent: Any, kill: Any, *tool_call_ids: str) -> None:
    """Calls with arguments of their own whose workers died."""
    world.merchant.behave = silent
    for each in tool_call_ids:
        await kill(world, tool_call_id=each, arguments={"sku": each})


async def write_newer(world: Any, effect: Effect) -> None:
    """Let the record be one that a newer gateway wrote."""
    key = Bucket.of(conversation_digest(effect.company, effect.conversation)).record(effect.effect_id)
    stands: bytes = await world.commands.do("GET", key)
    newer = codec.effect_payload(msgspec.structs.replace(effect, format=FORMAT + 1))
    await world.commands.do("SET", key, stands[: -len(codec.opened(stands).payload)] + newer)


async def test_p4_13_due_passes_over_a_record_of_a_newer_format(world, silent, kill, ledger_time, caplog):
    """4.5, 4.13: a newer gateway's record is that gateway's to sweep; one line says that it was left."""
    await leave_behind(world, silent, kill, "n1", "n2", "n3")
    ledger_time.advance(LEASE_S)
    due = {effect.tool_call_id: effect for effect in (await world.ledger.due(10)).effects}
    assert set(due) == {"n1", "n2", "n3"}
    await write_newer(world, due["n2"])
    caplog.clear()
    assert {effect.tool_call_id for effect in (await world.ledger.due(10)).effects} == {"n1", "n3"}
    (line,) = caplog.records
    assert f"record format {FORMAT + 1}" in line.getMessage()
    assert await world.sweep.once() == 2
    assert await statuses(world, "n1", "n3") == ["indeterminate", "indeterminate"]
    assert [effect.tool_call_id for effect in (await world.ledger.due(10)).effects] == []
    with pytest.raises(LedgerUnavailable):
        await world.call(tool_call_id="n2", arguments={"sku": "n2"})
    assert world.merchant.hits == 3


async def test_p4_13_a_record_beside_one_of_a_newer_format_does_not_stop_the_sweep_of_others(
    world, silent, kill, ledger_time
):
    """4.5, 4.13: the same id in two turns; the newer record is read with the slot that both share."""
    world.merchant.behave = silent
    for turn in ("t1", "t2"):
        await kill(world, tool_call_id="n1", turn=turn, arguments={"sku": turn})
    await leave_behind(world, silent, kill, "n2")
    ledger_time.advance(LEASE_S)
    newer, beside, apart = sorted((await world.ledger.due(10)).effects, key=lambda e: (e.tool_call_id, e.turn or ""))
    assert (newer.turn, beside.turn, apart.tool_call_id) == ("t1", "t2", "n2")
    await write_newer(world, newer)
    await swept_over(world, Told(world.ledger, [beside, apart])).once()
    assert await statuses(world, "n2") == ["indeterminate"]


class Told:
    """The real ledger, but for what falls due, and for what cannot be judged."""

    def __init__(self, ledger: Any, due: list[Effect], spoilt: dict[bytes, Exception] | None = None) -> None:
        self._ledger, self._due, self._spoilt = ledger, due, spoilt or {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def due(self, limit: int, cursor: str | None = None) -> Page:
        return Page(tuple(self._due), None)

    async def read(self, where: Any) -> Any:
        for effect in where.effects:
            if effect in self._spoilt:
                raise self._spoilt[effect]
        return await self._ledger.read(where)


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_p4_5_a_record_whose_judging_raises_does_not_keep_others_executing(
    world, silent, kill, ledger_time, caplog, place
):
    """4.5: wherever it stands among those that are due; it is left, and one line without its content says so."""
    ids = ["n1", "n2", "n3"]
    await leave_behind(world, silent, kill, *ids)
    ledger_time.advance(LEASE_S)
    due = sorted((await world.ledger.due(10)).effects, key=lambda effect: effect.tool_call_id or "")
    bad = due[place]
    ledger = Told(world.ledger, due, {bad.effect_id: ValueError("sku n1 n2 n3")})
    caplog.clear()
    assert await swept_over(world, ledger).once() == 2
    left = ids.pop(place)
    assert await statuses(world, *ids, left) == ["indeterminate", "indeterminate", "executing"]
    (line,) = [record for record in caplog.records if record.name == "oncegate.sweep"]
    assert bad.hex in line.getMessage()
    assert "sku" not in line.getMessage()
    assert await world.sweep.once() == 1
    assert await statuses(world, left) == ["indeterminate"]


async def test_p4_5_the_sweep_goes_on_when_the_ledger_is_back(world, silent, kill, ledger_time):
    """4.5, 4.11: an unreachable ledger, and one that raises what nobody expected, are waited for."""
    await leave_behind(world, silent, kill, "n1")
    ledger_time.advance(LEASE_S)
    faults = [LedgerUnavailable(), RuntimeError("odd")]

    class Flaky(Told):
        async def due(self, limit: int, cursor: str | None = None) -> Page:
            if faults:
                raise faults.pop(0)
            found: Page = await world.ledger.due(limit, cursor)
            return found

    began = world.clock.now
    sweeping = asyncio.ensure_future(swept_over(world, Flaky(world.ledger, [])).forever())
    while (await statuses(world, "n1")) == ["executing"]:
        assert not sweeping.done()
        await asyncio.sleep(0)
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    assert await statuses(world, "n1") == ["indeterminate"]
    assert world.clock.now > began, "it paused between passes"


async def test_k1_14_what_a_killed_gateway_left_behind_is_unknown_and_never_sent_again(
    world, silent, seen, kill, ledger_time
):
    """K1-14, 4.5, 4.6: until the lease lapses the call is another's; from then on it is unknown, at every gateway,
    at the sweep as at a repeat, and the merchant is not asked again."""
    await leave_behind(world, silent, kill, "n1", "n2")
    world.merchant.behave = lambda _: seen["reply"](body="made twice")
    restarted = world.another_gateway()
    ledger_time.advance(LEASE_S - 0.001)
    assert await restarted.sweep.once() == 0
    assert await statuses(world, "n1", "n2") == ["executing", "executing"]
    ledger_time.advance(0.001)
    repeat = await restarted.call(tool_call_id="n1", arguments={"sku": "n1"})
    assert await restarted.sweep.once() == 1, "the repeat has ended its own"
    assert (repeat.decision, repeat.status) == ("replay", "indeterminate")
    assert repeat.effect_id == world.merchant.header(0, "idempotency-key"), "the key to reconcile by"
    assert await statuses(world, "n1", "n2") == ["indeterminate", "indeterminate"]
    for each in ("n1", "n2"):
        again = await restarted.call(tool_call_id=each, arguments={"sku": each})
        assert (again.decision, again.status) == ("replay", "indeterminate")
    assert world.merchant.hits == 2
    page, _ = await world.look_up.unknown(OPERATOR, "shop1", None, 10)
    assert {call["tool_call_id"] for call in page} == {"n1", "n2"}


@pytest.mark.parametrize("swept", [True, False], ids=["with a sweeper", "by its repeats alone"])
async def test_k4_01_asked_every_second_for_two_minutes_it_is_in_flight_for_the_lease_and_then_unknown(
    world, silent, seen, kill, ledger_time, swept
):
    """K4-01, 4.5: the default lease is the tool's deadline and a few seconds, whatever the retention time; after it,
    unknown with its key at every repeat. A way to settle it stands open, and the merchant is not asked again."""
    world.merchant.behave = silent
    await kill(world, tool_call_id="n1")
    world.merchant.behave = lambda _: seen["reply"](body="made twice")
    restarted = world.another_gateway()
    told: list[Any] = []
    for _ in range(120):
        if swept:
            await restarted.sweep.once()
        try:
            answer = await restarted.call(tool_call_id="n1")
            told.append((answer.decision, answer.status, answer.effect_id))
        except CallInFlight as in_flight:
            told.append(("in flight", bool(in_flight.retry_after_s)))
        ledger_time.advance(1)
    effect_id = world.merchant.header(0, "idempotency-key")
    unknown = ("replay", "indeterminate", effect_id)
    assert told == [("in flight", True)] * LEASE_S + [unknown] * (120 - LEASE_S)
    assert world.merchant.hits == 1
    page, _ = await world.look_up.unknown(OPERATOR, "shop1", None, 10)
    assert [call["tool_call_id"] for call in page] == ["n1"]
    await world.resolve(OPERATOR, effect_id, Resolution("shop1", "c1", "succeeded", "seen", b'"O-1"'))
    assert bytes((await restarted.call(tool_call_id="n1")).result) == b'"O-1"'
    assert world.merchant.hits == 1


class SkewedClock:
    """A gateway's own clocks, its wall clock wrong by so many ms."""

    def __init__(self, clock: Any, skew_ms: int) -> None:
        self._clock, self.skew_ms = clock, skew_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def wall_ms(self) -> int:
        wall: int = self._clock.wall_ms() + self.skew_ms
        return wall


TEN_MINUTES_MS, HOUR_MS = 600_000, 3_600_000


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
@pytest.mark.parametrize("sign", [1, -1])
async def test_k8_11_no_live_call_is_ended_and_no_dead_one_kept_by_a_gateways_wall_clock(
    world, seen, ledger_time, sign, jump_ms
):
    """K8-11, 4.5: one replica ten minutes ahead, one behind, and a jump of an hour on both while a call runs. Leases
    and sweeps go by the ledger's clock: not a moment early, not a moment late."""
    clocks = [SkewedClock(world.clock, each * sign * TEN_MINUTES_MS) for each in (1, -1)]
    ours, theirs = (world.another_gateway(clock) for clock in clocks)
    gate = asyncio.Event()

    async def slowly(_: Any) -> Any:
        await gate.wait()
        return seen["reply"](body="done")

    world.merchant.behave = slowly
    live = asyncio.ensure_future(ours.call(tool_call_id="live", arguments={"sku": "L"}))
    dead = asyncio.ensure_future(ours.call(tool_call_id="dead", arguments={"sku": "D"}))
    await world.merchant.reached(2)
    dead.cancel()
    await asyncio.gather(dead, return_exceptions=True)
    for clock in clocks:
        clock.skew_ms += jump_ms
    ledger_time.advance(LEASE_S - 0.001)
    assert (await ours.sweep.once(), await theirs.sweep.once()) == (0, 0)
    gate.set()
    assert (await live).status == "succeeded"
    ledger_time.advance(0.001)
    assert await theirs.sweep.once() == 1
    assert await statuses(theirs, "live", "dead") == ["succeeded", "indeterminate"]


async def test_k8_11_the_times_of_events_and_records_are_the_ledgers_whoever_wrote_them(world, seen, ledger_time):
    """K8-11, 7.6: a call that one replica ran, an unknown that the other's sweep found, and a replay."""
    ours, theirs = (world.another_gateway(SkewedClock(world.clock, skew)) for skew in (TEN_MINUTES_MS, -TEN_MINUTES_MS))
    began = ledger_time.now_ms
    await ours.call(tool_call_id="n1")
    ledger_time.advance(5)
    replay = await theirs.call(tool_call_id="n1")
    assert replay.replay == {"matched": "tool_call_id", "first_at": iso(began), "age_s": 5.0}
    await theirs.settle_background()
    await theirs.call(tool_call_id="n2", arguments={"sku": "B"})
    events = await world.look_up.events(OPERATOR, "shop1", "c1", 0, 100)
    assert [(event["type"], event["at"]) for event in events] == [
        *((f"effect.{name}", iso(began)) for name in ("proposed", "allowed", "executing", "succeeded")),
        ("effect.replayed", iso(began + 5_000)),
        *((f"effect.{name}", iso(began + 5_000)) for name in ("proposed", "allowed", "executing", "succeeded")),
    ]
    (first,) = await world.look_up.calls(OPERATOR, "shop1", "c1", "n1")
    assert {first[name] for name in ("first_at", "claimed_at", "settled_at")} == {iso(began)}


@pytest.mark.parametrize("skew_ms", [TEN_MINUTES_MS, -TEN_MINUTES_MS, HOUR_MS, -HOUR_MS])
async def test_k8_11_the_repeat_window_is_the_ledgers_too(world, ledger_time, skew_ms):
    """K8-11, 4.9: 60 seconds are 60 seconds between replicas that are an hour apart."""
    other = world.another_gateway(SkewedClock(world.clock, skew_ms))
    await world.call(tool_call_id="n1")
    ledger_time.advance(59.999)
    assert (await other.call(tool_call_id="n2")).decision == "blocked"
    ledger_time.advance(0.001)
    await world.call(tool_call_id="n3", arguments={"sku": "B"})
    ledger_time.advance(60)
    assert (await other.call(tool_call_id="n4", arguments={"sku": "B"})).decision == "proceed"


async def test_p4_11_a_ledger_that_goes_away_amid_a_sweep_ends_the_pass(world, silent, kill, ledger_time):
    """4.5, 4.11: the rest of what was due is not tried against a ledger that is known to be away."""
    await leave_behind(world, silent, kill, "n1", "n2")
    ledger_time.advance(LEASE_S)

    class Away(Told):
        asked = 0

        async def read(self, where: Any) -> Any:
            self.asked += 1
            raise LedgerUnavailable

        async def ready(self) -> None:
            raise LedgerUnavailable

    away = Away(world.ledger, [*(await world.ledger.due(10)).effects])
    with pytest.raises(LedgerUnavailable):
        await swept_over(world, away).once()
    assert away.asked == 1
    assert await world.sweep.once() == 2


@pytest.mark.parametrize("rotten", ["unreadable", "unjudged"])
@pytest.mark.parametrize("spread", ["one ms", "a ms each"])
async def test_p4_5_however_many_due_records_cannot_be_ended_they_hide_none_behind_them(
    world, silent, kill, ledger_time, monkeypatch, rotten, spread
):
    """4.5, 4.13: in one bucket, due before the others, more than one look takes; and a pass is bounded work."""
    monkeypatch.setattr("gateway.service.sweep.AT_ONCE", 3)
    monkeypatch.setattr("gateway.service.sweep.PAGES", 2)
    many = [f"n{number}" for number in range(10)]
    world.merchant.behave = silent
    for each in [*many, "good 1", "good 2"]:
        await kill(world, tool_call_id=each, arguments={"sku": each})
        ledger_time.now_ms += spread != "one ms"
    ledger_time.advance(LEASE_S)
    due = {effect.tool_call_id: effect for effect in (await world.ledger.due(100)).effects}
    assert len(due) == 12
    bad = [due[each] for each in many]
    if rotten == "unreadable":
        for effect in bad:
            await write_newer(world, effect)
        sweep, passes = world.sweep, 0
    else:
        spoilt = Spoilt(world.ledger, {effect.effect_id: ValueError("odd") for effect in bad})
        sweep, passes = swept_over(world, spoilt), 0
    while await statuses(world, "good 1", "good 2") != ["indeterminate", "indeterminate"]:
        await sweep.once()
        passes += 1
        assert passes <= 4, "hidden"
    assert passes >= (1 if spread == "one ms" else 2)
    assert world.merchant.hits == 12
    await kill(world, tool_call_id="good 3", arguments={"sku": "3"})
    ledger_time.advance(LEASE_S)
    for _ in range(4):
        await sweep.once()
    assert await statuses(world, "good 3") == ["indeterminate"]


class Spoilt(Told):
    """The real ledger, but for records that cannot be judged."""

    def __init__(self, ledger: Any, spoilt: dict[bytes, Exception]) -> None:
        super().__init__(ledger, [], spoilt)

    async def due(self, limit: int, cursor: str | None = None) -> Page:
        found: Page = await self._ledger.due(limit, cursor)
        return found


async def test_p4_5_two_sweepers_at_once_end_each_lease_once(world, silent, kill, ledger_time):
    """4.5: every replica sweeps; of each effect there is one line that it became unknown."""
    ids = [f"n{number}" for number in range(7)]
    await leave_behind(world, silent, kill, *ids)
    ledger_time.advance(LEASE_S)
    others = [world.another_gateway(), world.another_gateway()]
    await asyncio.gather(world.sweep.once(), *(other.sweep.once() for other in others))
    assert await statuses(world, *ids) == ["indeterminate"] * 7
    events = await world.look_up.events(OPERATOR, "shop1", "c1", 0, 100)
    assert [event["type"] for event in events].count("effect.indeterminate") == 7
    assert (await world.ledger.due(100)).effects == ()
