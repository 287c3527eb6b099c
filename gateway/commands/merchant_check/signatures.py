"""Requests that only a stranger sends: each refused, and nothing done of it."""

from __future__ import annotations

from typing import Final

from gateway.commands.merchant_check.bench import Bench
from gateway.commands.merchant_check.judging import must_be_done, must_be_refused
from gateway.commands.merchant_check.wire import Sealed, altered

MINUTES_6: Final = 360
SIGNATURE: Final = "webhook-signature"
TIMESTAMP: Final = "webhook-timestamp"
ODD: Final = ("", "v1,", "v1,é", "v1=ÿ", "v2,AAAA", "v1,!!!!", "v1," + "A" * 3_000)


async def _refused(bench: Bench, what: str, *sent: Sealed) -> None:
    for each in sent:
        bench.remark(must_be_refused(await bench.send(what, each)))
    await bench.must_have_done_nothing_by_now()


async def rotation(bench: Bench) -> None:
    call = bench.write.call()
    false = bench.write.seal(call.key, call.body, forged=True).header(SIGNATURE)
    said = await bench.send("a call signed twice", call.with_header(SIGNATURE, f"{false} {call.header(SIGNATURE)}"))
    must_be_done(said)
    await bench.must_have_done(1)


async def stale(bench: Bench) -> None:
    call = bench.write.call()
    old = bench.write.again(call, age_s=MINUTES_6)
    redated = old.with_header(TIMESTAMP, call.header(TIMESTAMP))
    await _refused(bench, "a call of six minutes ago", old, redated)


async def ahead(bench: Bench) -> None:
    await _refused(bench, "a call of six minutes ahead", bench.write.again(bench.write.call(), age_s=-MINUTES_6))


async def forged(bench: Bench) -> None:
    call = bench.write.call()
    await _refused(bench, "a forged call", bench.write.seal(call.key, call.body, forged=True))


async def unsigned(bench: Bench) -> None:
    call = bench.write.call()
    names = [name for name, _ in call.headers if name.startswith("webhook-")]
    await _refused(bench, "an unsigned call", *(call.without(name) for name in names), call.without(*names))


async def altered_body(bench: Bench) -> None:
    call = bench.write.call()
    await _refused(bench, "an altered call", altered(call))
    must_be_done(await bench.send("the call itself", call))
    bench.remark(must_be_refused(await bench.send("an altered copy of it", altered(call))))
    await bench.must_have_done(1)


async def odd_signature(bench: Bench) -> None:
    call = bench.write.call()
    await _refused(bench, "an odd signature", *(call.with_header(SIGNATURE, odd) for odd in ODD))


async def borrowed_key(bench: Bench) -> None:
    call = bench.write.call()
    await _refused(
        bench, "a call under another key", call.with_header("Idempotency-Key", f"check{bench.write.fresh()}")
    )
