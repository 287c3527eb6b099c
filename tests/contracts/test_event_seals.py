"""Sealed logs and the company's feed, over every ledger (promise 7.6): tampering is done to what really lies there."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random

import pytest
from msgspec.structs import replace

from gateway.adapters import redis_seals
from gateway.adapters.ledger_codec import UnknownFormat
from gateway.adapters.ledger_keys import BUCKETS, Bucket
from gateway.adapters.redis_seals import packed, unpacked
from gateway.core.conversation import Event, EventLog
from gateway.core.errors import Forbidden, LedgerUnavailable, Malformed
from gateway.core.event_chain import Verdict, after, start_of, verify
from gateway.core.model import Principal, Role
from gateway.core.ports import News, Resealing, Seal
from gateway.service import seal_events
from gateway.service.look_up import LookUp
from gateway.service.read_feed import ReadFeed
from gateway.service.seal_events import FEW, SealEvents

DAY_MS = 86_400_000
LOG = EventLog("acme", "c-1")
RUNTIME = Principal("assistant", Role.RUNTIME, frozenset({"acme"}), "k-1")
MERCHANT = Principal("shop", Role.MERCHANT, frozenset({"acme"}), "k-2")


class NoClock:
    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")


class Office:
    """A replica that seals, and a reader, over one bench."""

    def __init__(self, bench, seals=None):
        self.bench = bench
        self.seals = seals or bench.seals
        self.sealing = SealEvents(bench.ledger, self.seals, NoClock(), retention_ms=lambda _: 30 * DAY_MS)
        self.look_up = LookUp(bench.ledger)
        self.feed = ReadFeed(bench.ledger, bench.seals)

    async def due(self):
        """Five seconds have passed: every log that waits to be sealed may be."""
        for key in await self.bench.keys():
            if key[8:] == b"Q":
                for mark in await self.bench.wire.do("ZRANGE", key, 0, -1):
                    await self.bench.wire.do("ZADD", key, 0, mark)

    async def pass_(self):
        await self.due()
        return await self.sealing.once()

    async def waiting(self):
        """What waits to be sealed or told, due or not."""
        await self.due()
        return [(log.company, log.conversation) for log in (await self.seals.unsealed(10_000, None))[0]]

    async def verdict(self, log=LOG, *, expect=b"", principal=RUNTIME) -> Verdict:
        seal = await self.feed.seal(principal, log.company, log.conversation or None)
        events = await self.look_up.events(principal, log.company, log.conversation or None, 0, 100_000)
        head = None if seal["head"] is None else bytes.fromhex(seal["head"])
        return verify(log.digest, seal["sealed"], head, events, expect=expect)

    async def pages(self, *, since=0, limit=100, cursor=None, principal=RUNTIME):
        """The feed to its end: each event's conversation, number and type; and the cursor."""
        found = []
        for _ in range(1_000):
            page = await self.feed.page(principal, "acme", since, cursor, limit)
            assert len(page.events) <= limit
            found += [(e["conversation"], e["seq"], e["type"]) for e in page.events]
            cursor = page.cursor
            if not page.more:
                return found, cursor
        raise AssertionError("a feed without end")


@pytest.fixture
def office(bench):
    return Office(bench)


async def lines(bench, log=LOG):
    return await bench.wire.do("LRANGE", Bucket.of(log.digest).events, 0, -1)


async def rewrite(bench, items, log=LOG):
    """Put other items where the log's lie."""
    key = Bucket.of(log.digest).events
    await bench.wire.do("DEL", key)
    if items:
        await bench.wire.do("RPUSH", key, *items)


# --- sealing -------------------------------------------------------------------------------------------------


async def test_p7_6_a_pass_that_finds_nothing_to_seal_sends_nothing_for_it_and_says_nothing(bench, office, caplog):
    """7.6: every few seconds of an idle gateway; an operator must not read of a fault in each."""
    caplog.set_level("DEBUG", "oncegate")
    assert await office.pass_() == 0
    await bench.run("call_1")
    assert await office.pass_() == 1
    assert await office.pass_() == 0
    assert caplog.messages == []


