"""How often the words heuristic is right on names from repositories that had no part in each other."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest


def test_p3_2_the_four_figures_hold_on_the_labelled_names(accuracy: ModuleType, labelled_names: Path) -> None:
    """3.2: recall of mutating tools and false alarms on reads, over all rows and as the mean over companies."""
    figures = accuracy.measure(labelled_names)
    assert figures.recall >= 0.990
    assert figures.mean_recall >= 0.990
    assert figures.false_positives <= 0.025
    assert figures.mean_false_positives <= 0.025


def test_p3_1_the_platform_heuristic_misses_about_28_percent(accuracy: ModuleType, labelled_names: Path) -> None:
    """3.1: the figure that the promise states."""
    assert accuracy.measure(labelled_names, "platform").recall == pytest.approx(0.72, abs=0.01)


def test_the_accuracy_script_prints_the_table_and_every_miss(
    accuracy: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """3.2: whoever changes a word sees which names it moved."""
    labelled = tmp_path / "names.csv"
    labelled.write_text("name,effect,repo\nget_x,write,a/a\ncreate_x,read,a/a\nlist_x,read,a/a\npay_x,write,a/a\n")
    assert accuracy.main([str(labelled)]) == 0
    printed = capsys.readouterr().out
    listed = [line.split()[:4] for line in printed.partition("got wrong:")[2].splitlines() if line]
    assert listed == [["missed", "write", "a/a", "get_x"], ["false", "alarm", "a/a", "create_x"]]
    assert "'get' only fetches" in printed
    assert "platform" in printed


def test_the_accuracy_script_gives_both_heuristics_as_json(
    accuracy: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """3.1, 3.2: figures and misses of both rules, null where there is nothing to divide by."""
    labelled = tmp_path / "names.csv"
    labelled.write_text("name,effect,repo\nget_settings,read,a/a\nfinalise_x,write,a/a\n")
    assert accuracy.main([str(labelled), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["words"]["recall"] == 1.0
    assert found["platform"]["companies"]["a/a"]["missed"] == ["finalise_x"]
    assert found["platform"]["companies"]["a/a"]["wrongly_protected"] == ["get_settings"]
    assert found["words"]["mean_recall"] is None


@pytest.mark.parametrize("text", ["name,effect,repo\nx,maybe,a/a\n", "nom,effect\nx,read\n"])
def test_the_accuracy_script_says_what_a_wrong_file_lacks(
    accuracy: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """One line, exit status 2."""
    labelled = tmp_path / "names.csv"
    labelled.write_text(text)
    assert accuracy.main([str(labelled)]) == 2
    assert "it needs the columns name, effect, repo" in capsys.readouterr().err
