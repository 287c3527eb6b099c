"""Bodies that are too large, too deep, compressed, no JSON, or that never come."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

import pytest

from gateway.web.body import MOST_DISCARDED
from gateway.web.services import Limits

CALL = '{"company":"acme","conversation":"c","tool":"place_order","tool_call_id":"a","arguments":%s}'


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
async def test_k2_09_what_is_no_json_number_is_400_and_goes_nowhere(gateway: Any, number: str) -> None:
    """K2-09: nothing that is not JSON is forwarded, hashed or stored."""
    answer = await gateway.ask("POST", "/v1/calls", body=(CALL % f'{{"price": {number}}}').encode())
    assert (answer.status, answer.problem["code"]) == (400, "malformed")
    assert gateway.calls.asked == []
    assert gateway.merchant.hits == []


@pytest.mark.parametrize("text", [r"\ud83d", r"\udcb2", r"x\ud800y", r"\udc00\ud800"])
async def test_k2_15_half_a_surrogate_pair_is_400_before_any_record(gateway: Any, text: str) -> None:
    """K2-15: in the body, and inside arguments sent as text."""
    body = CALL % f'{{"note":"{text}"}}'
    inner = CALL % json.dumps(f'{{"note":"{text}"}}')
    for sent in (body, inner):
        answer = await gateway.ask("POST", "/v1/calls", body=sent.encode())
        assert (answer.status, answer.problem["code"]) == (400, "malformed")
    assert gateway.calls.records == {}


@pytest.mark.parametrize("levels", [65, 500, 5_000, 1_000_000])
async def test_k6_14_arguments_nested_too_deep_are_400(gateway: Any, levels: int) -> None:
    """K6-14: one documented limit, no crash, nothing stuck."""
    nested = '{"a":' + "[" * levels + "]" * levels + "}"
    answer = await gateway.ask("POST", "/v1/calls", body=(CALL % nested).encode())
    assert (answer.status, answer.problem["code"]) == (400, "malformed")
    assert gateway.calls.asked == []


@pytest.mark.parametrize("levels", [500, 5_000, 1_000_000])
async def test_k6_14_an_unclosed_tower_is_400(gateway: Any, levels: int) -> None:
    """K6-14: the same for text that never ends, anywhere in the body, and for batches."""
    for body in ("[" * levels, '{"calls":' + "[" * levels, CALL % ('{"a":' * min(levels, 500_000))):
        for path in ("/v1/calls", "/v1/calls/batch"):
            assert (await gateway.ask("POST", path, body=body.encode())).status == 400


async def test_arguments_may_use_all_of_their_sixty_four_levels(gateway: Any) -> None:
    """2.9: what holds them, a call's body or a batch's, takes none of their depth."""
    nested = '{"a":' + "[" * 63 + "]" * 63 + "}"
    one = await gateway.ask("POST", "/v1/calls", body=(CALL % nested).encode())
    batch = await gateway.ask("POST", "/v1/calls/batch", body=b'{"calls":[%s]}' % (CALL % nested).encode())
    assert one.status == 200
    assert batch.json()["answers"][0]["decision"] == "replay"


MALFORMED = [
    b"",
    b" ",
    b"{",
    b'{"company"',
    b"{'company': 1}",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b'{"company":"a","company":"b"}',
    (CALL % '{"a":1,"a":2}').encode(),
    (CALL % "{}").encode() + b"x",
    (CALL % '{"a":01}').encode(),
    (CALL % ('{"a":' + "9" * 1_001 + "}")).encode(),
    b"\x00" * 10,
]


@pytest.mark.parametrize("body", MALFORMED)
@pytest.mark.parametrize("path", ["/v1/calls", "/v1/calls/batch"])
async def test_malformed_json_is_400_and_the_service_is_not_asked(gateway: Any, path: str, body: bytes) -> None:
    """2.9, 9.4: never repaired; repeated keys count as malformed at any depth."""
    answer = await gateway.ask("POST", path, body=body)
    assert (answer.status, answer.problem["code"]) == (400, "malformed")
    assert answer.problem["outcome"] == "not_sent"
    assert gateway.calls.asked == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity", "gzip, gzip", "x"])
async def test_k6_13_a_compressed_body_is_415_and_not_unpacked(gateway: Any, encoding: str) -> None:
    """K6-13: a Content-Encoding is refused by its name, before the body is read."""
    packed = zlib.compress(b"0" * 1_000_000)

    async def receive() -> Any:
        raise AssertionError("the body was read")

    headers = [("content-encoding", encoding), ("content-length", str(len(packed)))]
    answer = await gateway.ask("POST", "/v1/calls", headers=headers, receive=receive)
    assert (answer.status, answer.problem["code"]) == (415, "encoding_refused")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=UTF-8", 200),
        ('application/json; charset="utf-8"', 200),
        ("application/json; charset=latin-1", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonx", 415),
        ("", 415),
        (b"\xff", 415),
    ],
)
async def test_only_json_is_taken(gateway: Any, kind: Any, status: int) -> None:
    """9.4: a browser's form cannot make a call, and a charset other than UTF-8 is not guessed at."""
    body = (CALL % "{}").encode()
    assert (await gateway.ask("POST", "/v1/calls", body=body, headers=[("content-type", kind)])).status == status


