"""Commands: batching, what an error means, and that nothing is sent twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import ResponseError

from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands, LedgerUnreachable, ScriptMissing
from gateway.adapters.redis_errors import ErrorReply
from gateway.adapters.redis_urls import LedgerUrl

REFUSALS = [
    "LOADING Redis is loading the dataset in memory",
    "READONLY You can't write against a read only replica.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "MOVED 3999 127.0.0.1:6381",
    "ASK 3999 127.0.0.1:6381",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Errors writing to the AOF file: No space left on device",
    "NOREPLICAS Not enough good replicas to write.",
    "BUSY Redis is busy running a script.",
    "NOAUTH Authentication required.",
    "NOPERM this user has no permissions to run the 'set' command",
    "ERR max number of clients reached",
    "ERR Error running script (call to f_0): @user_script:3: @user_script: 3: -OOM command not allowed",
    "ERR Error running script (call to f_0): @user_script:3: -READONLY You can't write",
]


async def test_commands_of_one_tick_are_read_by_the_server_at_once(commands: Commands) -> None:
    """A hundred concurrent commands cost one read of the socket, as the server itself counts."""

    async def reads() -> int:
        lines = (await commands.do("INFO", "stats")).decode().splitlines()
        return int(next(line.partition(":")[2] for line in lines if line.startswith("total_reads_processed")))

    before = await reads()
    await asyncio.gather(*(commands.do("SET", f"k{n}", n) for n in range(100)))
    assert await reads() - before == 2  # the hundred, and the question


async def test_every_caller_gets_its_own_reply(commands: Commands) -> None:
    replies = await asyncio.gather(*(commands.do("ECHO", f"word {n}") for n in range(1000)))
    assert replies == [b"word %d" % n for n in range(1000)]


async def test_replies_keep_their_kinds(commands: Commands) -> None:
    """Bytes, integers, lists and nil, with nothing decoded."""
    assert await commands.do("SET", "k", b"\xff\x00") == b"OK"
    assert await commands.do("GET", "k") == b"\xff\x00"
    assert await commands.do("INCR", "n") == 1
    assert await commands.do("MGET", "k", "absent") == [b"\xff\x00", None]
    assert await commands.do("GET", "absent") is None


@pytest.mark.parametrize("text", REFUSALS, ids=lambda text: text.split()[0])
async def test_k4_11_a_server_that_cannot_serve_is_unreachable_and_never_reads_as_no_record(
    stub: Any, to_stub: Any, text: str
) -> None:
    """K4-11, 4.11: each such reply raises LedgerUnreachable, says that nothing ran, and keeps its cause."""
    stub.answer = lambda command: b"-" + text.encode() + b"\r\n"
    with pytest.raises(LedgerUnreachable) as caught:
        await to_stub().do("GET", "record")
    assert caught.value.__cause__ is not None
    assert len(stub.seen) == 1


BROKEN_OFF = [
    "ERR Unknown Redis command called from script script: 9f16, on @user_script:134.",
    "ERR The user executing the script can't run this command or subcommand script: 9f16, on @user_script:134.",
    "NOPERM ACL failure in script: User gateway has no permissions to run the 'persist' command script: 9f16, "
    "on @user_script:134.",
    "WRONGTYPE Operation against a key holding the wrong kind of value script: 9f16, on @user_script:118.",
]


@pytest.mark.parametrize("text", BROKEN_OFF, ids=lambda text: text[:28])
async def test_p4_11_a_script_that_breaks_off_may_have_written_by_then(
    stub: Any, to_stub: Any, caplog: Any, text: str
) -> None:
    """4.11: what it wrote before stands, so a claim has to be taken back."""
    stub.answer = lambda command: b"-" + text.encode() + b"\r\n"
    with pytest.raises(LedgerUnreachable) as caught:
        await to_stub().do("EVALSHA", "9f16", 0)
    assert caught.value.may_have_run
    assert "a script broke off" in caplog.text


async def test_p4_11_a_script_that_breaks_off_on_a_real_server_has_written(commands: Commands) -> None:
    """4.11: as Redis words it."""
    script = "redis.call('SET', KEYS[1], 'claimed'); redis.call('NOSUCH', KEYS[1])"
    with pytest.raises(LedgerUnreachable) as caught:
        await commands.do("EVAL", script, 1, "k")
    assert caught.value.may_have_run
    assert await commands.do("GET", "k") == b"claimed"


async def test_k4_11_service_resumes_when_loading_ends(stub: Any, to_stub: Any) -> None:
    """K4-11: a LOADING server is refused at once, and asked anew by the next command."""
    stub.answer = lambda command: b"-LOADING Redis is loading the dataset in memory\r\n"
    front = to_stub()
    with pytest.raises(LedgerUnreachable) as caught:
        await front.do("GET", "record")
    assert isinstance(caught.value.__cause__, ErrorReply)
    assert caught.value.__cause__.code == "LOADING"
    assert not caught.value.may_have_run
    stub.answer = lambda command: b"$1\r\nv\r\n"
    assert await front.do("GET", "record") == b"v"


async def test_a_demoted_master_is_hung_up_on(stub: Any, to_stub: Any) -> None:
    """After READONLY the next command connects anew, since the address may lead elsewhere by then."""
    stub.answer = lambda command: b"-READONLY You can't write against a read only replica.\r\n"
    front = to_stub(connections=1)
    for _ in range(2):
        with pytest.raises(LedgerUnreachable):
            await front.do("SET", "k", "v")
    assert stub.connections == 2


async def test_k4_12_a_full_redis_refuses_writes_and_still_reads(commands: Commands) -> None:
    """K4-12: OOM is LedgerUnreachable, from a plain command and from inside a script, and nothing ran."""
    await commands.do("SET", "k", "v")
    await commands.do("CONFIG", "SET", "maxmemory", "1")
    for write in (("SET", "k", "w"), ("EVAL", "return redis.call('SET', KEYS[1], 'w')", 1, "k")):
        with pytest.raises(LedgerUnreachable) as caught:
            await commands.do(*write)
        assert not caught.value.may_have_run
    assert await commands.do("GET", "k") == b"v"


async def test_a_wrong_command_is_a_bug_and_fails_alone(commands: Commands) -> None:
    await commands.do("SET", "text", "v")
    results = await asyncio.gather(
        commands.do("GET", "text"), commands.do("LPUSH", "text", 1), commands.do("GET", "text"), return_exceptions=True
    )
    assert results[0] == results[2] == b"v"
    assert isinstance(results[1], ResponseError)


async def test_k4_12_an_error_inside_a_list_is_not_a_field(commands: Commands) -> None:
    """K4-12: a script that hands an error on inside a table fails the command, however deep it lies."""
    with pytest.raises(LedgerUnreachable):
        await commands.do("EVAL", "return {1, {'a', redis.error_reply('OOM full')}}", 0)
    assert await commands.do("EVAL", "return {1, {'a'}}", 0) == [1, [b"a"]]


async def test_an_argument_that_cannot_be_sent_fails_alone(commands: Commands) -> None:
    good, bad = await asyncio.gather(
        commands.do("ECHO", "x"),
        commands.do("SET", "k", None),  # type: ignore[arg-type]
        return_exceptions=True,
    )
    assert good == b"x"
    assert isinstance(bad, TypeError)


async def test_k4_09_an_unknown_script_is_told_apart(commands: Commands) -> None:
    """K4-09: NOSCRIPT is neither an outage nor an empty answer."""
    with pytest.raises(ScriptMissing):
        await commands.do("EVALSHA", "0" * 40, 0)


async def test_a_refused_connection_is_unreachable_and_nothing_was_sent(tmp_path: Any) -> None:
    client = open_client(LedgerUrl.for_socket(tmp_path / "nobody"))
    front = Commands(client)
    with pytest.raises(LedgerUnreachable) as caught:
        await front.do("GET", "k")
    assert not caught.value.may_have_run
    assert caught.value.__cause__ is not None
    await front.close()


async def test_p5_2_a_command_without_an_answer_may_have_run_and_is_not_sent_again(
    stub: Any, to_stub: Any, eventually: Any, time_is_up: Any
) -> None:
    """5.2: no library retries; the bytes left once, and the caller learns that they may count."""
    stub.answer = lambda command: None
    front = to_stub(command_timeout_s=60)
    asking = asyncio.ensure_future(front.do("SET", "k", "v"))
    await eventually(lambda: stub.seen)
    time_is_up(front)
    with pytest.raises(LedgerUnreachable) as caught:
        await asking
    assert caught.value.may_have_run
    assert stub.seen == [[b"SET", b"k", b"v"]]


async def test_a_connection_lost_in_mid_batch_fails_only_what_was_not_answered(stub: Any, to_stub: Any) -> None:
    stub.hang_up_after = b"second"
    first, second, third = await asyncio.gather(
        *map(to_stub().do, ("first", "second", "third")), return_exceptions=True
    )
    assert first == second == b"OK"
    assert isinstance(third, LedgerUnreachable)
    assert third.may_have_run
    assert stub.connections == 1


async def test_a_command_is_given_up_when_its_time_is_over(stub: Any, to_stub: Any) -> None:
    """By itself; whether it had left by then is not looked at."""
    stub.answer = lambda command: None
    with pytest.raises(LedgerUnreachable):
        await to_stub(command_timeout_s=0.05).do("SET", "k", "v")


async def test_a_late_reply_never_answers_another_command(
    stub: Any, to_stub: Any, eventually: Any, time_is_up: Any
) -> None:
    """After a timeout the connection is dropped, so its late reply cannot be taken for the next one's."""
    stub.answer = lambda command: None if command[0] == b"SLOW" else b"+" + command[0] + b"\r\n"
    front = to_stub(connections=1, command_timeout_s=60)
    slow = asyncio.ensure_future(front.do("SLOW"))
    await eventually(lambda: stub.seen)
    time_is_up(front)
    with pytest.raises(LedgerUnreachable):
        await slow
    stub.push(b"+LATE\r\n")
    assert await front.do("NEXT") == b"NEXT"