@pytest.mark.parametrize("sealed", [False, True], ids=["no seal", "a seal"])
@pytest.mark.parametrize("instead", [0, 3, 6], ids=["fewer", "others", "more"])
async def test_p7_6_what_a_failover_took_away_is_not_sealed_for_what_came_in_its_place(bench, office, sealed, instead):
    """7.6: read at one server and sealed at the next, which had not got the last events and has others by now: the seal
    would call them changed for ever."""
    await bench.run("call_0", {"sku": "Z"})
    if sealed:
        await office.pass_()
    kept = await lines(bench)
    await bench.run("call_1")
    (looked,) = await bench.seals.look([LOG], FEW)
    sealing = seal_events._sealed(LOG, looked.seal, looked.events)
    lost = (await lines(bench))[len(kept) :]
    # What came instead says the same here; only when it happened tells it apart.
    others = [(int.from_bytes(line[:6], "big") + 5_000).to_bytes(6, "big") + line[6:] for line in lost]
    await rewrite(bench, [*kept, *(others * 2)[:instead]])
    assert await bench.seals.put([Resealing(LOG, looked.seal, sealing)]) == [False]
    await office.pass_()
    verdict = await office.verdict()
    assert (verdict.sealed, verdict.unsealed, verdict.wrong) == (4 + instead, 0, "")


async def test_p7_6_a_log_is_sealed_and_what_comes_after_is_its_tail(bench, office):
    """7.6"""
    await bench.run("call_1")
    before = await office.verdict()
    assert (before.sealed, before.unsealed, before.wrong) == (0, 4, "")
    assert await office.pass_() == 1
    sealed = await office.verdict()
    assert (sealed.sealed, sealed.unsealed, sealed.wrong) == (4, 0, "")
    await bench.run("call_2", {"sku": "B"})
    later = await office.verdict(expect=sealed.head)
    assert (later.sealed, later.unsealed, later.wrong, later.head) == (4, 4, "", sealed.head)
    await office.pass_()
    last = await office.verdict(expect=sealed.head)
    assert (last.sealed, last.unsealed, last.wrong) == (8, 0, "")
    assert last.head != sealed.head


async def test_p7_6_a_log_waits_to_be_sealed_from_its_first_event_that_is_not_and_no_longer_than_that(bench, office):
    """7.6: swaps, refusals, notes and a company's own events alike."""
    assert await office.waiting() == []
    await bench.claim("call_1")
    await bench.ledger.append(EventLog("acme", "refused"), [Event("effect.denied", None, {"code": "x"})], DAY_MS)
    await bench.ledger.append(EventLog("acme"), [Event("tool.registered", None, {"tool": "a"})], DAY_MS)
    assert sorted(await office.waiting()) == [("acme", ""), ("acme", "c-1"), ("acme", "refused")]
    await office.pass_()
    assert await office.waiting() == []
    await bench.release((await bench.claim("call_2", {"sku": "B"})).effect)
    assert await office.waiting() == [("acme", "c-1")]


async def test_p7_6_nothing_is_sealed_before_five_seconds_have_passed(bench, office):
    """7.6: so that what belongs together is sealed together."""
    await bench.run("call_1")
    assert await office.sealing.once() == 0
    assert (await office.verdict()).sealed == 0


async def test_p7_6_events_are_numbered_as_before_once_there_is_a_seal(bench, office):
    """7.6: the seal is no event."""
    await bench.run("call_1")
    before = await bench.ledger.events(LOG.digest, 0, 100)
    await office.pass_()
    assert await bench.ledger.events(LOG.digest, 0, 100) == before
    assert [e.seq for e in await bench.ledger.events(LOG.digest, 2, 1)] == [3]
    assert await bench.ledger.events(LOG.digest, 4, 100) == []


async def test_p7_6_a_log_longer_than_a_page_is_sealed_whole(bench, office):
    """7.6"""
    told = [Event("effect.renewed", None, {"lease_s": float(number)}) for number in range(1_203)]
    await bench.ledger.append(LOG, told, DAY_MS)
    await office.pass_()
    found = await office.verdict()
    assert (found.sealed, found.unsealed, found.wrong) == (1_203, 0, "")


async def test_p7_6_a_seal_goes_with_its_log_and_a_log_that_is_gone_waits_no_longer(bench, office):
    """7.6, 4.13"""
    await bench.ledger.append(LOG, [Event("effect.renewed")], DAY_MS)
    await office.pass_()
    assert all(0 < ms <= DAY_MS for ms in (await bench.ttls())["v"])
    await bench.ledger.append(LOG, [Event("effect.renewed")], DAY_MS)
    await bench.wire.do("DEL", Bucket.of(LOG.digest).events)
    await office.pass_()
    assert await office.waiting() == []
    assert await bench.seals.seal(LOG.digest) is None


