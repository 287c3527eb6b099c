"""The link between two processes does what a bad network does, and nothing when it is calm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from benchmarks.chaos.proxy import Link, Odds
from benchmarks.processes import LOOPBACK


@dataclass
class Far:
    """A server at the far end: keeps what it gets, says "yes" to each line."""

    port: int = 0
    got: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self.got.put_nowait(line)
                writer.write(b"yes\n")
        except OSError:
            pass
        finally:
            self.ended.set()
            writer.close()


@pytest.fixture
async def far() -> AsyncIterator[Far]:
    end = Far()
    server = await asyncio.start_server(end.serve, LOOPBACK, 0)
    end.port = server.sockets[0].getsockname()[1]
    yield end
    server.close()


async def _linked(far: Far, odds: Odds) -> Link:
    link = Link("a link", far.port, odds, seed=1)
    await link.listen()
    return link


async def test_a_calm_link_passes_everything(far: Far) -> None:
    link = await _linked(far, Odds(cut=1.0))
    reader, writer = await asyncio.open_connection(LOOPBACK, link.port)
    writer.write(b"one\n")
    assert await reader.readline() == b"yes\n"
    writer.close()
    await link.close()


async def test_bytes_that_were_held_arrive_though_their_sender_has_gone(far: Far) -> None:
    """4.11: a claim lands after the gateway gave it up; without this, chaos would never try it."""
    link = await _linked(far, Odds())
    link.hold()
    _, writer = await asyncio.open_connection(LOOPBACK, link.port)
    writer.write(b"a claim\n")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert far.got.empty()
    link.let_go()
    async with asyncio.timeout(60):
        assert await far.got.get() == b"a claim\n"
    await link.close()


async def test_replies_may_be_held_by_themselves(far: Far) -> None:
    link = await _linked(far, Odds())
    link.hold(replies_only=True)
    reader, writer = await asyncio.open_connection(LOOPBACK, link.port)
    writer.write(b"one\n")
    async with asyncio.timeout(60):
        assert await far.got.get() == b"one\n"
        answer = asyncio.create_task(reader.readline())
        assert not answer.done()
        link.let_go()
        assert await answer == b"yes\n"
    writer.close()
    await link.close()


@pytest.mark.parametrize(("odds", "arrives"), [(Odds(cut=1.0), []), (Odds(half=1.0), [b"12"])])
async def test_a_cut_breaks_both_ends(far: Far, odds: Odds, arrives: list[bytes]) -> None:
    """Nothing of it arrives, or half of it and then nothing."""
    link = await _linked(far, odds)
    link.calm = False
    reader, writer = await asyncio.open_connection(LOOPBACK, link.port)
    writer.write(b"123\n")
    async with asyncio.timeout(60):
        with pytest.raises(ConnectionError):
            assert await reader.read()
        await far.ended.wait()
    assert [far.got.get_nowait() for _ in range(far.got.qsize())] == arrives
    writer.close()
    await link.close()


async def test_a_link_may_refuse_and_listen_again(far: Far) -> None:
    link = await _linked(far, Odds())
    link.refuse()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(LOOPBACK, link.port)
    await link.listen()
    reader, writer = await asyncio.open_connection(LOOPBACK, link.port)
    writer.write(b"one\n")
    assert await reader.readline() == b"yes\n"
    writer.close()
    await link.close()