async def test_a_body_without_a_type_is_taken_for_json(gateway: Any) -> None:
    """Left out is not wrong."""
    answer = await gateway.ask("POST", "/v1/calls", chunks=[(CALL % "{}").encode()])
    assert answer.status == 200


async def test_two_content_types_are_none(gateway: Any) -> None:
    """9.4: what cannot be told is refused."""
    headers = [("content-type", "application/json"), ("content-type", "application/json")]
    answer = await gateway.ask("POST", "/v1/calls", body=(CALL % "{}").encode(), headers=headers)
    assert answer.status == 415


@pytest.fixture
async def small(make_gateway: Any) -> Any:
    made = make_gateway(Limits(body_bytes=200, batch_body_bytes=400))
    await made.register("place_order")
    return made


@pytest.mark.parametrize(("path", "limit"), [("/v1/calls", 200), ("/v1/calls/batch", 400)])
async def test_a_body_at_the_limit_passes_and_one_byte_more_is_413(small: Any, path: str, limit: int) -> None:
    """9.4: the limit is exact, whether the length is stated or found out."""
    text = CALL % "{}" if path == "/v1/calls" else '{"calls":[]}'
    fits, over = text.ljust(limit).encode(), text.ljust(limit + 1).encode()
    assert (await small.ask("POST", path, body=fits)).status == 200
    assert (await small.ask("POST", path, chunks=[fits])).status == 200
    asked = len(small.calls.asked)
    for answer in (await small.ask("POST", path, body=over), await small.ask("POST", path, chunks=[over])):
        assert (answer.status, answer.problem["code"]) == (413, "too_large")
        assert answer.headers["connection"] == "close"
    assert len(small.calls.asked) == asked


async def test_a_stated_length_that_is_not_worth_reading_is_refused_unread(small: Any) -> None:
    """9.4: by Content-Length alone: far above the limit, or with a client that waits to be asked for its body; a length
    of twenty digits is not even turned into a number."""

    async def receive() -> Any:
        raise AssertionError("the body was read")

    waits = ("expect", "100-continue")
    for headers in (
        [("content-length", "201"), waits],
        [("content-length", str(200 + MOST_DISCARDED + 1))],
        [("content-length", "9" * 20)],
        [("content-length", "9" * 5_000)],
    ):
        answer = await small.ask("POST", "/v1/calls", headers=headers, receive=receive)
        assert (answer.status, answer.problem["code"]) == (413, "too_large")


def _flowing(size: int, piece: int = 64 * 1024) -> tuple[Any, list[int]]:
    """A body that comes in pieces, and how many bytes of it were taken."""
    taken = [0]

    async def receive() -> Any:
        part = b" " * min(piece, size - taken[0])
        taken[0] += len(part)
        return {"type": "http.request", "body": part, "more_body": taken[0] < size}

    return receive, taken


