"""Streamed replies: passed through as they come, recorded whole, given again whole."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from gateway.runtime import EffectOverruled

REQUEST = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
TEXTS = ["Your ", "order ", "is in."]
CHUNKS = [{"delta": "a", "p": 0.5}, {"delta": "b"}]


@pytest.fixture
def turn(client):
    return lambda: client.turn("acme", "c-1", "t-1")


class Streaming:
    """A model that streams; `held` keeps the last piece back until it is set."""

    def __init__(self, *pieces, held=None):
        self.pieces = pieces
        self.times = 0
        self.closed = False
        self.held = held

    async def __call__(self, request):
        self.times += 1
        return self.stream()

    async def stream(self):
        try:
            for piece in self.pieces[:-1]:
                yield piece
            if self.held is not None:
                await self.held.wait()
            if isinstance(self.pieces[-1], Exception):
                raise self.pieces[-1]
            yield self.pieces[-1]
        finally:
            self.closed = True


async def taken(stream):
    return [piece async for piece in stream]


@pytest.mark.parametrize(
    ("pieces", "options", "again"),
    [
        (TEXTS, {}, ["Your order is in."]),
        (CHUNKS, {}, CHUNKS),
        (CHUNKS, {"whole": lambda pieces: "".join(piece["delta"] for piece in pieces)}, ["ab"]),
        ([""], {}, [""]),
    ],
    ids=["texts", "chunks", "a whole of one's own", "an empty text"],
)
async def test_p7_2_a_streamed_reply_is_recorded_whole_and_given_again(turn, pieces, options, again):
    """7.2: the model is asked once."""
    model = Streaming(*pieces)
    assert await taken(turn().stream("m", REQUEST, model, **options)) == list(pieces)
    assert await taken(turn().stream("m", REQUEST, model, **options)) == again
    assert model.times == 1


async def test_an_empty_stream_is_a_reply_too(turn):
    async def nothing(request):
        return none()

    async def none():
        for piece in ():
            yield piece

    for _ in range(2):
        assert await taken(turn().stream("m", REQUEST, nothing)) == []


async def test_pieces_are_passed_on_before_the_reply_is_whole(turn, played):
    """7.2: live, and nothing is recorded before the end."""
    held = asyncio.Event()
    model = Streaming(*TEXTS, held=held)
    async with aclosing(turn().stream("m", REQUEST, model)) as stream:
        assert await anext(stream) == "Your "
        assert await anext(stream) == "order "
        assert "complete" not in played.effects.asked
        held.set()
        assert await anext(stream) == "is in."
        assert "complete" not in played.effects.asked
        assert await anext(stream, None) is None
    assert played.effects.asked == {"submit": 1, "complete": 1}


async def test_a_plain_iterator_is_taken_as_well_as_an_awaitable_of_one(turn):
    model = Streaming(*TEXTS)
    assert await taken(turn().stream("m", REQUEST, lambda request: model.stream())) == TEXTS


async def test_p7_2_the_stream_flag_makes_no_other_question(turn):
    """7.2: what was streamed is found by a plain question."""
    await taken(turn().stream("m", REQUEST, Streaming(*TEXTS)))
    assert await turn().model("m", {**REQUEST, "stream": False}, None) == "Your order is in."


@pytest.mark.parametrize("how", ["left", "broken"])
async def test_a_stream_that_is_not_whole_is_given_back_and_asked_for_anew(turn, played, how):
    """7.2: half a reply is no reply."""
    cut = Streaming("Your ", ConnectionError("cut off")) if how == "broken" else Streaming(*TEXTS)
    run = turn()
    stream = run.stream("m", REQUEST, cut)
    assert await anext(stream) == "Your "
    if how == "broken":
        with pytest.raises(ConnectionError):
            await anext(stream)
    else:
        await stream.aclose()
    assert cut.closed
    assert played.effects.records == {}
    assert await taken(run.stream("m", REQUEST, Streaming(*TEXTS))) == TEXTS
    assert await taken(turn().stream("m", REQUEST, cut)) == ["Your order is in."]


async def test_p4_4_a_stream_is_told_when_another_run_was_faster(turn, played):
    """4.4: what was streamed is not what stands; run again, the turn goes on with what does."""
    stream = turn().stream("m", REQUEST, Streaming(*TEXTS))
    await anext(stream)
    played.effects.settle_all("Another reply.")
    with pytest.raises(EffectOverruled) as raised:
        await taken(stream)
    assert raised.value.retryable
    assert await taken(turn().stream("m", REQUEST, None)) == ["Another reply."]