async def test_p7_6_many_replicas_seal_at_once_and_the_chain_is_one(bench, office):
    """7.6: while others write."""
    replicas = [office, Office(bench), Office(bench)]

    async def writes():
        for number in range(12):
            await bench.run(f"call_{number}", {"sku": str(number)})

    async def seals(replica):
        for _ in range(6):
            await replica.pass_()

    await asyncio.gather(writes(), *(seals(replica) for replica in replicas))
    await office.pass_()
    found = await office.verdict()
    assert (found.sealed, found.unsealed, found.wrong) == (48, 0, "")
    firsts = list(dict.fromkeys(await fed(office)))
    assert firsts == [("c-1", number) for number in range(1, 49)]


async def fed(office, **more):
    return [(conversation, seq) for conversation, seq, _ in (await office.pages(**more))[0]]


class Dying:
    """Seals that break off before the n-th step."""

    def __init__(self, seals, steps):
        self._seals, self.left = seals, steps

    def __getattr__(self, name):
        async def step(*args):
            if name in ("put", "tell"):
                if not self.left:
                    raise LedgerUnavailable("gone")
                self.left -= 1
            return await getattr(self._seals, name)(*args)

        return step


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_p7_6_a_sealer_that_dies_loses_no_event_from_the_feed_and_keeps_the_chain_whole(bench, office, steps):
    """7.6: at least once, in order."""
    await bench.run("call_1")
    await bench.run("call_1", conversation="c-2")
    dying = Office(bench, Dying(bench.seals, steps))
    assert await dying.pass_() == 0
    assert sorted(await office.waiting()) == [("acme", "c-1"), ("acme", "c-2")]
    await bench.run("call_2", {"sku": "B"})
    await office.pass_()
    for conversation, number in (("c-1", 8), ("c-2", 4)):
        found = await office.verdict(EventLog("acme", conversation))
        assert (found.sealed, found.unsealed, found.wrong) == (number, 0, "")
        told = [seq for named, seq in dict.fromkeys(await fed(office)) if named == conversation]
        assert told == [*range(1, number + 1)]
    assert await office.waiting() == []


async def test_p7_6_a_seal_that_another_has_replaced_is_not_put(bench, office):
    """7.6: compare and set."""
    await bench.run("call_1")
    at = [int.from_bytes(line[:6], "big") for line in await lines(bench)]
    first, second = Seal(2, 0, at[1], b"1" * 32), Seal(4, 0, at[3], b"2" * 32)
    for was, now, put in [(None, first, True), (None, second, False), (first, second, True), (first, second, False)]:
        assert await bench.seals.put([Resealing(LOG, was, now)]) == [put]
    assert await bench.seals.seal(LOG.digest) == second


async def test_p7_6_a_log_that_was_gone_and_has_events_again_is_not_taken_off_the_list_nor_written_to(bench, office):
    """7.6: they came between the look and the step that says that it is gone."""
    await bench.run("call_1")
    before = await lines(bench)
    assert await bench.seals.put([Resealing(LOG, None, None)]) == [False]
    assert await lines(bench) == before
    assert await office.waiting() == [("acme", "c-1")]


# --- a page of logs at a time --------------------------------------------------------------------------------

PAGE = [EventLog(company, f"c-{number}") for company in ("acme", "globex") for number in range(4)]


async def fill(bench, events=3):
    for log in PAGE:
        await bench.ledger.append(log, [Event("effect.renewed")] * events, DAY_MS)


class Disturbed:
    """Seals before whose step `name` something happens, the first time that it is for several logs."""

    def __init__(self, seals, name, happens):
        self._seals, self._name, self._happens = seals, name, happens

    def __getattr__(self, name):
        async def step(*args):
            if name == self._name and len(args[0]) > 1 and (happens := self._happens) is not None:
                self._happens = None
                await happens()
            return await getattr(self._seals, name)(*args)

        return step


async def refused():
    raise ValueError("an error reply that is no refusal")


async def away():
    raise LedgerUnavailable("gone")


