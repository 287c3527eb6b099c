"""docs/lint/ and the list in README.md are what the rules say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from heuristics.formats import read_tools
from heuristics.lint import lint
from heuristics.lint_settings import LintSettings
from heuristics.rules import RULES, Rule

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "draw_lint.py"
HEADINGS = ["What", "Why it is bad", "Example", "Instead"]
ENGINES_OWN = ("OG001", "OG002")


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("draw_lint", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_has_its_page_as_the_rule_says(rule: Rule, script: Any) -> None:
    """Run docs/draw_lint.py after a change of a rule."""
    text = (script.FOLDER / rule.page).read_text(encoding="utf-8")
    assert text == script.page(rule)
    assert re.findall(r"^## (.*)$", text, re.M) == HEADINGS


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.code not in ENGINES_OWN], ids=lambda rule: rule.code)
def test_a_pages_example_has_the_finding_and_what_stands_instead_has_not(rule: Rule, script: Any) -> None:
    """Read from the page itself. Waivers are of the command, whose tests have theirs."""
    text = (script.FOLDER / rule.page).read_text(encoding="utf-8")
    example, instead = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
    for (language, sample), expected in ((example, True), (instead, False)):
        tools = read_tools(sample.encode(), f"sample.{language}")
        assert (rule.code in {each.code for each in lint(tools, LintSettings())}) is expected


def test_the_folder_has_no_page_of_a_rule_that_is_gone(script: Any) -> None:
    assert {page.name for page in script.FOLDER.glob("OG*.md")} == {rule.page for rule in RULES}


def test_the_lists_are_up_to_date(script: Any) -> None:
    assert (script.FOLDER / "README.md").read_text(encoding="utf-8") == script.rule_list()
    text = script.README.read_text(encoding="utf-8")
    assert text == script.readme(text)
    assert all(f"(docs/lint/{rule.page})" in text for rule in RULES)


def test_a_page_without_the_marks_is_not_written(script: Any) -> None:
    with pytest.raises(ValueError, match="marks"):
        script.readme("# Oncegate\n")
