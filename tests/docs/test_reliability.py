"""docs/reliability.md names every promise of its sections, and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
SEMANTICS = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+(?:\.\d+)?) \|([^|]*)\|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE)


def test_every_promise_of_identity_the_ledger_outcomes_and_approvals_has_a_row():
    """A promise that nobody tries to break is a hope."""
    promised = re.findall(r"^- \*\*([245]\.\d+|7\.[23456])\*\*", SEMANTICS, re.MULTILINE)
    assert len(promised) > 25
    assert [number for number, *_ in ROWS if number != "5"] == promised


def test_the_tests_it_names_are_there_and_name_the_promise():
    """A row that points at nothing proves nothing."""
    missing, silent = [], []
    for number, _, cases, _ in ROWS:
        for name in re.findall(r"`([\w/]+\.py)`", cases):
            file = ROOT / "tests" / name
            if not file.is_file():
                missing.append(name)
            elif not re.search(
                rf"(?<![\d.]){re.escape(number)}(?!\d)|p{number.replace('.', '_')}_", file.read_text("utf-8")
            ):
                silent.append((number, name))
    assert missing == []
    assert silent == []


def test_a_promise_is_planned_or_has_cases():
    """Either somebody wrote a case, or the page says that it is to come."""
    assert [number for number, _, cases, _ in ROWS if "`" not in cases and "planned" not in cases] == []
