"""`Request-Id` and `traceparent`: what ties the log lines of several systems together."""

from __future__ import annotations

from typing import Any

import pytest

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("sent", ["r-1", "a" * 128, "!~", "018f-uuid"])
async def test_a_sane_request_id_is_echoed_and_passed_on(gateway: Any, sent: str) -> None:
    """The caller's own id goes to the merchant and comes back, in headers and problems."""
    answer = await gateway.call(headers=[("Request-Id", sent)])
    refused = await gateway.call(headers=[("Request-Id", sent)], tool="no_such")
    assert answer.headers["request-id"] == sent
    assert refused.problem["request_id"] == sent
    assert [trace.request_id for trace in gateway.calls.traces] == [sent, sent]


@pytest.mark.parametrize(
    "headers",
    [
        [("request-id", "")],
        [("request-id", "a" * 129)],
        [("request-id", "a b")],
        [("request-id", b"caf\xe9")],
        [("request-id", b"a\x00b")],
        [("request-id", "x" * 1_000_000)],
        [("request-id", "a"), ("request-id", "a")],
        [],
    ],
)
async def test_any_other_request_id_is_replaced(gateway: Any, headers: Any, caplog: Any) -> None:
    """9.4: bounded and printable, so that it may stand in logs and headers."""
    with caplog.at_level("INFO", logger="gateway"):
        answer = await gateway.call(headers=headers, tool="no_such")
    made = answer.headers["request-id"]
    assert len(made) == 32
    assert made in caplog.text
    assert int(made, 16) > 0


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (TRACE, True),
        ("cc" + TRACE[2:], True),
        ("cc" + TRACE[2:] + "-what-comes", True),
        (TRACE + "-more", False),
        ("ff" + TRACE[2:], False),
        (TRACE.upper(), False),
        (TRACE[:-1], False),
        (TRACE.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32), False),
        (TRACE.replace("00f067aa0ba902b7", "0" * 16), False),
        ("", False),
        (b"\xff" * 55, False),
        ("cc" + TRACE[2:] + "-" + "x" * 1_000, False),
    ],
)
async def test_a_traceparent_is_passed_on_only_if_it_is_one(gateway: Any, sent: Any, kept: bool) -> None:
    """W3C Trace Context, 3.2: an invalid one is ignored, and the request is served."""
    answer = await gateway.call(headers=[("traceparent", sent)])
    assert answer.status == 200
    assert gateway.calls.traces[0].traceparent == (sent if kept else None)


@pytest.mark.parametrize("around", [("", " "), (" ", ""), ("\t", " \t"), ("  ", "  ")])
async def test_p9_4_white_space_around_a_header_is_not_of_its_value(
    gateway: Any, around: tuple[str, str], caplog: Any
) -> None:
    """9.4; RFC 9110, 5.5: every header that is read, for some servers hand it on as it came."""
    before, behind = around
    said = {
        "authorization": "Bearer k-runtime",
        "content-type": 'application/json;\tcharset="utf-8"',
        "request-id": "r-1",
        "traceparent": TRACE,
    }
    headers = [(name, before + value + behind) for name, value in said.items()]
    answer = await gateway.call(key=None, headers=headers)
    assert (answer.status, answer.headers["request-id"]) == (200, "r-1")
    assert gateway.calls.traces[0].traceparent == TRACE