async def test_bytes_that_nobody_asked_for_end_a_connection(stub: Any, to_stub: Any) -> None:
    stub.answer = lambda command: b"+" + command[0] + b"\r\n"
    front = to_stub(connections=1)
    await front.do("FIRST")
    stub.push(b"+UNASKED\r\n")
    assert await front.do("SECOND") == b"SECOND"
    assert stub.connections == 2


async def test_a_restart_between_two_commands_costs_no_error(ledger: Any, commands: Commands) -> None:
    """The hang-up is noticed before anything is written, and data written before it is there."""
    await commands.do("SET", "k", "v")
    await ledger.stop()
    await ledger.start()
    assert await commands.do("GET", "k") == b"v"


async def test_a_reset_connection_is_replaced_before_anything_is_written(stub: Any, to_stub: Any) -> None:
    front = to_stub(connections=1)
    await front.do("FIRST")
    front._lanes[0]._link.connection_lost(ConnectionResetError())  # what the loop says of an idle reset
    await front.do("SECOND")
    assert stub.seen == [[b"FIRST"], [b"SECOND"]]
    assert stub.connections == 2


async def test_an_outage_fails_every_command_until_it_ends(ledger: Any, commands: Commands) -> None:
    await commands.do("SET", "k", "v")
    await ledger.stop()
    for _ in range(3):
        with pytest.raises(LedgerUnreachable) as caught:
            await commands.do("GET", "k")
        assert not caught.value.may_have_run
    await ledger.start()
    assert await commands.do("GET", "k") == b"v"


