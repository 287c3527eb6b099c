"""Arguments as bytes on the wire: what is no JSON is refused, and what is arrives digit for digit."""

from __future__ import annotations

import pytest
from flow_client import Api
from flow_merchant import Connection, RawMerchant, Request, reply

BIG, NEIGHBOUR = b"2512292042121000001", b"2512292042121000000"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
async def test_k2_09_what_is_no_json_number_is_refused_and_uses_up_no_id(
    shop: Api, merchant: RawMerchant, number: str
) -> None:
    """K2-09, 2.9: 400 for the bare form and for the form in a text; the id stays free."""
    for arguments in (f'{{"price": {number}}}', f'"{{\\"price\\": {number}}}"'):
        refused = await shop.raw_call("n1", arguments)
        assert (refused.status, refused.code) == (400, "malformed"), arguments
    assert merchant.hits == 0
    assert await shop.stored("n1") == []
    assert (await shop.raw_call("n1", '{"price": 1}')).decision == "proceed"


async def test_k2_11_numbers_beyond_doubles_go_through_digit_for_digit(shop: Api, merchant: RawMerchant) -> None:
    """K2-11, 2.10: both ways, and again at the replay; a neighbour of the number is another call."""
    digits = [BIG, b"0.1000000000000000055511151231257827", b"1.10", b"-0.0", b"12345678901234567890123456789012345"]
    sent = b'{"order_id":' + BIG + b',"odd":[' + b",".join(digits) + b"]}"

    async def echo(request: Request, connection: Connection) -> bytes | None:
        return reply(b'{"got":' + sent + b"}", "Content-Type: application/json")

    merchant.behave = echo
    first = await shop.raw_call("b1", sent.decode())
    again = await shop.raw_call("b1", sent.decode())
    assert (first.decision, again.decision) == ("proceed", "replay")
    assert b'"arguments":' + sent + b"," in merchant.requests[0].body
    for answer in (first, again):
        assert b'"result":{"got":' + sent + b"}" in answer.raw
    other = await shop.raw_call("b1", sent.replace(BIG, NEIGHBOUR).decode())
    assert (other.status, other.code) == (422, "tool_call_id_reused")
    assert merchant.hits == 1


async def test_k2_10_equal_numbers_are_one_call_and_the_first_form_is_sent(shop: Api, merchant: RawMerchant) -> None:
    """K2-10, 2.10: `1`, `1.0` and `1e0` are one."""
    answers = [await shop.raw_call("q1", f'{{"qty": {form}}}') for form in ("1", "1.0", "1e0")]
    assert [answer.decision for answer in answers] == ["proceed", "replay", "replay"]
    assert b'"qty":1}' in merchant.requests[0].body.replace(b" ", b"")
    assert merchant.hits == 1


@pytest.mark.parametrize("depth", [500, 5_000, 500_000])
@pytest.mark.parametrize("form", ["object", "text"])
async def test_k6_14_deep_arguments_are_refused_and_leave_nothing(
    shop: Api, merchant: RawMerchant, depth: int, form: str
) -> None:
    """K6-14, 2.9: a fixed depth; never a 500, a crash or a record."""
    nested = "[" * depth + "]" * depth
    refused = await shop.raw_call("d1", f'{{"a": {nested}}}' if form == "object" else f'"{{\\"a\\": {nested}}}"')
    assert refused.status in (400, 413), refused.raw
    assert await shop.stored("d1") == []
    assert (await shop.call("d1")).decision == "proceed"
    assert merchant.hits == 1


async def test_k6_14_a_body_over_the_limit_is_refused_unread(shop: Api) -> None:
    """K6-14, 9.4: a million levels do not even fit; the refusal comes before the body is asked for."""
    body = b'{"a": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
    refused = await shop.send("POST", "/v1/calls", body, headers={"Expect": "100-continue"})
    assert (refused.status, refused.code) == (413, "too_large")


@pytest.mark.parametrize("depth", [500, 5_000, 400_000])
async def test_k6_14_a_deep_answer_is_unknown_not_a_crash(shop: Api, merchant: RawMerchant, depth: int) -> None:
    """K6-14, 5: an invalid reply of a merchant leaves the outcome unknown, once."""
    merchant.answers(reply(b"[" * depth + b"]" * depth, "Content-Type: application/json"))
    assert (await shop.call("d3")).json["status"] == "indeterminate"
    assert (await shop.call("d3")).decision == "replay"
    assert merchant.hits == 1
