"""docs/compared.md: what it says of Oncegate is held by tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compared.md").read_text(encoding="utf-8")


def test_every_test_on_the_page_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 15
    there = set[str]()
    for file in (ROOT / "tests").rglob("test_*.py"):
        there |= set(re.findall(r"^(?:async )?def (test_\w+)\(", file.read_text(encoding="utf-8"), re.MULTILINE))
    assert named - there == set()


def test_every_line_of_the_comparison_names_a_test() -> None:
    """A difference that nothing holds us to is a claim."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| |")]
    assert len(rows) > 10
    assert [row for row in rows if "`test_" not in row.rsplit(" | ", 1)[-1]] == []
