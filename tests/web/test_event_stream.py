"""`GET /v1/events/stream` (7.6): events as they come, resumed, bounded, and ended with the gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.core.errors import LedgerUnavailable
from gateway.core.identity import conversation_digest
from gateway.service.sending import Trace
from gateway.web import event_stream, replies
from gateway.web.models import StreamQuery
from gateway.web.operations import Asked
from gateway.web.services import Limits

PATH = "/v1/events/stream?company=acme&conversation=c-1"


class Reader:
    """One client of a stream. `stuck`: it takes nothing more."""

    def __init__(self, gateway: Any, path: str = PATH, key: str = "k-runtime", headers: Any = ()) -> None:
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.gone, self.stuck = asyncio.Event(), asyncio.Event()
        self._scope = gateway.scope("GET", path, key, headers)
        self.task = asyncio.create_task(gateway.app(self._scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._scope.setdefault("asked", False):
            self._scope["asked"] = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self.stuck.is_set():
            await asyncio.Event().wait()
        await self.messages.put(dict(message))

    async def status(self) -> int:
        found: int = (await self.messages.get())["status"]
        return found

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Events, comments left out, until the stream ends."""
        while (message := await self.messages.get()).get("more_body"):
            for block in message["body"].decode().split("\n\n"):
                lines = dict(line.split(": ", 1) for line in block.splitlines())
                if "data" in lines:
                    found = json.loads(lines["data"])
                    assert (lines["id"], lines["event"]) == (str(found["seq"]), found["type"])
                    yield found


def write(gateway: Any, *types: str, conversation: str = "c-1") -> None:
    for type_ in types:
        gateway.log.add(conversation_digest("acme", conversation), type_, None, {})


@pytest.fixture
def ticking(gateway: Any) -> Any:
    """The clock goes on by itself, so that looks come without real time."""
    looks = gateway.clock.sleep

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)
        await looks(seconds)

    gateway.clock.sleep = sleep
    return gateway


async def taken(reader: Reader, number: int) -> list[int]:
    found: list[int] = []
    async for event in reader.events():
        found.append(event["seq"])
        if len(found) == number:
            break
    return found


async def leave(reader: Reader) -> None:
    reader.gone.set()
    await reader.task


async def test_p7_6_a_stream_tells_what_is_there_and_then_what_comes(ticking: Any) -> None:
    write(ticking, "effect.proposed", "effect.allowed")
    reader = Reader(ticking)
    assert await reader.status() == 200
    assert await taken(reader, 2) == [1, 2]
    write(ticking, "effect.executing")
    write(ticking, "effect.failed", conversation="c-2")
    write(ticking, "effect.succeeded")
    assert await taken(reader, 2) == [3, 4]
    await leave(reader)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (PATH, [("Last-Event-ID", "2")]),
        (PATH + "&after=2", []),
        (PATH + "&after=1", [("Last-Event-ID", "2")]),
        (PATH + "&after=3", [("Last-Event-ID", "2")]),
        (PATH + "&after=99", [("Last-Event-ID", "2")]),
        (PATH, [("Last-Event-ID", "2 ")]),
        (PATH, [("Last-Event-ID", " \t2\t ")]),
    ],
)
async def test_p7_6_a_stream_goes_on_behind_the_last_event(ticking: Any, path: str, headers: Any) -> None:
    write(ticking, *["effect.renewed"] * 3)
    reader = Reader(ticking, path, headers=headers)
    assert await reader.status() == 200
    assert await taken(reader, 1) == [3]
    await leave(reader)


@pytest.mark.parametrize("sent", ["", " ", "x", "-1", "1 2", "\x0b2", "1" * 16])
async def test_p7_6_a_last_event_id_that_is_none_is_refused(gateway: Any, sent: str) -> None:
    answer = await gateway.get(PATH, headers=[("Last-Event-ID", sent)])
    assert (answer.status, answer.fields) == (400, ["Last-Event-ID"])