async def test_p7_6_a_page_of_logs_is_sealed_together(bench, office, monkeypatch):
    """7.6: none of them goes by itself, but for one that is longer."""
    alone = []
    by_itself = office.sealing.bring_up_to_date

    async def seen(log):
        alone.append(log)
        return await by_itself(log)

    monkeypatch.setattr(office.sealing, "bring_up_to_date", seen)
    await fill(bench, FEW)
    await bench.ledger.append(PAGE[0], [Event("effect.renewed")], DAY_MS)
    assert await office.pass_() == len(PAGE)
    assert alone == PAGE[:1]
    await fill(bench)
    assert await office.pass_() == len(PAGE)
    assert alone == PAGE[:1]
    assert await office.waiting() == []
    for log in PAGE[:4]:
        found = await office.verdict(log)
        assert (found.sealed, found.unsealed, found.wrong) == (FEW + 3 + (log == PAGE[0]), 0, "")
    numbers = {(c, seq) for c, seq in await fed(office)}
    assert numbers == {(f"c-{n}", seq) for n in range(4) for seq in range(1, FEW + 4 + (n == 0))}


@pytest.mark.parametrize("longer", [0, 1, 3])
async def test_p7_6_a_page_with_nothing_to_seal_together_is_no_fault(bench, office, caplog, longer):
    """7.6: an idle gateway looks every few seconds, and its log says nothing of it; logs that are longer than what is
    sealed together may be all there are."""
    for log in PAGE[:longer]:
        await bench.ledger.append(log, [Event("effect.renewed")] * (FEW + 1), DAY_MS)
    with caplog.at_level(logging.INFO, "oncegate.seals"):
        assert await office.pass_() == longer
    assert caplog.messages == []


async def test_p7_6_effects_that_end_long_after_they_began_are_sealed_as_they_are_read(bench, office):
    """7.6: a line leaves out what an earlier one says, however far back that is and wherever a seal lies between."""
    for conversation in ("c-1", "c-2"):
        early = [await bench.claim(f"call_{n}", {"sku": str(n)}, conversation=conversation) for n in range(5)]
        for place, batch in enumerate((early[:1], early[1:3], early[3:4], early[4:])):
            await office.pass_()
            for granted in batch:
                await bench.settle(granted.effect)
            await bench.run(f"more_{place}", {"more": place}, conversation=conversation)
        await office.pass_()
        found = await office.verdict(EventLog("acme", conversation))
        assert (found.unsealed, found.wrong) == (0, "")
        assert found.sealed == len(await bench.events(conversation=conversation)) == 36
    assert {len(e.effect_id) for e in await bench.events()} == {32}


@pytest.mark.parametrize("step", ["look", "put", "tell"])
@pytest.mark.parametrize("fault", [away, refused])
async def test_p7_6_logs_that_cannot_be_sealed_together_are_sealed_one_by_one(bench, step, fault):
    """7.6"""
    await fill(bench)
    office = Office(bench, Disturbed(bench.seals, step, fault))
    assert await office.pass_() == len(PAGE)
    assert await office.waiting() == []
    for log in PAGE[:4]:
        assert (await office.verdict(log)).sealed == 3
    assert sorted(await fed(office)) == [(f"c-{n}", seq) for n in range(4) for seq in (1, 2, 3)]


@pytest.mark.parametrize("step", ["put", "tell"])
async def test_p7_6_a_page_that_another_replica_seals_meanwhile_has_one_chain(bench, step):
    """7.6: compare and set, log by log; also where more was written since."""

    async def happens():
        await fill(bench, 2)
        other = Office(bench)
        await other.due()
        for log in PAGE[:2]:
            await other.sealing.bring_up_to_date(log)

    await fill(bench)
    office = Office(bench, Disturbed(bench.seals, step, happens))
    assert await office.pass_() == len(PAGE) - 2
    await office.pass_()
    assert await office.waiting() == []
    for log in PAGE[:4]:
        found = await office.verdict(log)
        assert (found.sealed, found.unsealed, found.wrong) == (5, 0, "")
    firsts = list(dict.fromkeys(await fed(office)))
    for number in range(4):
        assert [seq for c, seq in firsts if c == f"c-{number}"] == [1, 2, 3, 4, 5]


