"""What a merchant has to say no to, though it is signed."""

from __future__ import annotations

from gateway.commands.merchant_check.bench import Bench
from gateway.commands.merchant_check.judging import Convicted, must_agree, must_be_done, must_be_no, must_conflict
from gateway.commands.merchant_check.wire import Sealed


async def other_cart(bench: Bench) -> None:
    call = bench.write.call()
    await _conflict(bench, call, bench.write.again(call, arguments=bench.target.other), "another cart")


async def other_customer(bench: Bench) -> None:
    call = bench.write.call()
    changed = bench.write.again(call, conversation=f"check-{bench.write.fresh()}")
    await _conflict(bench, call, changed, "another customer")


async def _conflict(bench: Bench, call: Sealed, changed: Sealed, whose: str) -> None:
    first = await bench.send("the first", call)
    must_be_done(first)
    bench.remark(must_conflict(await bench.send(f"{whose} under its key", changed), first, changed.body))
    must_agree([first, await bench.send("the first, again", bench.write.again(call))])
    await bench.must_have_done(1)


async def declined(bench: Bench) -> None:
    customer = f"check-{bench.write.fresh()}"
    call = bench.write.call(bench.target.declined, conversation=customer)
    first = await bench.send("the declined call", call)
    must_be_no(first)
    again = await bench.send("the declined call, again", bench.write.again(call))
    must_be_no(again)
    if (again.status, again.json) != (first.status, first.json):
        raise Convicted(f"the declined call was answered {again.said} the second time, and {first.said} the first")
    await bench.must_have_done(0)
    must_be_done(await bench.send("the customer's next call", bench.write.call(conversation=customer)))
    await bench.must_have_done(1)
