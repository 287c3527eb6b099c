"""The documentation's links lead somewhere, and its lists are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_relative_link_of_a_page_leads_to_a_file(page):
    """A link to nothing sends a reader away."""
    links = [link.partition("#")[0] for link in _LINK.findall(page.read_text("utf-8")) if "://" not in link]
    missing = [link for link in links if link and not (page.parent / link).exists()]
    assert missing == []


def test_every_decision_is_in_the_index():
    """docs/adr/README.md lists each page of its folder, in order."""
    pages = sorted(p.name for p in (ROOT / "docs/adr").glob("0*.md"))
    assert re.findall(r"\((0\d+-[^)]+)\)", (ROOT / "docs/adr/README.md").read_text("utf-8")) == pages


def test_every_lua_script_names_its_keys_arguments_and_returns():
    """A script's header is its contract."""
    for script in (ROOT / "gateway/adapters/lua").glob("*.lua"):
        head = script.read_text("utf-8").split("\nlocal ", 1)[0]
        assert {"KEYS", "ARGV", "Returns"} <= set(re.findall(r"\w+", head)), script.name


def test_the_changelog_and_the_licence_are_there():
    """What a packager looks for first."""
    assert "## Unreleased" in (ROOT / "docs/changelog.md").read_text("utf-8")
    assert (ROOT / "LICENSE").read_text("utf-8").startswith("MIT License")