ODD = {
    "a newer seal": lambda bench, key: bench.wire.do("LPUSH", key, bytes([255, 9]) + b"whatever comes"),
    "a seal cut short": lambda bench, key: bench.wire.do("LPUSH", key, b"\xff\x01"),
    "a newer event": lambda bench, key: bench.wire.do("RPUSH", key, bytes(6) + b"\x92\xcc\xfe\xc3"),
    "an event of another form": lambda bench, key: bench.wire.do("RPUSH", key, bytes(6) + b"\x81\xa1a\x01"),
    "nothing behind the time": lambda bench, key: bench.wire.do("RPUSH", key, bytes(6)),
    "half of what is said": lambda bench, key: bench.wire.do("RPUSH", key, bytes(6) + b"\x93\x00\xc3\x00"),
    "no log at all": lambda bench, key: replaced(bench, key),
}


async def replaced(bench, key):
    await bench.wire.do("DEL", key)
    await bench.wire.do("SET", key, "something else")


@pytest.mark.parametrize("odd", ODD)
async def test_p4_13_a_log_that_cannot_be_read_keeps_no_other_from_being_sealed(bench, office, odd):
    """4.13, 7.6"""
    await fill(bench)
    await ODD[odd](bench, Bucket.of(PAGE[1].digest).events)
    assert await office.pass_() == len(PAGE) - 1
    assert await office.waiting() == [("acme", "c-1")]
    assert sorted(await fed(office)) == [(f"c-{n}", seq) for n in (0, 2, 3) for seq in (1, 2, 3)]


# what is sealed, what is told, of three events -> whether the log still waits
STRUCK = {
    "nothing yet": (Seal(0, 0, 5, b"1" * 32), True),
    "an event came meanwhile": (Seal(2, 2, 5, b"1" * 32), True),
    "sealed, not told": (Seal(3, 0, 5, b"1" * 32), True),
    "sealed, some of it told": (Seal(3, 2, 5, b"1" * 32), True),
    "sealed and told": (Seal(3, 3, 5, b"1" * 32), False),
}


@pytest.mark.parametrize(("seal", "waits"), STRUCK.values(), ids=STRUCK)
async def test_p7_6_a_log_waits_until_all_its_events_are_sealed_and_told(bench, office, seal, waits):
    """7.6: struck off earlier, what is left would be sealed and told only with an event that may never come."""
    await bench.ledger.append(LOG, [Event("effect.renewed")] * 3, DAY_MS)
    await bench.ledger.append(EventLog("acme", "c-2"), [Event("effect.renewed")], DAY_MS)
    at_ms = int.from_bytes((await lines(bench))[-1][:6], "big")
    assert await bench.seals.put([Resealing(LOG, None, replace(seal, at_ms=at_ms))]) == [True]
    expected = {("acme", "c-1"), ("acme", "c-2")} if waits else {("acme", "c-2")}
    await office.due()
    assert set(await office.waiting()) == expected
    assert await bench.seals.put([Resealing(LOG, None, Seal(3, 3, 5, b"2" * 32))]) == [False]
    assert set(await office.waiting()) == expected


async def test_p4_13_a_feed_lets_go_of_old_lines_and_of_no_others(bench):
    """4.13, 9.4: else it grows for as long as its company is busy. Whole nodes of a stream go, a hundred lines each."""
    feed = Bucket.of(EventLog("acme").digest).feed
    now_ms = int((await bench.wire.do("XADD", feed, "*", "e", b"")).partition(b"-")[0])
    await bench.wire.do("DEL", feed)
    recent = now_ms - DAY_MS // 2
    for at in (now_ms - 2 * DAY_MS, recent):
        for number in range(300):
            await bench.wire.do("XADD", feed, f"{at}-{number}", "e", b"")
    await bench.seals.tell([News(LOG, 1, 3, DAY_MS)])
    places = [place.decode() for place, _ in await bench.wire.do("XRANGE", feed, "-", "+")]
    assert [place for place in places if place.startswith(f"{recent}-")] == [f"{recent}-{n}" for n in range(300)]
    assert 301 <= len(places) <= 401


@pytest.mark.parametrize("days", [(1, 30), (30, 1), (30, 30)])
async def test_p4_13_a_feed_lives_as_long_as_the_longest_that_its_lines_were_to_stay(bench, days):
    """4.13: a retention time that was made shorter takes nothing back."""
    for each in days:
        await bench.seals.tell([News(LOG, 1, 1, each * DAY_MS)])
        assert all(ms > 0 for ms in (await bench.ttls())["F"])
    (left,) = (await bench.ttls())["F"]
    assert 29 * DAY_MS < left <= 30 * DAY_MS


