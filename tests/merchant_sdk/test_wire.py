"""The gateway's body, read strictly."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merchant_sdk import MalformedCall, fingerprint
from merchant_sdk.wire import parse_call

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "wire_numbers.json").read_text())
CONTEXT = {"company": "acme", "conversation": "c-1", "turn": None, "tool_call_id": "x", "attempt": 1}


def body(arguments: str = "{}", **changed: Any) -> bytes:
    call = {"tool": "t", "arguments": "HERE", "context": CONTEXT, **changed}
    return json.dumps(call).replace('"HERE"', arguments).encode()


def test_a_call_is_read_with_its_numbers_digit_for_digit() -> None:
    """2.10: no float stands between the customer and the shop."""
    call = parse_call("k", body('{"n": 12345678901234567890, "price": 0.10, "q": 1e2}', newer_field=1))
    assert call.arguments == {"n": 12345678901234567890, "price": Decimal("0.10"), "q": Decimal("1e2")}
    assert (call.key, call.tool, call.context.conversation, call.context.turn) == ("k", "t", "c-1", None)


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"null", b"[]", b"{", b'"x"', b"\xff", b"\xef\xbb\xbf{}", body()[: len(body()) // 2], body().decode().encode("utf-16"),
        body('{"a": 1, "a": 2}'), body('{"a": {"b": 1, "b": 1}}'), body('{"a": NaN}'), body('{"a": -Infinity}'),
        body('{"a": "\\ud83d"}'), body('{"\\udcb2": 1}'), body('{"a": 1e5000}'), body('{"a": 1e9999999999999999999999}'),
        body('{"a": ' + "1" * 1001 + "}"), body('{"a": ' + "1" * 5000 + "}"), body('{"a": 0.' + "1" * 1001 + "}"),
        body("[" * 100_000), body('{"a":' * 65 + "1" + "}" * 65), body("[]"), body("null"), body('"{}"'),
        body(tool=1), body(tool=None), body(context=None), body(context={}), body(context={**CONTEXT, "company": None}),
        body(context={**CONTEXT, "attempt": "1"}), body(context={**CONTEXT, "attempt": True}), body(context={**CONTEXT, "turn": 7}),
    ],
)  # fmt: skip
def test_what_is_not_exactly_one_call_is_malformed(bad: bytes) -> None:
    """2.9, K2-15, and bodies cut in half: one kind of error, a short reason."""
    with pytest.raises(MalformedCall) as caught:
        parse_call("k", bad)
    assert len(str(caught.value)) < 80


def numeral(row: dict[str, Any]) -> str:
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in row["parts"])


def nested(row: dict[str, Any]) -> str:
    return '{"a":' * row["levels"] + row["inside"] + "}" * row["levels"]


@pytest.mark.parametrize("row", VECTORS["numbers"], ids=lambda row: row["name"])
def test_p2_9_a_number_that_the_gateway_lets_through_is_read_and_no_other(row: dict[str, Any]) -> None:
    """2.9, 2.10: a tighter bound here would leave an order that was granted undone."""
    sent = body('{"n": ' + numeral(row) + "}")
    if not row["accepted"]:
        with pytest.raises(MalformedCall, match="out of range"):
            parse_call("k", sent)
        return
    call = parse_call("k", sent)
    assert Decimal(call.arguments["n"]) == Decimal(numeral(row))
    assert call.call_key().fingerprint


@pytest.mark.parametrize("row", VECTORS["nesting"], ids=nested)
def test_p2_9_arguments_as_deep_as_the_gateway_lets_through_are_read_and_no_deeper(row: dict[str, Any]) -> None:
    """2.9: the body around the arguments is a level of its own."""
    sent = body(nested(row))
    if row["accepted"]:
        assert parse_call("k", sent).arguments == json.loads(nested(row))
    else:
        with pytest.raises(MalformedCall, match="nested too deeply"):
            parse_call("k", sent)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_else(data: bytes) -> None:
    """9.4: searched."""
    with pytest.raises(MalformedCall):
        parse_call("k", data)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": 1, "b": 2}', '{ "b":2, "a":1 }', True),
        ('{"a": 1}', '{"a": 1.0}', True),
        ('{"a": 1}', '{"a": 1e0}', True),
        ('{"a": 100}', '{"a": 1e2}', True),
        ('{"a": 0}', '{"a": -0.0}', True),
        ('{"a": 9007199254740993}', '{"a": 9007199254740992}', False),
        ('{"a": 0.1}', '{"a": 0.10000000000000001}', False),
        ('{"a": 1}', '{"a": -1}', False),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 1}', '{"a": "1"}', False),
        ('{"a": null}', "{}", False),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": [[], 1]}', '{"a": [[1]]}', False),
        ('{"a": "caf\\u00e9"}', '{"a": "cafe\\u0301"}', False),
        ('{"ab": "c"}', '{"a": "bc"}', False),
    ],
)
def test_the_fingerprint_of_a_call_is_that_of_its_meaning(one: str, other: str, same: bool) -> None:
    """2.10: spelling does not count, values do."""
    keys = [parse_call("k", body(arguments)).call_key() for arguments in (one, other)]
    assert (keys[0] == keys[1]) is same


@pytest.mark.parametrize(
    "changed",
    [{"tool": "u"}, {"context": {**CONTEXT, "company": "b"}}, {"context": {**CONTEXT, "conversation": "c-2"}}],
)
def test_k7_08_tool_company_and_conversation_are_part_of_the_call(changed: dict[str, Any]) -> None:
    """K7-08: one key for two conversations is a conflict, never the other's answer."""
    assert parse_call("k", body(**changed)).call_key() != parse_call("k", body()).call_key()


def test_another_attempt_of_the_same_call_is_the_same_call() -> None:
    """2.5: a re-run turn may say another attempt or tool_call_id."""
    rerun = body(context={**CONTEXT, "attempt": 2, "tool_call_id": "y", "turn": "t-1"})
    assert parse_call("k", rerun).call_key() == parse_call("k", body()).call_key()


@pytest.mark.parametrize("bad", [0.5, {1: 2}, b"x", Decimal("NaN"), {"a": float("inf")}])
def test_a_fingerprint_of_what_is_not_exact_is_refused(bad: Any) -> None:
    """K7-09: a float in a fingerprint would make two carts one."""
    with pytest.raises(TypeError):
        fingerprint(bad)