async def test_p9_1_another_companys_stream_is_forbidden(gateway: Any) -> None:
    assert (await gateway.get("/v1/events/stream?company=other")).status == 403


async def test_p7_6_a_stop_ends_a_stream_whole(ticking: Any) -> None:
    reader = Reader(ticking)
    assert await reader.status() == 200
    ticking.stopping.begin()
    assert [event async for event in reader.events()] == []
    await reader.task


async def test_p7_6_a_silent_stream_says_that_it_is_there_and_ends_after_an_hour(ticking: Any) -> None:
    began = ticking.clock.monotonic()
    reader = Reader(ticking)
    await reader.task
    sent = [reader.messages.get_nowait() for _ in range(reader.messages.qsize())]
    lasted = ticking.clock.monotonic() - began
    assert event_stream.LONGEST_S <= lasted < event_stream.LONGEST_S + 1
    assert sum(message.get("body", b"").startswith(b": still") for message in sent) == pytest.approx(240, abs=10)
    assert sent[-1] == {"type": "http.response.body", "body": b""}


async def test_p9_4_a_company_has_a_bounded_number_of_streams_and_one_that_ended_makes_room(gateway: Any) -> None:
    async def sleep(_: float) -> None:
        await asyncio.Event().wait()

    gateway.clock.sleep = sleep
    gateway.with_services(limits=Limits(streams=2))
    readers = [Reader(gateway), Reader(gateway)]
    for reader in readers:
        assert await reader.status() == 200
        await reader.messages.get()
    refused = await gateway.get(PATH)
    assert (refused.status, refused.problem["code"], refused.headers["retry-after"]) == (429, "rate_limited", "5")
    await leave(readers.pop())
    readers.append(Reader(gateway))
    assert await readers[-1].status() == 200
    for reader in readers:
        await leave(reader)