@pytest.mark.parametrize("stated", [True, False])
async def test_a_body_above_the_limit_is_read_to_its_end_before_the_413(small: Any, stated: bool) -> None:
    """9.4: a connection closed with bytes unread is reset, and its client loses the answer."""
    size = 5 * 1024 * 1024
    receive, taken = _flowing(size)
    headers = [("content-length", str(size))] if stated else []
    answer = await small.ask("POST", "/v1/calls", headers=headers, receive=receive)
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert taken == [size]
    assert small.calls.asked == []


async def test_a_body_without_end_is_read_no_further_than_a_bound(small: Any) -> None:
    """9.4: what is thrown away is bounded too."""
    receive, taken = _flowing(1 << 40)
    assert (await small.ask("POST", "/v1/calls", receive=receive)).status == 413
    assert MOST_DISCARDED < taken[0] <= MOST_DISCARDED + 200 + 3 * 64 * 1024


async def test_a_body_above_the_limit_that_stops_coming_is_413_at_the_deadline(small: Any) -> None:
    """9.4: bytes that are thrown away are waited for no longer than others, and what was known stays so."""
    pieces = [b" " * 300]
    stalls = asyncio.Event()

    async def receive() -> Any:
        if not pieces:
            await stalls.wait()
        return {"type": "http.request", "body": pieces.pop(), "more_body": True}

    asked = asyncio.create_task(small.ask("POST", "/v1/calls", receive=receive))
    await asyncio.sleep(0)
    small.clock.now += 31.0
    small.app.bodies.sweep()
    assert (await asked).problem["code"] == "too_large"


async def test_a_body_in_pieces_is_put_together(gateway: Any) -> None:
    """Chunks carry no meaning."""
    body = (CALL % '{"note":"ü"}').encode()
    pieces = [body[place : place + 1] for place in range(len(body))]
    assert (await gateway.ask("POST", "/v1/calls", chunks=[*pieces, b""])).status == 200


@pytest.mark.parametrize("chunks", [[], [b'{"comp']])
async def test_a_client_that_hangs_up_within_its_body_is_dropped_silently(
    gateway: Any, chunks: list[bytes], caplog: Any
) -> None:
    """Nobody is there to answer, nothing was asked, and the log is not filled by it."""
    left = list(chunks)

    async def receive() -> Any:
        if left:
            return {"type": "http.request", "body": left.pop(0), "more_body": True}
        return {"type": "http.disconnect"}

    with caplog.at_level("DEBUG", logger="gateway"):
        answer = await gateway.ask("POST", "/v1/calls", receive=receive)
    assert answer.status == 0
    assert caplog.records == []
    assert gateway.calls.asked == []


async def test_a_body_that_does_not_come_is_refused_after_a_while(gateway: Any) -> None:
    """9.4: time is bounded: a caller that trickles its body is answered 400; one within time is not disturbed."""
    stalls, arrives = asyncio.Event(), asyncio.Event()
    bodies = gateway.app.bodies

    def held(until: asyncio.Event) -> Any:
        async def receive() -> Any:
            await until.wait()
            return {"type": "http.request", "body": (CALL % "{}").encode(), "more_body": False}

        return receive

    slow = asyncio.create_task(gateway.ask("POST", "/v1/calls", receive=held(stalls)))
    await asyncio.sleep(0)
    gateway.clock.now += 29.0
    late = asyncio.create_task(gateway.ask("POST", "/v1/calls", receive=held(arrives)))
    await asyncio.sleep(0)
    gateway.clock.now += 2.0
    bodies.sweep()
    answer = await slow
    arrives.set()
    assert answer.status == 400
    assert "did not arrive" in answer.problem["message"]
    assert answer.headers["connection"] == "close"
    assert (await late).status == 200


async def test_a_cancelled_read_stays_cancelled(gateway: Any) -> None:
    """A server that stops cancels its tasks; that is no late body."""

    async def receive() -> Any:
        await asyncio.Event().wait()

    task = asyncio.create_task(gateway.ask("POST", "/v1/calls", receive=receive))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
