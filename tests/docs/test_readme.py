"""The README is true: its code is the examples', and its commands, run as written, do what it says."""

from __future__ import annotations

import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("title", "example"),
    [("A runtime in ten lines", "runtime_ten_lines.py"), ("A merchant in ten lines", "merchant_ten_lines.py")],
)
def test_the_readme_shows_the_examples_as_they_are(title: str, example: str, page: Any) -> None:
    """What is shown is what other tests run."""
    assert page("README.md").blocks(title, "python") == [(ROOT / "examples" / example).read_text(encoding="utf-8")]


def test_the_readme_leads_to_every_page() -> None:
    """What nothing links to is not read."""
    links = set(re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} - links == set()


def test_p7_3_the_lines_that_hold_a_large_order_hold_it_until_somebody_grants_it(terminal: Any, page: Any) -> None:
    """7.3, 7.4: what a reader pastes, with real servers: blocked, listed, granted, placed once, replayed."""
    readme = page("README.md")
    serving, selling, calling, _ = readme.blocks("Start")
    policy, ordering, granting = readme.blocks("Hold a large order for a person")
    assert len([line for line in policy.partition("END'\n")[2].partition("\nEND")[0].splitlines() if line]) == 6

    assert "fit for use" in terminal.run(f". .venv/bin/activate\n{policy}")
    terminal.start("\n".join(serving.strip().splitlines()[1:2] + serving.strip().splitlines()[3:]), terminal.gateway)
    terminal.start(selling, terminal.merchant)
    assert terminal.curl(calling)[1]["decision"] == "proceed"
    for _ in range(2):
        _, held = terminal.curl(ordering)
        assert (held["decision"], held["status"]) == ("blocked", "awaiting_approval")
    listed, _, granted = terminal.run(granting).partition("granted by ")
    assert held["approval"]["id"] in listed
    assert "the call stands as succeeded" in granted
    _, replay = terminal.curl(ordering)
    assert (replay["decision"], replay["result"]) == ("replay", {"order_id": 2})
    with closing(sqlite3.connect(terminal.folder / "orders.db")) as orders:
        assert orders.execute("SELECT quantity FROM orders").fetchall() == [(2,), (20,)]


def test_the_commands_under_start_place_one_order_and_replay_it(terminal: Any, page: Any) -> None:
    """Everything a newcomer pastes, in order, each block into its terminal, with real servers."""
    serving, selling, calling, telling = page("README.md").blocks("Start")
    *installing, serve = serving.strip().splitlines()
    assert installing == ["python3 -m venv .venv", ". .venv/bin/activate", "pip install -e '.[gateway]'"]

    terminal.start(f"{installing[1]}\n{serve}", terminal.gateway)
    assert (terminal.folder / ".oncegate").is_dir()
    shop = terminal.start(selling, terminal.merchant)
    assert "place_order v1: side-effecting" in shop.read_text()

    (_, first), (_, again) = terminal.curl(calling), terminal.curl(calling)
    assert (first["decision"], first["status"], first["result"]) == ("proceed", "succeeded", {"order_id": 1})
    assert (again["decision"], again["result"]) == ("replay", first["result"])
    with closing(sqlite3.connect(terminal.folder / "orders.db")) as orders:
        assert orders.execute("SELECT item, quantity FROM orders").fetchall() == [("dosa", 2)]

    told = terminal.run(telling)
    for event in ("effect.executing", "effect.succeeded"):
        assert event in told
    assert told.splitlines()[-1] == "Tools: place_order"


def test_what_the_readme_lints_has_no_findings_and_the_tool_above_without_its_description_has_one(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """Exit status 0 for what a clone has; 1 for one warning, as the page says."""
    readme = page("README.md")
    (linting,) = readme.blocks("Names that lose protection")
    said = " ".join(readme.section("Names that lose protection").split())
    assert "Nothing is found there, and the exit status is 0." in said
    assert "makes it 1: the tool above without its description" in said
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(linting)[1:]) == 0
    assert capfd.readouterr().out.endswith("no findings\n")
    (source,) = readme.blocks("A merchant in ten lines", "python")
    (tmp_path / "shop.py").write_text(source.replace(', description="Order an item."', ""), encoding="utf-8")
    assert main(["lint", str(tmp_path / "shop.py")]) == 1
    assert "OG303" in capfd.readouterr().out