async def test_a_caller_that_gives_up_before_sending_sends_nothing(stub: Any, to_stub: Any) -> None:
    front = to_stub()
    quitter = asyncio.ensure_future(front.do("CLAIM"))
    other = asyncio.ensure_future(front.do("OTHER"))
    asyncio.get_running_loop().call_soon(quitter.cancel)
    assert await other == b"OK"
    assert quitter.cancelled()
    assert stub.seen == [[b"OTHER"]]


async def test_a_caller_that_gives_up_later_disturbs_nobody(stub: Any, to_stub: Any, eventually: Any) -> None:
    """Its reply is read and dropped; the others of its batch, and the connection, go on."""
    stub.answer = lambda command: None
    front = to_stub(connections=1)
    tasks = [asyncio.ensure_future(front.do(name)) for name in ("A", "B", "C")]
    await eventually(lambda: len(stub.seen) == 3)
    tasks[1].cancel()
    stub.push(b"+a\r\n+b\r\n+c\r\n")
    assert await tasks[0] == b"a"
    assert await tasks[2] == b"c"
    assert tasks[1].cancelled()
    stub.answer = lambda command: b"+d\r\n"
    assert await front.do("D") == b"d"
    assert stub.connections == 1


async def test_waiting_for_a_connection_is_bounded_and_sends_nothing(
    stub: Any, to_stub: Any, eventually: Any, time_is_up: Any
) -> None:
    """What waited longer than the command time-out behind a stuck connection is refused unsent."""
    stub.answer = lambda command: None if command[0] == b"STUCK" else b"+OK\r\n"
    front = to_stub(connections=1, command_timeout_s=60)
    stuck = asyncio.ensure_future(front.do("STUCK"))
    await eventually(lambda: stub.seen == [[b"STUCK"]])
    front._lanes[0]._link.pause_writing()  # what the loop says when the server takes no more bytes
    late = asyncio.ensure_future(front.do("LATE"))
    await asyncio.sleep(0)
    front._lanes[0]._waiting[0].since -= 61
    time_is_up(front)
    with pytest.raises(LedgerUnreachable):
        await stuck
    with pytest.raises(LedgerUnreachable, match="free in time") as caught:
        await late
    assert not caught.value.may_have_run
    assert stub.seen == [[b"STUCK"]]


