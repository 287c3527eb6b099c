"""What servers of a cluster may refuse a command with, scripted: it is sent again only where it did not run (4.11)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import hiredis
import pytest

from gateway.adapters.redis_clients import connector
from gateway.adapters.redis_cluster import PAUSES_S, ClusterCommands
from gateway.adapters.redis_errors import ErrorReply, LedgerUnreachable
from gateway.adapters.redis_ledger import RedisLedger
from gateway.adapters.redis_scripts import Script
from gateway.adapters.redis_slots import Redirection, key_slot, owners_said, redirection
from gateway.adapters.redis_urls import LedgerUrl
from gateway.core.conversation import Where
from gateway.core.errors import LedgerUnavailable

KEY = b"{og.001}k"
SLOT = key_slot(KEY)
HANG_UP = b""


class Stub:
    """A server of a cluster that says what the test says; `owner` is whom it calls the primary of all slots."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.replies: list[bytes] = []
        """To what is not about slots, in turn, the last one for good; HANG_UP closes the connection instead."""
        self.owner: Stub | None = self
        self.port = 0
        self.open = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}"

    def count(self, command: bytes) -> int:
        return self.seen.count(command)

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.open += 1
        parser = hiredis.Reader()
        try:
            while data := await reader.read(65_536):
                parser.feed(data)
                while command := parser.gets():
                    reply = self._reply(command)
                    if reply == HANG_UP:
                        return
                    writer.write(reply)
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            self._writers.discard(writer)
            writer.close()

    def _reply(self, command: list[bytes]) -> bytes:
        self.seen.append(command[0])
        if command[0] == b"CLUSTER":
            if self.owner is None:
                return b"-ERR This instance has cluster support disabled\r\n"
            return b"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$2\r\nid\r\n" % self.owner.port
        if command[0] == b"ASKING":
            return b"+OK\r\n"
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0] if self.replies else b"+OK\r\n"


NewStub = Callable[[], Awaitable[Stub]]
At = Callable[..., ClusterCommands]


@pytest.fixture
async def new_stub() -> AsyncIterator[NewStub]:
    async with AsyncExitStack() as stack:

        async def start() -> Stub:
            stub = Stub()
            await stub.start()
            stack.push_async_callback(stub.stop)
            return stub

        yield start


@pytest.fixture
async def at() -> AsyncIterator[At]:
    """A front that asks these stubs first; its pauses take no time."""
    async with AsyncExitStack() as stack:

        async def no_time(_: float) -> None:
            await asyncio.sleep(0)

        def front(*stubs: Stub, **options: float) -> ClusterCommands:
            nodes = [("127.0.0.1", stub.port) for stub in stubs]
            options = {"connect_timeout_s": 1.0, "command_timeout_s": 1.0} | options
            made = ClusterCommands(connector(LedgerUrl("cluster")), nodes, sleep=no_time, **options)  # type: ignore[arg-type]
            stack.push_async_callback(made.close)
            return made

        yield front


@pytest.mark.parametrize(
    "refusal",
    [
        b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
        b"-CLUSTERDOWN The cluster is down\r\n",
        b"-CLUSTERDOWN Hash slot not served\r\n",
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"-MASTERDOWN Link with MASTER is down\r\n",
        b"-READONLY You can't write against a read only replica.\r\n",
    ],
)
async def test_p4_11_what_did_not_run_is_sent_again_and_in_the_end_refused(
    new_stub: NewStub, at: At, refusal: bytes
) -> None:
    stub = await new_stub()
    stub.replies = [refusal, refusal, b"$1\r\nv\r\n"]
    front = at(stub)
    assert await front.do("GET", KEY) == b"v"
    stub.replies, stub.seen = [refusal], []
    with pytest.raises(LedgerUnreachable) as caught:
        await front.do("GET", KEY)
    assert not caught.value.may_have_run
    assert stub.count(b"GET") == len(PAUSES_S)


@pytest.mark.parametrize(
    "refusal",
    [
        b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        b"-NOREPLICAS Not enough good replicas to write.\r\n",
        b"-MISCONF Redis is configured to save RDB snapshots\r\n",
        b"-NOPERM this user has no permissions to run the 'evalsha' command\r\n",
    ],
)
async def test_p4_11_what_it_would_say_again_is_not_asked_again(new_stub: NewStub, at: At, refusal: bytes) -> None:
    stub = await new_stub()
    stub.replies = [refusal]
    with pytest.raises(LedgerUnreachable) as caught:
        await at(stub).do("SET", KEY, b"v")
    assert not caught.value.may_have_run
    assert stub.count(b"SET") == 1


