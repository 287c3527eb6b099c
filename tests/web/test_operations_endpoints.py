"""Liveness, readiness, and the way out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core.errors import LedgerUnavailable
from gateway.web.services import Limits


async def test_liveness_asks_nothing_of_anyone(gateway: Any) -> None:
    """A dead ledger must not make an orchestrator kill a process that is settling calls."""
    gateway.log.fault = LedgerUnavailable("down")
    assert (await gateway.get("/livez", key=None)).json() == {"status": "ok"}
    assert gateway.log.asked == 0


async def test_readiness_is_whether_a_claim_could_be_written(gateway: Any) -> None:
    """Ready, then not, then ready again, as the ledger is."""
    assert (await gateway.get("/readyz", key=None)).status == 200
    gateway.log.fault = LedgerUnavailable("READONLY: the ledger takes no writes")
    answer = await gateway.get("/readyz", key=None)
    assert (answer.status, answer.problem["code"]) == (503, "ledger_unavailable")
    assert "READONLY" in answer.problem["message"]
    assert answer.headers["retry-after"] == "1"
    gateway.log.fault = None
    assert (await gateway.get("/readyz", key=None)).status == 200


async def test_a_fault_that_is_no_ledgers_is_named_by_its_type_alone(gateway: Any) -> None:
    """9.2: anonymous probes learn nothing about the inside."""
    gateway.log.fault = OSError("10.0.0.5:6379 refused")
    answer = await gateway.get("/readyz", key=None)
    assert answer.status == 503
    assert "OSError" in answer.problem["message"]
    assert b"10.0.0.5" not in answer.body


async def test_a_ledger_that_does_not_answer_makes_not_ready_in_bounded_time(make_gateway: Any) -> None:
    """9.4: and anonymous probes share the one question that is open."""
    gateway = make_gateway(Limits(ready_s=0.01))
    gateway.log.hang = asyncio.Event()
    answers = await asyncio.gather(*(gateway.get("/readyz", key=None) for _ in range(20)))
    assert {answer.status for answer in answers} == {503}
    assert "0.01 s" in answers[0].problem["message"]
    assert gateway.log.asked == 1
    gateway.log.hang.set()
    await asyncio.sleep(0)
    assert (await gateway.get("/readyz", key=None)).status == 200


async def test_on_the_way_out_readiness_turns_first_and_calls_are_still_served(gateway: Any) -> None:
    """Graceful stop: readiness turns at once, without asking the ledger; calls and liveness go on."""
    gateway.stopping.begin()
    answer = await gateway.get("/readyz", key=None)
    assert (answer.status, answer.problem["code"]) == (503, "stopping")
    assert gateway.log.asked == 0
    assert (await gateway.call()).status == 200
    assert (await gateway.get("/livez", key=None)).status == 200


async def test_the_lifespan_opens_and_closes_what_the_services_stand_on(gateway: Any) -> None:
    """The application carries one; a server that runs it opens before the first request and closes after the last."""
    from contextlib import asynccontextmanager

    from gateway.web.app import create_app

    seen: list[str] = []

    @asynccontextmanager
    async def opened(app: Any) -> Any:
        seen.append("open")
        yield
        seen.append("closed")

    app = create_app(gateway.with_services().services, opened)
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def receive() -> Any:
        if len(messages) == 1:
            assert seen == ["open"]
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    assert seen == ["open", "closed"]
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize("body", [b"", b"{}", b" {} "])
async def test_open_paths_read_no_body(gateway: Any, body: bytes) -> None:
    """What is not wanted is not read."""

    async def receive() -> Any:
        raise AssertionError("the body was read")

    assert (await gateway.ask("GET", "/livez", key=None, receive=receive, body=body)).status == 200