async def test_no_more_connections_than_asked_for(stub: Any, to_stub: Any) -> None:
    front = to_stub(connections=3)
    await asyncio.gather(*(front.do("PING", n) for n in range(2000)))
    assert len(stub.seen) == 2000
    assert stub.connections == 1
    await asyncio.gather(*(front.do_together(("PING", n), ("WAIT", 1, 0)) for n in range(100)))
    assert stub.connections == 3


async def test_p4_14_what_waits_for_replicas_holds_up_nothing_else(stub: Any, to_stub: Any) -> None:
    """4.14: WAIT blocks its connection, so it never has the one that the other commands use."""
    stub.answer = lambda command: None if command[0] == b"WAIT" else b"+OK\r\n"
    front = to_stub(connections=2)
    claim = asyncio.ensure_future(front.do_together(("CLAIM",), ("WAIT", 1, 0)))
    await asyncio.sleep(0)
    assert await front.do("OTHER") == b"OK"
    assert not claim.done()
    stub.break_connections()
    with pytest.raises(LedgerUnreachable) as caught:
        await claim
    assert caught.value.may_have_run


async def test_p4_14_commands_sent_together_share_a_connection_in_order(commands: Commands) -> None:
    """4.14: WAIT answers for the writes of its own connection only."""
    assert await commands.do_together(("SET", "k", "v"), ("GET", "k"), ("WAIT", 0, 10)) == [b"OK", b"v", 0]


async def test_an_error_among_commands_sent_together_is_raised(commands: Commands) -> None:
    with pytest.raises(ScriptMissing):
        await commands.do_together(("EVALSHA", "0" * 40, 0), ("WAIT", 0, 10))
    assert await commands.do("ECHO", "in step") == b"in step"


async def test_closing_lets_what_was_sent_finish_and_refuses_the_rest(stub: Any, to_stub: Any, eventually: Any) -> None:
    stub.answer = lambda command: None
    front = to_stub(connections=1)
    sent = asyncio.ensure_future(front.do("SENT"))
    await eventually(lambda: stub.seen == [[b"SENT"]])
    waiting = asyncio.ensure_future(front.do("WAITING"))
    closing = asyncio.ensure_future(front.close())
    with pytest.raises(LedgerUnreachable) as caught:
        await waiting
    assert not caught.value.may_have_run
    stub.push(b"+done\r\n")
    assert await sent == b"done"
    await closing
    await eventually(lambda: stub.open_connections == 0)
    with pytest.raises(LedgerUnreachable):
        await front.do("AFTER")
    assert stub.seen == [[b"SENT"]]


async def test_a_wrong_password_is_unreachable_and_stays_unsaid(ledger: Any, commands: Commands) -> None:
    await commands.do("CONFIG", "SET", "requirepass", "correct-horse")
    client = open_client(LedgerUrl(kind="unix", path=ledger.socket, password="wrong-battery"))
    front = Commands(client)
    with pytest.raises(LedgerUnreachable) as caught:
        await front.do("GET", "k")
    assert not caught.value.may_have_run
    assert "battery" not in f"{caught.value!r}{caught.value.__cause__!r}"
    await front.close()
    await client.aclose()
