"""The command line: help with examples, exit statuses, machine output beside human output."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from gateway.cli import COMMANDS, main


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command, capfd):
    """`oncegate COMMAND --help` shows how it is used."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"oncegate {command}" in capfd.readouterr().out.partition("examples:")[2]


ACTIONS = {
    "tools": ("list", "show", "put", "remove", "register"),
    "calls": ("show", "unknown", "resolve"),
    "keys": ("create", "list", "revoke"),
    "policy": ("check", "explain"),
    "secrets": ("add", "list", "retire"),
}


@pytest.mark.parametrize("command", [f"{command} {action}" for command, of in ACTIONS.items() for action in of])
def test_every_action_has_help_with_an_example_of_itself(command, capfd):
    """Nobody looks one level up for it."""
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    assert f"oncegate {command}" in capfd.readouterr().out.partition("examples:")[2]


def test_an_unknown_command_is_named_and_the_known_ones_are_listed(capfd):
    """Exit status 2: not understood."""
    with pytest.raises(SystemExit) as ended:
        main(["srve"])
    assert ended.value.code == 2
    assert "serve" in capfd.readouterr().err


def test_p3_2_classify_says_verdict_and_reason_for_each_name(capfd):
    """3.1, 3.2: one line a name."""
    assert main(["classify", "finalise_basket", "get_booking"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith("side-effecting")
    assert lines[1].startswith("read-only")


def test_p3_1_classify_takes_names_from_standard_input_and_gives_json(capfd, monkeypatch):
    """3.1: `--json`, one object a line; the platform rule is the plain substring one."""
    monkeypatch.setattr("sys.stdin", io.StringIO("get_settings\n\nplace_order\n"))
    assert main(["classify", "--json", "--heuristic", "platform"]) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(f["name"], f["side_effecting"]) for f in found] == [("get_settings", True), ("place_order", True)]


def test_classify_without_names_says_what_is_missing(capfd, monkeypatch):
    """Exit status 2, one line on standard error."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["classify"]) == 2
    assert "no names given" in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["calls", "show", "acme", "c-1", "call_1"],
        ["events", "acme", "c-1"],
        ["tools", "list", "acme"],
        ["secrets", "add", "acme"],
    ],
)
def test_a_command_that_finds_no_gateway_says_so_in_one_line(arguments, capfd):
    """No trace, and what to do next; the key is not repeated."""
    assert main([*arguments, "--url", "http://127.0.0.1:9", "--key", "og_r_secret"]) == 1
    said = capfd.readouterr().err
    assert "oncegate serve" in said
    assert len(said.splitlines()) == 1
    assert "og_r_secret" not in said


def test_a_command_without_a_key_says_how_to_get_one(capfd, monkeypatch):
    """Closed unless opened."""
    monkeypatch.delenv("ONCEGATE_KEY", raising=False)
    assert main(["events", "acme"]) == 1
    assert "oncegate keys create" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["serve", "--ledger", "mongodb://x"], "ledger"),
        (["serve", "--dev", "--host", "0.0.0.0", "--ledger", "memory"], "loopback"),
        (["serve", "--port", "70000"], "65535"),
        (["keys", "list", "--ledger", "memory", "--config", "/nonexistent"], "memory"),
    ],
)
def test_wrong_settings_stop_the_start_with_status_2_and_say_what_is_accepted(arguments, expected, capfd):
    """Every wrong setting is named, nothing is started."""
    assert main(arguments) == 2
    assert expected in capfd.readouterr().err


def test_k5_16_classify_suggests_a_clearer_name(capsys):
    """3.5: in text and in JSON; null where the name is clear."""
    assert main(["classify", "get_or_create_cart", "place_order"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("; clearer: create_cart")
    assert "clearer" not in second
    assert main(["classify", "--json", "cancle_order", "get_cart"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["suggested_name"] for one in found] == ["cancel_order", None]


@pytest.mark.parametrize("name", ["x" * 10_000, "🛒", "\u202eteg", "a\x1b[2J\nb", "\udce9", "-"])
@pytest.mark.parametrize("options", [[], ["--json"], ["--heuristic", "platform"]])
def test_k5_08_classify_takes_any_name_and_answers_in_one_line(name, options, capsys):
    """9.4: no name ends the run, and none reaches the terminal as a command."""
    assert main(["classify", *options, "--", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].isprintable()


def test_classify_imports_nothing_of_the_server():
    """The plain install is enough."""
    code = (
        "import sys; from gateway.cli import main; main(['classify', 'x']); "
        "print(sorted({'redis', 'pydantic', 'starlette', 'msgspec', 'aiohttp', 'uvicorn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
