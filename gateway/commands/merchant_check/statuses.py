"""The status endpoint: what it says binds the merchant (5.4)."""

from __future__ import annotations

from gateway.commands.merchant_check.bench import Bench
from gateway.commands.merchant_check.exchange import Exchange
from gateway.commands.merchant_check.judging import Convicted, must_be_done, must_be_no, must_be_refused


async def committed(bench: Bench) -> None:
    call = bench.write.call()
    first = await bench.send("the call", call)
    must_be_done(first)
    said = await bench.send("its status", bench.write.question(call.key))
    _must_say(said, "committed")
    if said.json.get("result") != first.json:
        raise Convicted(f"the status gives {said.said}, and the call was answered {first.said}")
    await bench.must_have_done(1)


async def void(bench: Bench) -> None:
    key = bench.write.call().key
    for what in ("the status of an unknown key", "its status again"):
        _must_say(await bench.send(what, bench.write.question(key)), "void")
    await bench.must_have_done(0)


async def late(bench: Bench) -> None:
    call = bench.write.call()
    _must_say(await bench.send("its status, before it came", bench.write.question(call.key)), "void")
    must_be_no(await bench.send("the call, late", bench.write.again(call)))
    await bench.must_have_done_nothing_by_now()
    _must_say(await bench.send("its status, after it came", bench.write.question(call.key)), "void")


async def unsigned(bench: Bench) -> None:
    call = bench.write.call()
    question = bench.write.question(call.key)
    false = bench.write.seal(question.key, question.body, forged=True)
    names = [name for name, _ in question.headers if name.startswith("webhook-")]
    forged = question.with_header("webhook-signature", false.header("webhook-signature"))
    for what, sent in (("a forged question", forged), ("an unsigned question", question.without(*names))):
        bench.remark(must_be_refused(await bench.send(what, sent)))
    must_be_done(await bench.send("the call asked about", bench.write.again(call)))
    await bench.must_have_done(1)


def _must_say(said: Exchange, word: str) -> None:
    if not said.done:
        raise Convicted(f"{said.what} was not told: {said.said}; is --status-url the address of its status endpoint?")
    must_be_done(said)
    told = said.json.get("status") if isinstance(said.json, dict) else None
    if told != word:
        raise Convicted(f"{said.what} has to be {word}: {said.said}")