async def test_p4_13_a_log_that_a_newer_gateway_sealed_is_left_and_keeps_no_other_from_it(bench, office):
    """4.13, 7.6"""
    await bench.ledger.append(LOG, [Event("effect.renewed")], DAY_MS)
    await bench.ledger.append(EventLog("acme", "c-2"), [Event("effect.renewed")], DAY_MS)
    newer = bytes([255, 9]) + b"whatever comes"
    await bench.wire.do("LPUSH", Bucket.of(LOG.digest).events, newer)
    assert await office.pass_() == 1
    assert (await lines(bench))[0] == newer
    assert await office.waiting() == [("acme", "c-1")]
    assert [e.seq for e in await bench.ledger.events(LOG.digest, 0, 9)] == [1]


def test_p4_13_the_bytes_of_a_seal_are_pinned():
    """4.13"""
    seal = Seal(3, 2, 1_780_000_000_000, bytes(range(32)))
    assert packed(seal).hex() == "ff0100000003000000020000019e70448800" + bytes(range(32)).hex()
    assert unpacked(packed(seal)) == seal
    with pytest.raises(UnknownFormat):
        unpacked(packed(seal) + b"\0")


# --- tampering -----------------------------------------------------------------------------------------------

TAMPERED = {
    "changed": lambda seal, events: [seal, *events[:2], events[2][:-1] + bytes([events[2][-1] ^ 1]), *events[3:]],
    "its time changed": lambda seal, events: [seal, events[0][:5] + bytes([events[0][5] ^ 1]) + events[0][6:], *events[1:]],
    "deleted": lambda seal, events: [seal, *events[:4], *events[5:]],
    "reordered": lambda seal, events: [seal, *events[:4], events[5], events[4], *events[6:]],
    "inserted": lambda seal, events: [seal, *events[:5], events[4], *events[5:]],
    "inserted in front": lambda seal, events: [seal, events[0], *events],
    "cut off at the front": lambda seal, events: [seal, *events[1:]],
    "cut off at the end": lambda seal, events: [seal, *events[:-1]],
    "all gone": lambda seal, events: [seal],
    "the seal's hash": lambda seal, events: [seal[:-1] + bytes([seal[-1] ^ 1]), *events],
}  # fmt: skip


@pytest.mark.parametrize("how", TAMPERED)
async def test_p7_6_what_is_done_to_sealed_events_is_seen(bench, office, how):
    """7.6"""
    for number in range(2):
        await bench.ledger.append(
            LOG, [Event("effect.renewed", None, {"lease_s": number + n / 8}) for n in range(4)], DAY_MS
        )
        await office.pass_()
    seal, *events = await lines(bench)
    assert (await office.verdict()).wrong == ""
    assert len(events) == 8
    await rewrite(bench, TAMPERED[how](seal, events))
    assert (await office.verdict()).wrong != ""
    await rewrite(bench, [seal, *events])
    assert (await office.verdict()).wrong == ""


async def test_p7_6_a_log_of_another_conversation_does_not_pass_for_this_one(bench, office):
    """7.6: the chain begins with the conversation."""
    await bench.ledger.append(LOG, [Event("effect.renewed")], DAY_MS)
    await bench.ledger.append(EventLog("acme", "c-2"), [Event("effect.renewed")], DAY_MS)
    await office.pass_()
    await rewrite(bench, await lines(bench, EventLog("acme", "c-2")))
    assert (await office.verdict()).wrong != ""


async def test_p7_6_a_log_written_anew_with_a_seal_of_its_own_is_seen_by_who_noted_a_hash(bench, office):
    """7.6: only by them; docs/events.md says so."""
    await bench.ledger.append(LOG, [Event("effect.renewed")] * 3, DAY_MS)
    await office.pass_()
    noted = (await office.verdict()).head
    _, first, *_ = await lines(bench)
    await rewrite(bench, [first])
    await bench.ledger.append(LOG, [Event("effect.indeterminate", None, {"reason": "replied"})] * 4, DAY_MS)
    await office.pass_()
    assert (await office.verdict()).wrong == ""
    assert "expected hash" in (await office.verdict(expect=noted)).wrong