@pytest.mark.parametrize(
    "broken_off",
    [
        b"-ERR Script attempted to access a non local key in a cluster node script: abc, on @user_script:12.\r\n",
        HANG_UP,
    ],
)
async def test_p4_11_what_may_have_run_is_not_sent_again(new_stub: NewStub, at: At, broken_off: bytes) -> None:
    """4.11: a script that was broken off may have written by then; so may one whose reply never came."""
    stub = await new_stub()
    stub.replies = [broken_off]
    with pytest.raises(LedgerUnreachable) as caught:
        await at(stub).do("EVALSHA", "abc", 1, KEY)
    assert caught.value.may_have_run
    assert stub.count(b"EVALSHA") == 1


async def test_p4_11_a_script_that_may_only_read_is_refused_before_its_first_write(new_stub: NewStub, at: At) -> None:
    """4.11: cluster-allow-reads-when-down lets a script in while the cluster is down."""
    stub = await new_stub()
    stub.replies = [
        b"-ERR Script attempted to execute a write command while the cluster is down and readonly "
        b"script: abc, on @user_script:12.\r\n"
    ]
    with pytest.raises(LedgerUnreachable) as caught:
        await at(stub).do("EVALSHA", "abc", 1, KEY)
    assert not caught.value.may_have_run


async def test_p4_11_no_refusal_reads_as_no_record(new_stub: NewStub, at: At) -> None:
    """4.11: whatever a server says instead of a record, the ledger is unavailable."""
    stub = await new_stub()
    where = Where(conversation=b"c" * 32, fingerprint=b"f" * 32, slots=(b"s",), effects=(), turn=None)
    for refusal in (b"-MOVED 1 127.0.0.1:1\r\n", b"-ASK 1 127.0.0.1:1\r\n", b"-CLUSTERDOWN x\r\n", b"-LOADING x\r\n"):
        stub.replies = [refusal]
        with pytest.raises(LedgerUnavailable):
            await RedisLedger(at(stub)).read(where)


async def test_p4_15_moved_is_followed_and_remembered(new_stub: NewStub, at: At) -> None:
    """4.15: the next command goes to the new server at once, though the old one still claims the slots."""
    old, new = await new_stub(), await new_stub()
    old.replies, new.replies = [b"-MOVED %d 127.0.0.1:%d\r\n" % (SLOT, new.port)], [b"$1\r\nv\r\n"]
    front = at(old)
    assert await asyncio.gather(*(front.do("GET", KEY) for _ in range(50))) == [b"v"] * 50
    assert await front.do("GET", KEY) == b"v"
    assert old.count(b"GET") == 50
    assert old.count(b"CLUSTER") + new.count(b"CLUSTER") <= 3, "50 redirections are one question"


async def test_p4_15_asking_goes_before_the_one_command_that_was_asked_for(new_stub: NewStub, at: At) -> None:
    old, new = await new_stub(), await new_stub()
    old.replies, new.replies = [b"-ASK %d 127.0.0.1:%d\r\n" % (SLOT, new.port)], [b"$1\r\nv\r\n"]
    front = at(old)
    assert [await front.do("GET", KEY) for _ in range(2)] == [b"v", b"v"]
    assert new.seen == [b"ASKING", b"GET"] * 2
    assert old.count(b"GET") == 2, "until it has moved, its owner is asked first"


async def test_k4_09_a_script_that_a_new_server_does_not_know_is_sent_whole(new_stub: NewStub, at: At) -> None:
    """K4-09: after a failover, too, no guard is left out."""
    old, new = await new_stub(), await new_stub()
    old.replies = [b"-MOVED %d 127.0.0.1:%d\r\n" % (SLOT, new.port)]
    new.replies = [b"-NOSCRIPT No matching script.\r\n", b":1\r\n"]
    assert await Script("one", "return 1").run(at(old), [KEY], []) == 1
    assert new.seen.count(b"EVALSHA") == new.seen.count(b"EVAL") == 1
    assert hashlib.sha1(b"return 1", usedforsecurity=False).hexdigest() == Script("one", "return 1").sha


async def test_p4_11_moved_to_a_server_that_is_not_there_ends_as_unreachable(new_stub: NewStub, at: At) -> None:
    stub, gone = await new_stub(), Stub()
    await gone.start()
    await gone.stop()
    stub.replies = [b"-MOVED %d 127.0.0.1:%d\r\n" % (SLOT, gone.port)]
    front = at(stub)
    with pytest.raises(LedgerUnreachable) as caught:
        await front.do("GET", KEY)
    assert not caught.value.may_have_run
    stub.replies = [b"$1\r\nv\r\n"]
    assert await front.do("GET", KEY) == b"v", "and is forgotten, once the others say who has it"


async def test_p4_15_a_server_that_died_is_replaced_by_the_one_that_the_others_name(new_stub: NewStub, at: At) -> None:
    dead, heir, witness = await new_stub(), await new_stub(), await new_stub()
    witness.owner, heir.replies, dead.replies = dead, [b"$3\r\nnew\r\n"], [b"$3\r\nold\r\n"]
    front = at(witness)
    assert await front.do("GET", KEY) == b"old"
    await dead.stop()
    witness.owner = heir
    with suppress(LedgerUnreachable):  # the hang-up may be noticed only by writing
        await front.do("GET", KEY)
    assert await front.do("GET", KEY) == b"new"
    assert [primary.name for primary in await front.primaries()] == [heir.name]


