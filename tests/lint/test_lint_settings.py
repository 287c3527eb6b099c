"""Settings of lint: what is looked for, where, and what is wrong with them in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heuristics.lint_settings import LintSettings, SettingsError, read_settings


@pytest.mark.parametrize(
    ("select", "ignore", "wanted"),
    [
        (["OG"], [], {"OG101", "OG203", "OG301"}),
        (["OG1"], [], {"OG101"}),
        (["OG"], ["OG1"], {"OG203", "OG301"}),
        (["OG", "OG101"], ["OG1"], {"OG101", "OG203", "OG301"}),
        (["OG101"], ["OG101"], set()),
        ([], [], set()),
    ],
)
def test_the_longer_beginning_of_a_code_decides(select: list[str], ignore: list[str], wanted: set[str]) -> None:
    settings = read_settings({"select": select, "ignore": ignore})
    assert {code for code in ("OG101", "OG203", "OG301") if settings.wants(code)} == wanted


def test_a_file_may_be_spared_some_codes() -> None:
    settings = read_settings({"per-file-ignores": {"legacy/*.json": ["OG3"], "old.toml": ["OG"]}})
    assert settings.ignored_in("OG301", "legacy/tools.json")
    assert not settings.ignored_in("OG101", "legacy/tools.json")
    assert not settings.ignored_in("OG301", "new/tools.json")
    assert settings.ignored_in("OG101", "any/where/old.toml")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"selct": ["OG1"]}, "did you mean select?"),
        ({"select": "OG1"}, "select must be a list of texts"),
        ({"select": ["XX"]}, "no rule's code begins with 'XX'"),
        ({"ignore": [""]}, "no rule's code begins with ''"),
        ({"heuristic": "verbs"}, 'heuristic must be "words" or "platform"'),
        ({"providers": ["acme"]}, "'acme' is not one of openai"),
        ({"overrides": {"a*": "yes"}}, "overrides.a* must be true or false"),
        ({"per-file-ignores": {"a.json": ["OG9"]}}, "per-file-ignores.a.json: no rule's code begins with 'OG9'"),
        ({"baseline": 3}, "baseline must be a path"),
    ],
)
def test_settings_that_cannot_be_used_are_named(table: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        read_settings(table)
    assert said in str(wrong.value)


def test_nothing_said_is_everything_looked_for() -> None:
    assert read_settings({}) == LintSettings()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[tool.oncegate.lint]\nignore = ["OG101"]\n'),
        ("oncegate.toml", '[lint]\nignore = ["OG101"]\n'),
        ("oncegate.toml", 'ignore = ["OG101"]\n'),
        ("oncegate.toml", '[tool.oncegate.lint]\nignore = ["OG101"]\n'),
    ],
)
def test_settings_are_found_upwards(file: str, text: str, command: Any, manifest: Any, monkeypatch: Any) -> None:
    manifest("finalise_basket", file="below/tools.json")
    Path(file).write_text(text)
    monkeypatch.chdir("below")
    status, out, _ = command("tools.json")
    assert (status, out) == (0, "1 tool in 1 file: no findings\n")


def test_a_pyproject_of_something_else_is_passed_over(command: Any, manifest: Any) -> None:
    manifest("finalise_basket")
    Path("pyproject.toml").write_text("[tool.ruff]\nline-length = 120\n")
    assert command("tools.json")[0] == 1


def test_options_replace_what_the_file_says(command: Any, manifest: Any) -> None:
    manifest("finalise_basket")
    Path("oncegate.toml").write_text('ignore = ["OG101"]\n')
    assert command("tools.json", "--ignore", "OG2")[0] == 1
    assert command("tools.json", "--ignore", "OG2", "--select", "OG3")[0] == 0
    assert "error OG101" in command("tools.json", "--ignore", "OG2", "--heuristic", "platform")[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [("ignore = [", "is not valid TOML"), ("ignore = 3\n", "ignore must be a list"), ("\xff\xfe", "")],
)
def test_settings_that_cannot_be_read_are_one_line(text: str, said: str, command: Any, manifest: Any) -> None:
    manifest("place_order")
    Path("my.toml").write_bytes(text.encode("latin-1"))
    status, out, err = command("tools.json", "--config", "my.toml")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("oncegate lint: my.toml: ")
    assert said in err


def test_what_is_declared_in_the_settings_needs_no_name(command: Any, manifest: Any) -> None:
    """3.3: as a company's overrides."""
    manifest("zorble", "finalise_basket")
    Path("oncegate.toml").write_text('overrides = { "zor*" = false, finalise_basket = true }\n')
    assert command("tools.json")[:2] == (0, "2 tools in 1 file: no findings\n")