async def test_p7_6_a_key_that_may_not_read_results_verifies_as_well(bench, office):
    """7.6, 9.1: `seen` is hashed by its SHA-256."""
    said = {"reason": "replied", "http_status": 500, "seen": "<html>Order 7 \u00e9</html>"}
    await bench.ledger.append(LOG, [Event("effect.indeterminate", None, said)], DAY_MS)
    await office.pass_()
    (mine,) = await office.look_up.events(RUNTIME, "acme", "c-1", 0, 9)
    (theirs,) = await office.look_up.events(MERCHANT, "acme", "c-1", 0, 9)
    assert mine["seen"] == said["seen"]
    assert "seen" not in theirs
    assert len(theirs["seen_sha256"]) == 64
    assert await office.verdict(principal=MERCHANT) == await office.verdict()
    assert (await office.verdict()).wrong == ""


def test_p7_6_the_hash_is_what_the_page_says_it_is():
    """7.6: pinned, since other programs compute it."""
    event = {"at": "2026-05-04T12:00:00.000Z", "seq": 1, "type": "effect.renewed", "effect_id": None, "lease_s": 1.5}
    assert start_of(LOG.digest).hex() == START
    assert after(start_of(LOG.digest), event).hex() == FIRST
    assert after(start_of(LOG.digest), {**event, "company": "acme", "conversation": "c-1"}).hex() == FIRST


START = "436a083c8d392536bba898b0f71571b4196e7365ecf91222e1feb4834a3ae1aa"
FIRST = "e95628df0bed922a79721473c2c180fb173a32974b7f8bc8bd16e8cda64da494"


# --- the feed ------------------------------------------------------------------------------------------------


async def test_p7_6_the_feed_has_every_event_of_every_conversation_in_its_order(bench, office):
    """7.6"""
    conversations = [f"c-{number}" for number in range(30)] + ["\u00e9\U0001f600", "a:b", "{x}"]
    picks = random.Random(4)
    for _ in range(3):
        for conversation in picks.sample(conversations, 20):
            await bench.ledger.append(
                EventLog("acme", conversation), [Event("effect.renewed")] * picks.randrange(1, 4), DAY_MS
            )
        await bench.ledger.append(EventLog("globex", "c-1"), [Event("effect.renewed")], DAY_MS)
        await office.pass_()
    await bench.ledger.append(EventLog("acme"), [Event("tool.removed", None, {"tool": "a"})], DAY_MS)
    await office.pass_()
    whole, _ = await office.pages()
    wanted = set()
    for conversation in [*conversations, None]:
        digest = EventLog("acme", conversation or "").digest
        wanted |= {(conversation, e.seq, e.event.type) for e in await bench.ledger.events(digest, 0, 99)}
    assert set(whole) == wanted
    assert len(whole) == len(wanted)
    for _, each in itertools.groupby(
        sorted(range(len(whole)), key=lambda n: (str(whole[n][0]), n)), lambda n: str(whole[n][0])
    ):
        assert [whole[n][1] for n in each] == sorted(whole[n][1] for n in range(len(whole)) if str(whole[n][0]) == _)
    for limit in (1, 2, 7, 500):
        assert (await office.pages(limit=limit))[0] == whole


async def test_p7_6_a_feed_goes_on_from_its_cursor_with_what_came_since(bench, office):
    """7.6: also from a cursor that was given when there was nothing yet."""
    nothing, cursor = await office.pages()
    assert nothing == []
    for number in range(1, 4):
        await bench.ledger.append(LOG, [Event("effect.renewed")] * 2, DAY_MS)
        await office.pass_()
        found, cursor = await office.pages(cursor=cursor)
        assert [seq for _, seq, _ in found] == [2 * number - 1, 2 * number]
        assert (await office.pages(cursor=cursor)) == ([], cursor)


async def test_p7_6_a_feed_begins_where_it_is_asked_to(bench, office):
    """7.6: by the event's time."""
    await bench.ledger.append(LOG, [Event("effect.renewed")] * 2, DAY_MS)
    await office.pass_()
    (_, last) = await bench.ledger.events(LOG.digest, 0, 9)
    assert len(await fed(office, since=last.at_ms)) == 2
    assert await fed(office, since=last.at_ms + 1) == []
    assert await fed(office, since=last.at_ms + 10**9) == []


