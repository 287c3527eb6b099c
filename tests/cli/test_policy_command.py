"""`oncegate policy`: exit statuses, every problem at once, an explanation for people and for machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cli import main

GOOD = """
default_action = "allow"
[[rules]]
id = "large"
priority = 10
when = { target = "place_order", side_effecting = true, arguments = { "/total" = { gt = 5000 } } }
then = { decision = "require_approval", rate_limit = { max = 3, window_s = 60, per = "/buyer" } }
"""
BAD = """
default_action = "alow"
[[rules]]
id = "r"
priority = -1
when = { arguments = { "/total" = { gt = "CANARY" } } }
then = { decision = "deny" }
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    return written(tmp_path, "policy.toml", GOOD)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    return written(tmp_path, "bad.toml", BAD)


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_p7_3_a_policy_that_is_fit_for_use_is_told_with_its_version(
    good: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """7.3: the version that events will carry."""
    assert main(["policy", "check", good]) == 0
    said, version = capfd.readouterr().out.splitlines()
    assert said == f"{good}: fit for use: 1 rule, default allow"
    assert main(["policy", "check", good, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told == {"fit": True, "bundle": version.removeprefix("bundle "), "rules": 1, "problems": []}


def test_p7_3_every_problem_of_a_policy_is_told_with_its_path(bad: str, capfd: pytest.CaptureFixture[str]) -> None:
    """7.3: exit status 1, on standard output as what was asked for, without the values."""
    paths = ["default_action", "rules[0].priority", "rules[0].when.arguments./total.gt"]
    assert main(["policy", "check", bad]) == 1
    printed = capfd.readouterr()
    assert [line.split(", ", 1)[1].split(": ")[0] for line in printed.out.splitlines()] == paths
    assert main(["policy", "check", bad, "--json"]) == 1
    told = json.loads(capfd.readouterr().out)
    assert [(each["path"], each["rule"]) for each in told["problems"]] == list(
        zip(paths, [None, "r", "r"], strict=True)
    )
    assert told["fit"] is False
    assert "CANARY" not in printed.out + json.dumps(told)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("absent.toml", None, "cannot be read: No such file"),
        ("p.toml", "x = [", "is not valid TOML"),
        ("p.json", '{"a": 1, "a": 2}', "is not valid JSON: the key 'a' stands twice"),
        ("p.json", '{"default_action": NaN}', "is not valid JSON"),
    ],
)
@pytest.mark.parametrize("action", [["check"], ["explain", "--tool", "x"]])
def test_a_file_that_cannot_be_read_is_exit_status_2(
    name: str, text: str | None, expected: str, action: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        written(tmp_path, name, text)
    assert main(["policy", *action, str(tmp_path / name)]) == 2
    printed = capfd.readouterr()
    assert expected in printed.err
    assert printed.out == ""


def test_p7_3_a_call_is_explained_for_people(good: str, capfd: pytest.CaptureFixture[str]) -> None:
    """7.3: the decision first, then each rule; what was guessed is said."""
    assert main(["policy", "explain", good, "--tool", "place_order", "--arguments", '{"total": "7,400"}']) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith("require_approval: rule large decides; asks operator within 900 s")
    assert lines[1].startswith('->      10  large (require_approval): /total is the text "7,400"')
    assert lines[-1].startswith("(taken for side-effecting by its name")


def test_p7_3_a_call_is_explained_for_machines(good: str, capfd: pytest.CaptureFixture[str]) -> None:
    """7.3: with all that the ruling holds."""
    asked = ["policy", "explain", good, "--json", "--tool", "place_order", "--side-effecting", "--role", "runtime"]
    assert main([*asked, "--arguments", '{"total": 24000000000000000001}', "--step", "2", "--company", "acme"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["decision"], told["rule"]) == ("require_approval", "large")
    assert told["approval"] == {"approvers": ["operator"], "timeout_s": 900, "message": None}
    assert told["rate_limits"] == [
        {
            "rule": "large",
            "max": "3",
            "window_s": 60,
            "per": "/buyer",
            "sum_of": None,
            "on_error": "deny",
            "countable": False,
        }
    ]
    assert [(each["rule_id"], each["outcome"]) for each in told["rules"]] == [("large", "decides")]
    assert main([*asked, "--kind", "llm_call"]) == 0
    assert json.loads(capfd.readouterr().out)["rule"] is None


def test_p7_3_a_read_only_tool_is_explained_as_one(good: str, capfd: pytest.CaptureFixture[str]) -> None:
    """7.3: what is said about the tool comes before what its name says."""
    asked = ["policy", "explain", good, "--tool", "place_order", "--arguments", '{"total": 7400}', "--read-only"]
    assert main(asked) == 0
    assert "it is read-only, and must be side-effecting" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(["--arguments", "{"], "--arguments: malformed JSON"), (["--arguments", "[1]"], "--arguments: must be an object"), (["--step", "0"], "--step: must be a whole number from 1")],
)  # fmt: skip
def test_a_call_that_cannot_be_read_is_exit_status_2(
    arguments: list[str], expected: str, good: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "explain", good, "--tool", "x", *arguments]) == 2
    assert expected in capfd.readouterr().err


def test_a_policy_that_is_not_fit_for_use_explains_nothing(bad: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", bad, "--tool", "x"]) == 1
    printed = capfd.readouterr()
    assert "rules[0].priority" in printed.err
    assert printed.out == ""


def test_a_companys_file_is_taken_for_its_policy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The company is the file's; its secrets and tools are not looked at."""
    text = '[[secrets]]\nsecret_env = "NOT_SET"\n[policy]\ndefault_action = "deny"\n'
    assert main(["policy", "check", written(tmp_path, "acme.toml", text)]) == 0
    assert "0 rules, default deny" in capfd.readouterr().out
    broken = text.replace("deny", "never")
    assert main(["policy", "check", written(tmp_path, "acme.toml", broken)]) == 1
    assert "policy.default_action" in capfd.readouterr().out


@pytest.mark.parametrize("text", ['[company]\nname = "a"\n', '[company]\nname = "a"\n[[rules]]\nid = "r"\n'])
def test_p7_3_a_companys_file_without_a_policy_is_told_as_one(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """7.3: one line that says what is missing, and not that every table of the file is unknown."""
    file = written(tmp_path, "acme.toml", text)
    assert main(["policy", "check", file]) == 1
    (line,) = capfd.readouterr().out.splitlines()
    assert line.startswith(f"{file}: is a company's file and has no [policy]: ")


@pytest.mark.parametrize(("buyer", "countable"), [("", False), ('"buyer": 7, ', True)])
def test_p7_5_a_limit_that_a_call_does_not_let_be_counted_is_told_to_machines(
    buyer: str, countable: bool, good: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """7.5: such a call gets `on_error`, whatever the decision says."""
    arguments = f'{{{buyer}"total": 7400}}'
    assert main(["policy", "explain", good, "--tool", "place_order", "--arguments", arguments, "--json"]) == 0
    (limit,) = json.loads(capfd.readouterr().out)["rate_limits"]
    assert limit["countable"] is countable


@pytest.mark.parametrize("action", ["check", "explain"])
def test_each_action_has_help_with_examples(action: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", action, "--help"])
    assert ended.value.code == 0
    assert f"oncegate policy {action}" in capfd.readouterr().out.partition("examples:")[2]
