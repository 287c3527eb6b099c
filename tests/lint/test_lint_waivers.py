"""Findings that may stand: inline waivers, which need a reason and a finding, and the baseline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TOOL: dict[str, Any] = {
    "name": "finalise_basket",
    "description": "Turn the basket into an order.",
    "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}},
    "annotations": {"idempotentHint": True},
}
TOML = """\
[company]
name = "acme"

{above}[tools.finalise_basket]{beside}
description = "x"
endpoint = "https://shop.example/tools"
idempotency = "safe_to_retry"
parameters = '{{"type": "object", "properties": {{}}, "additionalProperties": false}}'

[tools.place_order]
description = "x"
endpoint = "https://shop.example/tools"
idempotency = "safe_to_retry"
parameters = '{{"type": "object", "properties": {{}}, "additionalProperties": false}}'
"""


@pytest.mark.parametrize(
    ("waiver", "codes"),
    [
        (None, ["OG101"]),
        ({"ignore": ["OG101"], "reason": "in a contract"}, []),
        ({"ignore": ["OG101"]}, ["OG001"]),
        ({"ignore": ["OG101"], "reason": "  "}, ["OG001"]),
        ({"ignore": ["OG101", "OG203"], "reason": "in a contract"}, ["OG002"]),
        ({"ignore": ["OG203"], "reason": "in a contract"}, ["OG002", "OG101"]),
        ({"ignore": "OG101", "reason": "x"}, ["OG001", "OG101"]),
        ({"ignore": ["101"], "reason": "x"}, ["OG001", "OG101"]),
        ("OG101", ["OG001", "OG101"]),
    ],
)
def test_a_waiver_in_a_tools_object(waiver: Any, codes: list[str], command: Any, manifest: Any) -> None:
    manifest(TOOL if waiver is None else {**TOOL, "x-oncegate-lint": waiver})
    _, out, _ = command("tools.json", "--format", "json")
    assert [each["code"] for each in json.loads(out)["findings"]] == codes


@pytest.mark.parametrize("within", [True, False])
def test_a_waiver_in_a_chat_completions_tool_stands_beside_its_name_or_its_type(
    within: bool, command: Any, manifest: Any
) -> None:
    """Its name is one object deeper, which is where a reader looks for the place."""
    waiver = {"x-oncegate-lint": {"ignore": ["OG101"], "reason": "in a contract"}}
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    function = {"name": "finalise_basket", "description": "x", "parameters": schema, **(waiver if within else {})}
    manifest({"type": "function", "function": function, **({} if within else waiver)})
    _, out, _ = command("tools.json", "--format", "json", "--ignore", "OG110")
    assert json.loads(out)["findings"] == []


@pytest.mark.parametrize(
    ("above", "beside", "codes"),
    [
        ("", "", ["OG101"]),
        ("", "  # oncegate: ignore[OG101] in a contract", []),
        ("# oncegate: ignore[OG101] in a contract\n", "", []),
        ("", "  # oncegate: ignore[OG101]", ["OG001"]),
        ("", "  # oncegate: ignore[OG203, OG101] in a contract", ["OG002"]),
        ("# oncegate: ignore[OG101] too far above\n\n", "", ["OG002", "OG101"]),
    ],
)
def test_a_waiver_in_a_comment_belongs_to_the_tool_beside_or_below_it(
    above: str, beside: str, codes: list[str], command: Any
) -> None:
    Path("acme.toml").write_text(TOML.format(above=above, beside=beside))
    _, out, err = command("acme.toml", "--format", "json")
    assert err == ""
    assert [each["code"] for each in json.loads(out)["findings"]] == codes


def test_a_waiver_in_a_python_module_and_in_yaml(command: Any) -> None:
    Path("shop.py").write_text(
        "from merchant_sdk import Shop\nshop = Shop('x')\n\n\n"
        "@shop.tool(side_effecting=False)  # oncegate: ignore[OG109] it only adds numbers\n"
        'def add_numbers(work, a: int):\n    """Add them."""\n'
    )
    Path("openapi.yaml").write_text(
        "openapi: 3.1.0\ninfo: {title: t, version: '1'}\npaths:\n  /b:\n    put:\n      operationId: get_b\n"
        "      summary: x\n      x-oncegate-lint: {ignore: [OG106], reason: an old name}\n"
    )
    assert command("shop.py")[:2] == (0, "1 tool in 1 file: no findings\n")
    assert command("openapi.yaml")[:2] == (0, "1 tool in 1 file: no findings\n")


def test_a_waiver_for_a_code_that_is_not_looked_for_is_no_finding(command: Any, manifest: Any) -> None:
    manifest({**TOOL, "x-oncegate-lint": {"ignore": ["OG101"], "reason": "in a contract"}})
    assert command("tools.json", "--select", "OG2,OG0")[0] == 0


def test_a_baseline_holds_back_what_was_there_and_nothing_new(command: Any, manifest: Any) -> None:
    manifest("finalise_basket", "place_order")
    status, out, _ = command("tools.json", "--write-baseline", "known.json")
    assert (status, out) == (0, "known.json: 1 finding noted\n")
    assert command("tools.json", "--baseline", "known.json")[:2] == (
        0,
        "2 tools in 1 file: no findings; 1 known from the baseline\n",
    )
    manifest("place_order", "get_order", "finalise_basket", "zorble")  # moved, and one is new
    status, out, _ = command("tools.json", "--baseline", "known.json")
    assert status == 1
    assert "zorble" in out
    assert "finalise_basket" not in out


def test_a_baseline_counts(command: Any, manifest: Any) -> None:
    """A second finding of the same kind in the same tool is new."""
    one = {
        **TOOL,
        "name": "place_order",
        "inputSchema": {"type": "object", "properties": {"price": {"type": "number"}}},
    }
    manifest(one)
    command("tools.json", "--write-baseline", "known.json")
    one["inputSchema"]["properties"]["fee"] = {"type": "number"}
    manifest(one)
    status, out, _ = command("tools.json", "--baseline", "known.json")
    assert (status, out.count("OG305")) == (1, 1)


def test_a_baseline_of_the_settings_is_found_from_any_folder(command: Any, manifest: Any, monkeypatch: Any) -> None:
    manifest("finalise_basket", file="below/tools.json")
    Path("oncegate.toml").write_text('baseline = "known.json"\n')
    command("below", "--write-baseline", "known.json")
    monkeypatch.chdir("below")
    assert command("tools.json")[0] == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("{", "is not a baseline"),
        ("[]", "is not a baseline of version 1"),
        ('{"version": 1, "findings": [{"path": "a"}]}', "without path, tool, code and count"),
        ('{"version": 1, "findings": [{"path": 1, "tool": "a", "code": "b", "count": 1}]}', "of the wrong kind"),
        ('{"version": 1, "findings": 3}', "is not a baseline"),
    ],
)
def test_a_baseline_that_cannot_be_read_is_one_line(text: str | None, said: str, command: Any, manifest: Any) -> None:
    manifest("place_order")
    if text is not None:
        Path("known.json").write_text(text)
    status, out, err = command("tools.json", "--baseline", "known.json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
