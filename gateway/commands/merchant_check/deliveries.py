"""The good call, delivered in every way that a network has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from gateway.commands.merchant_check.bench import Bench
from gateway.commands.merchant_check.judging import NOT_EXECUTED, Convicted, must_agree, must_be_done

TWINS: Final = 8
PIECES: Final = 6
CUTS: Final = (
    ("a request cut in its head", 0.0, 0.5),
    ("a request cut before its body", 0.0, 1.0),
    ("a request with half its body", 0.5, 1.0),
)
"""What is left of it: shares of the body and of the head."""


async def honest(bench: Bench) -> None:
    said = await bench.send("the call", bench.write.call())
    if said.status in (401, 403):
        raise Convicted(f"a good signature was refused (is it the right secret?): {said.said}")
    must_be_done(said)
    await bench.must_have_done(1)


async def apart(bench: Bench) -> None:
    for each in await asyncio.gather(*(bench.send(f"customer {n}'s call", bench.write.call()) for n in (1, 2))):
        must_be_done(each)
    await bench.must_have_done(2)


async def twice(bench: Bench) -> None:
    call = bench.write.call()
    answers = [await bench.send("the first", call)]
    answers += [await bench.send(what, bench.write.again(call)) for what in ("the second", "the third")]
    must_agree(answers)
    await bench.must_have_done(1)


async def twins(bench: Bench) -> None:
    call = bench.write.call()
    crowd = await asyncio.gather(*(bench.send(f"twin {n + 1}", bench.write.again(call)) for n in range(TWINS)))
    # Busy, before the work began, is a right answer, and the call comes again.
    put_off = [each for each in crowd if each.status in NOT_EXECUTED]
    last = await bench.send("one more, afterwards", bench.write.again(call))
    must_agree([*(each for each in crowd if each not in put_off), last])
    if put_off:
        bench.remark(
            f"{len(put_off)} of {TWINS} were put off with {put_off[0].status}; waiting spares the customer that"
        )
    await bench.must_have_done(1)


async def lost_reply(bench: Bench) -> None:
    call = bench.write.call()
    await bench.link.lose("the first", call)
    must_agree([await bench.send(what, bench.write.again(call)) for what in ("the repeat", "one more")])
    await bench.must_have_done(1)


async def hang_up(bench: Bench) -> None:
    call = bench.write.call()
    await bench.link.drop("the first", call)
    must_agree([await bench.send(what, bench.write.again(call)) for what in ("the repeat", "one more")])
    await bench.must_have_done(1)


async def cut(bench: Bench) -> None:
    call = bench.write.call(padded=True)
    for what, share, head_share in CUTS:
        await bench.link.drop(what, call, share=share, head_share=head_share)
    await bench.must_have_done_nothing_by_now()
    whole = await bench.send("the whole request", bench.write.again(call))
    must_be_done(whole)
    if whole.headers.get("idempotent-replayed") == "true":
        raise Convicted("the whole request was answered as a repeat: half of it was taken for a call")
    await bench.must_have_done(1)


async def slow(bench: Bench) -> None:
    call = bench.write.call()

    async def trickle() -> AsyncIterator[bytes]:
        size = len(call.body) // PIECES + 1
        for start in range(0, len(call.body), size):
            if start:
                await bench.settle()
            yield call.body[start : start + size]

    trickled = await bench.link.post("the slow one", call, gate=trickle)
    must_agree([trickled, await bench.send("the repeat", bench.write.again(call))])
    await bench.must_have_done(1)


async def reordered(bench: Bench) -> None:
    call = bench.write.call()
    go_on = asyncio.Event()

    async def halting() -> AsyncIterator[bytes]:
        half = len(call.body) // 2
        yield call.body[:half]
        await go_on.wait()
        yield call.body[half:]

    first = asyncio.create_task(bench.link.post("the one on its way", call, gate=halting))
    second = asyncio.create_task(bench.send("the one that overtakes", bench.write.again(call)))
    # A server of one thread cannot be overtaken; it gets the rest of the first then.
    await asyncio.wait([second], timeout=min(1.0, bench.target.timeout_s / 2))
    go_on.set()
    must_agree(list(await asyncio.gather(second, first)))
    await bench.must_have_done(1)
