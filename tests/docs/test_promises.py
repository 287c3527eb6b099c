"""Every promise that docs/semantics.md marks as done is named by a test.

A promise is a line like "- **N.M** (done) …" or "(planned)". A test names it by `test_pN_M_…` or by its number in
the test's docstring.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "semantics.md"

LINE = re.compile(r"^[-*] +\*\*(\d+(?:\.\d+)*)\*\*(?: \((\w+)\))?", re.MULTILINE)
IN_NAME = re.compile(r"(?:^|_)p(\d+)_(\d+)(?=_)")
IN_WORDS = re.compile(r"(?<![\d.])\d{1,2}\.\d{1,2}(?![\d.]*\d)")


def promises():
    """(number, "done" | "planned" | None) of every promise line."""
    return LINE.findall(PAGE.read_text(encoding="utf-8"))


def named_by(source):
    """The promises that the tests in a file's source name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield from (f"{section}.{number}" for section, number in IN_NAME.findall(node.name))
            yield from IN_WORDS.findall(ast.get_docstring(node) or "")


@pytest.fixture(scope="module")
def named():
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if file != Path(__file__)]
    return {promise for file in files for promise in named_by(file.read_text(encoding="utf-8"))}


def test_the_page_has_promises_each_once_and_each_marked():
    """A page that lost its lines, or a line that lost its mark, would otherwise pass unread."""
    found = promises()
    assert len(found) >= 40
    assert {mark for _, mark in found} <= {"done", "planned"}, "each line is marked (done) or (planned)"
    assert [number for number, times in Counter(number for number, _ in found).items() if times > 1] == []


def test_every_promise_marked_done_is_named_by_a_test(named):
    unnamed = [number for number, mark in promises() if mark == "done" and number not in named]
    assert unnamed == [], "marked done in docs/semantics.md, and no test names them"


def test_what_counts_as_naming_a_promise():
    source = """
def test_p2_10_numbers(): "no number here: v1.2.3 or 10.55.1"
async def test_k1_01_twice(): "2.1, and 4.10 (4.9)."
def helper_p9_9_(): "9.8"
class TestIt:
    def test_nested(self): "7.6"
"""
    assert sorted(named_by(source)) == ["2.1", "2.10", "4.10", "4.9", "7.6"]