async def test_p7_6_a_line_of_the_feed_whose_log_is_gone_is_passed_over(bench, office):
    """7.6, 4.13"""
    for conversation in ("c-1", "c-2"):
        await bench.ledger.append(EventLog("acme", conversation), [Event("effect.renewed")] * 3, DAY_MS)
        await office.pass_()
    await bench.wire.do("DEL", Bucket.of(LOG.digest).events)
    for limit in (1, 2, 9):
        assert await fed(office, limit=limit) == [("c-2", 1), ("c-2", 2), ("c-2", 3)]


async def test_p4_13_a_feed_goes_back_as_far_as_its_company_keeps_what_is_settled(bench, office):
    """4.13"""
    await bench.ledger.append(LOG, [Event("effect.renewed")], DAY_MS)
    await office.pass_()
    assert all(29 * DAY_MS < ms <= 30 * DAY_MS for ms in (await bench.ttls())["F"])


async def test_p9_1_a_feed_and_a_seal_are_for_the_companys_own_keys(bench, office):
    """9.1: in the same words whether there is such a company or not."""
    for company in ("globex", "nobody"):
        for asked in (office.feed.page(RUNTIME, company, 0, None, 9), office.feed.seal(RUNTIME, company, "c-1")):
            with pytest.raises(Forbidden, match="not for that company"):
                await asked


@pytest.mark.parametrize(
    "cursor", ["", "1", "1-", "-1", "1-1:", "1-1:x", "1-1-1", "+", "(1-1", "1-1\n", "9" * 16 + "-1"]
)
async def test_k9_4_a_cursor_that_no_feed_gave_is_refused(memory_bench, cursor):
    """9.4"""
    with pytest.raises(Malformed):
        await Office(memory_bench).feed.page(RUNTIME, "acme", 0, cursor, 9)


@pytest.mark.parametrize("cursor", ["0-0", "0-0:7", "999999999999999-999999999999999:9999999999"])
async def test_p7_6_a_cursor_that_was_made_up_is_a_place_like_any_other(bench, office, cursor):
    """7.6"""
    await bench.ledger.append(LOG, [Event("effect.renewed")], DAY_MS)
    await office.pass_()
    found, _ = await office.pages(cursor=cursor)
    assert len(found) == (1 if cursor.startswith("0") else 0)
    (line,) = await bench.seals.told("acme", "-", 9)
    assert (await office.pages(cursor=f"{line.place}:99"))[0] == []


async def test_p7_6_names_of_every_form_come_back_from_the_set_of_unsealed_logs(memory_bench):
    """7.6: a NUL in a company's name moves nothing into another's feed."""
    names = [("a", "b\0c"), ("a\0b", "c"), ("a", ""), ("\u00e9" * 500, "x" * 1024), ("a\n", "\r\n")]
    for company, conversation in names:
        await memory_bench.ledger.append(EventLog(company, conversation), [Event("effect.renewed")], DAY_MS)
    assert sorted(await Office(memory_bench).waiting()) == sorted(names)


async def test_p7_6_a_log_waits_from_its_first_event_that_is_not_sealed(memory_bench, memory_time):
    """7.6: so that the events of a turn are sealed together; how long is a setting."""
    seals = redis_seals.RedisSeals(memory_bench.wire, after_s=7.0)
    await memory_bench.ledger.append(LOG, [Event("effect.renewed")], DAY_MS)
    memory_time.advance(6_000)
    await memory_bench.ledger.append(LOG, [Event("effect.renewed")], DAY_MS)
    assert await seals.unsealed(10, None) == ([], None)
    memory_time.advance(1_000)
    assert await seals.unsealed(10, None) == ([LOG], None)


async def test_p7_6_the_walk_over_unsealed_logs_is_bounded_and_passes_none(memory_bench, monkeypatch):
    """7.6: a page at a time, whatever became of what it found."""
    names = {("acme", f"c-{number}") for number in range(57)}
    for company, conversation in names:
        await memory_bench.ledger.append(EventLog(company, conversation), [Event("effect.renewed")], DAY_MS)
    office = Office(memory_bench)
    await office.due()
    found, cursor = [], None
    while True:
        logs, cursor = await redis_seals.RedisSeals(memory_bench.wire).unsealed(10, cursor)
        found += [(log.company, log.conversation) for log in logs]
        if cursor is None:
            break
    assert BUCKETS > 57
    assert len(found) == 57
    assert set(found) == names