async def test_p9_4_a_reader_that_takes_nothing_is_dropped(ticking: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(replies, "SLOW_S", 0.01)
    reader = Reader(ticking)
    assert await reader.status() == 200
    reader.stuck.set()
    write(ticking, "effect.renewed")
    await reader.task
    assert all(message.get("more_body", True) for message in reader.messages._queue)  # type: ignore[attr-defined]


async def test_p7_6_a_ledger_that_is_away_for_a_while_costs_a_stream_nothing(ticking: Any, monkeypatch: Any) -> None:
    reads, away = ticking.calls.events, [True] * 3

    async def events(*asked: Any) -> Any:
        if away:
            away.pop()
            raise LedgerUnavailable
        return await reads(*asked)

    monkeypatch.setattr(ticking.calls, "events", events)
    write(ticking, "effect.renewed")
    reader = Reader(ticking)
    assert await reader.status() == 200
    assert await taken(reader, 1) == [1]
    await leave(reader)


@pytest.mark.parametrize("written", [0, 1, 3])
@pytest.mark.parametrize("how", ["header", "parameter"])
async def test_p7_6_a_stream_that_would_pass_over_events_in_silence_is_refused(
    gateway: Any, written: int, how: str
) -> None:
    """7.6: the reader has seen more than there is, so it was lost, or the log expired and began anew."""
    write(gateway, *["effect.renewed"] * written)
    path, headers = (PATH, [("Last-Event-ID", "4")]) if how == "header" else (PATH + "&after=4", [])
    answer = await gateway.get(path, headers=headers)
    problem = answer.problem
    assert (answer.status, problem["code"], problem["retryable"]) == (409, "beyond_log", False)
    assert problem["last"] == written
    assert f"has {written} event{'s'[: written != 1]}, fewer than the 4" in problem["message"]
    assert "after=0" in problem["message"]


async def test_p7_6_a_stream_behind_the_very_last_event_waits_for_the_next(ticking: Any) -> None:
    """7.6: nothing is missing; also in a log of its company that has no events yet."""
    write(ticking, *["effect.renewed"] * 3)
    reader = Reader(ticking, headers=[("Last-Event-ID", "3")])
    assert await reader.status() == 200
    write(ticking, "effect.succeeded")
    assert await taken(reader, 1) == [4]
    await leave(reader)
    empty = Reader(ticking, "/v1/events/stream?company=acme")
    assert await empty.status() == 200
    await leave(empty)


async def test_p7_6_a_stream_ends_when_what_it_told_is_gone_and_its_reader_is_told_so(ticking: Any) -> None:
    """7.6: a failover, or the retention time, while it is open."""
    write(ticking, *["effect.renewed"] * 3)
    reader = Reader(ticking)
    assert await reader.status() == 200
    assert await taken(reader, 3) == [1, 2, 3]
    del ticking.log.logged[conversation_digest("acme", "c-1")][1:]
    assert [event async for event in reader.events()] == []
    await reader.task
    assert ticking.clock.monotonic() < event_stream.LONGEST_S / 2
    refused = await ticking.get(PATH, headers=[("Last-Event-ID", "3")])
    assert (refused.status, refused.problem["last"]) == (409, 1)


async def test_p7_6_a_stream_resumed_while_the_ledger_is_away_is_not_taken_for_one_of_a_lost_log(
    ticking: Any, monkeypatch: Any
) -> None:
    """7.6: it opens, and looks again."""

    async def away(*_: Any) -> int:
        raise LedgerUnavailable

    monkeypatch.setattr(ticking.calls, "last_event", away)
    write(ticking, *["effect.renewed"] * 3)
    reader = Reader(ticking, headers=[("Last-Event-ID", "2")])
    assert await reader.status() == 200
    assert await taken(reader, 1) == [3]
    await leave(reader)


@pytest.mark.parametrize(
    ("asked", "found", "last"),
    [("after=0", [1, 2, 3], 3), ("after=2", [3], 3), ("after=3", [], 3), ("after=9", [], 3), ("limit=2", [1, 2], 3)],
)
async def test_p7_6_a_page_of_events_says_where_the_log_ends(
    gateway: Any, asked: str, found: list[int], last: int
) -> None:
    """7.6: an `after` above `last` is how a reader sees that what it has seen is gone."""
    write(gateway, *["effect.renewed"] * 3)
    answer = (await gateway.get(f"/v1/events?company=acme&conversation=c-1&{asked}")).json()
    assert ([event["seq"] for event in answer["events"]], answer["last"]) == (found, last)
    nothing = (await gateway.get("/v1/events?company=acme&conversation=none")).json()
    assert nothing == {"events": [], "last": 0}


async def test_p9_4_a_company_has_32_streams_unless_it_is_told_otherwise(gateway: Any) -> None:
    """9.4: as docs/api.md says."""

    async def sleep(_: float) -> None:
        await asyncio.Event().wait()

    gateway.clock.sleep = sleep
    readers = [Reader(gateway) for _ in range(32)]
    for reader in readers:
        assert await reader.status() == 200
        await reader.messages.get()
    assert (await gateway.get(PATH)).status == 429
    for reader in readers:
        await leave(reader)


async def test_p9_4_streams_that_begin_at_once_are_no_more_than_there_may_be(gateway: Any) -> None:
    """9.4: those that were let in before any of them had its place."""

    async def sleep(_: float) -> None:
        await asyncio.Event().wait()

    gateway.clock.sleep = sleep
    gateway.with_services(limits=Limits(streams=1))
    streams = event_stream.EventStreams(gateway.services)
    query = StreamQuery(company="acme", conversation="c-1")
    asked = Asked({}, query, None, Trace("r-1", None), gateway.registry.principal("k-runtime"))
    first, second = await streams.stream(asked), await streams.stream(asked)
    assert await anext(first.chunks)
    assert [chunk async for chunk in second.chunks] == []
    await first.chunks.aclose()
