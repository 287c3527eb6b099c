"""The blocking twin: the same client from plain threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.runtime import AsyncOncegate, Call, Oncegate, Problem


async def in_a_thread(work, *args):
    return await asyncio.to_thread(work, *args)


async def test_every_method_works_from_a_plain_thread(played, key):
    """2.1: the twin resends and replays as the async client does, because it is that client."""
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    def work():
        with Oncegate(played.url, key, sleep=sleep) as gateway:
            played.faults.append("drop_after")
            answer = gateway.call("acme", "c", "place_order", {"sku": "A"}, tool_call_id="a")
            entries = gateway.batch([Call("acme", "c", "get_order", {}, "b")])
            rows = gateway.lookup("acme", "c", "a")
            with pytest.raises(Problem, match="unknown_tool"):
                gateway.call("acme", "c", "fly", {}, tool_call_id="x")
            return answer, entries, rows, gateway.tools("acme"), gateway.events("acme", "c")

    answer, entries, rows, tools, events = await in_a_thread(work)
    assert (answer.replay.matched, len(slept)) == ("tool_call_id", 1)
    assert [len(part) for part in (entries, rows, tools, events)] == [1, 1, 3, 2]


async def test_threads_share_one_twin_and_run_side_by_side(played, key):
    """Two calls that wait for each other at the gateway both come back."""
    both = asyncio.Barrier(2)

    async def meet(_):
        await both.wait()

    played.before = meet

    def work():
        with Oncegate(played.url, key) as gateway, ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(gateway.call, "acme", "c", "place_order", {}, tool_call_id=id_) for id_ in "ab"]
            return [one.result().tool_call_id for one in calls]

    assert await in_a_thread(work) == ["a", "b"]


async def test_it_works_inside_a_running_loop_too(played, key):
    """Blocking there is the caller's choice; the private loop answers all the same."""

    async def inside():
        with Oncegate(played.url, key) as gateway:
            return gateway.call("acme", "c", "place_order", {}, tool_call_id="a").succeeded

    assert await in_a_thread(asyncio.run, inside())


async def test_closing_ends_the_thread_and_is_final(played, key):
    """No thread outlives its client; a second close does nothing; use after close is told."""

    def work():
        gateway = Oncegate(played.url, key)
        gateway.tools("acme")
        gateway.close()
        gateway.close()
        with pytest.raises(RuntimeError, match="closed"):
            gateway.tools("acme")
        return [thread.name for thread in threading.enumerate()]

    assert "oncegate-client" not in await in_a_thread(work)


async def test_waiting_on_its_own_thread_is_refused_instead_of_hanging(played, key):
    """A callback that runs on the private loop cannot wait for that loop."""
    seen = []

    def work():
        async def sleep(_):
            with pytest.raises(RuntimeError, match="own thread"):
                gateway.tools("acme")
            seen.append("refused")

        with Oncegate(played.url, key, sleep=sleep) as gateway:
            played.faults.extend([(503, {}, ""), None])
            return gateway.tools("acme")

    assert await in_a_thread(work)
    assert seen == ["refused"]


def test_the_twin_has_the_same_methods_and_shows_no_key(key):
    """No method is missing and none is written twice."""
    public = {name for name, _ in inspect.getmembers(AsyncOncegate, inspect.iscoroutinefunction) if name[0] != "_"}
    assert public <= set(dir(Oncegate))
    for name in public - {"close"}:
        assert inspect.signature(getattr(Oncegate, name)) == inspect.signature(getattr(AsyncOncegate, name))
    with Oncegate("http://127.0.0.1:1", key) as gateway:
        assert repr(gateway) == "Oncegate('http://127.0.0.1:1')"
    with pytest.raises(ValueError, match="own event loop"):
        Oncegate("http://127.0.0.1:1", key, session=object())
    with pytest.raises(ValueError, match="address"):
        Oncegate("nowhere", key)