async def test_p4_15_no_connection_is_kept_to_a_server_that_has_no_slots(
    new_stub: NewStub, at: At, eventually: Callable[[Callable[[], bool]], Awaitable[None]]
) -> None:
    first, second = await new_stub(), await new_stub()
    second.owner = second
    first.owner = second
    front = at(first)
    await front.do("GET", KEY)
    assert second.open == 1
    second.owner = first.owner = first
    await front.primaries()
    await front.do("GET", KEY)
    await eventually(lambda: second.open == 0)


async def test_p4_15_the_wait_behind_a_claim_goes_where_the_claim_goes(new_stub: NewStub, at: At) -> None:
    """4.14: WAIT answers for its own connection; a refusal of the claim is known not to have run, for all that its
    WAIT was answered."""
    old, new = await new_stub(), await new_stub()
    old.replies = [b"-MOVED %d 127.0.0.1:%d\r\n" % (SLOT, new.port), b":1\r\n"]
    new.replies = [b"+OK\r\n", b":1\r\n"]
    assert await at(old).do_together(("SET", KEY, b"v"), ("WAIT", 1, 10)) == [b"OK", 1]
    assert new.seen[:2] == [b"SET", b"WAIT"]


async def test_p4_14_a_wait_that_is_refused_says_nothing_about_the_claim_before_it(new_stub: NewStub, at: At) -> None:
    stub = await new_stub()
    stub.replies = [b"+OK\r\n", b"-LOADING Redis is loading the dataset in memory\r\n"]
    with pytest.raises(LedgerUnreachable) as caught:
        await at(stub).do_together(("SET", KEY, b"v"), ("WAIT", 1, 10))
    assert caught.value.may_have_run
    assert stub.count(b"SET") == 1


async def test_p4_11_servers_that_are_no_cluster_are_unreachable(new_stub: NewStub, at: At) -> None:
    stub = await new_stub()
    stub.owner = None
    with pytest.raises(LedgerUnreachable, match="who has which slots") as caught:
        await at(stub).do("GET", KEY)
    assert not caught.value.may_have_run
    assert stub.count(b"GET") == 0


async def test_closing_ends_what_is_being_asked_and_refuses_the_rest(new_stub: NewStub, at: At) -> None:
    stub = await new_stub()
    front = at(stub)
    asked = [asyncio.ensure_future(front.do("GET", KEY)) for _ in range(3)]
    await asyncio.sleep(0)
    await front.close()
    for each in (*asked, front.do("GET", KEY)):
        with pytest.raises(LedgerUnreachable, match="closed") as caught:
            await each
        assert not caught.value.may_have_run
    await front.close()
    assert stub.open == 0


async def test_a_caller_that_gives_up_leaves_the_question_to_the_others(new_stub: NewStub, at: At) -> None:
    stub = await new_stub()
    stub.replies = [b"$1\r\nv\r\n"]
    front = at(stub)
    first, second = (asyncio.ensure_future(front.do("GET", KEY)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == b"v"
    assert first.cancelled()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("MOVED 1 10.0.0.7:6381", Redirection("MOVED", "10.0.0.7:6381")),
        ("ASK 1 redis-3.shop.example:6379", Redirection("ASK", "redis-3.shop.example:6379")),
        ("MOVED 1 fd00::7:6381", Redirection("MOVED", "fd00::7:6381")),
        ("MOVED 1 :6381", Redirection("MOVED", "told.example:6381")),
        ("MOVED 1 ?:6381", None),
        ("MOVED 1 10.0.0.7", None),
        ("MOVED 1", None),
        ("TRYAGAIN Multiple keys", None),
    ],
)
def test_redirections_are_read_as_servers_write_them(said: str, expected: Redirection | None) -> None:
    assert redirection(ErrorReply(said), "told.example:6379") == expected


def test_slots_are_read_as_servers_of_all_versions_write_them() -> None:
    reply = [
        [0, 1, [b"10.0.0.1", 6379, b"id-1"], [b"10.0.0.9", 6379, b"id-9"]],
        [2, 2, [b"", 6380, b"id-2", []]],
        [3, 3, [None, 6381, b"id-3", []]],
        [4, 4, [b"?", 6382, b"id-4", [b"ip", b"10.0.0.4"]]],
        [5, 5, [b"?", 6383, b"id-5", []]],
    ]
    assert owners_said(reply, "told:1") == {
        0: "10.0.0.1:6379",
        1: "10.0.0.1:6379",
        2: "told:6380",
        3: "told:6381",
        4: "10.0.0.4:6382",
    }
    for wrong in (b"OK", [[1]], [[0, 1, 2]], [[0, 1, [b"h"]]], 7):
        with pytest.raises(ValueError):
            owners_said(wrong, "told:1")
