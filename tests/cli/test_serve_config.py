"""Folders of settings that are not what they should be: `oncegate serve` does not start without them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def refused(tmp_path: Path, *flags: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli", "serve", "--dev", "--ledger", "memory", "--port", "0", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("made", [False, True], ids=["missing", "a file"])
def test_a_folder_that_is_named_and_is_none_is_refused(tmp_path: Path, made: bool) -> None:
    """A misspelt --config would be a gateway without its merchants, settings and rules."""
    if made:
        (tmp_path / "confg").write_text("")
    assert "--config confg: there is no such folder" in refused(tmp_path, "--config", "confg")


def test_merchants_that_are_no_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "merchants").write_text("")
    assert "config/merchants: is not a folder" in refused(tmp_path)


def test_a_wrong_ledger_is_said_of_the_flag_that_named_it(tmp_path: Path) -> None:
    assert "--ledger (ledger.url)" in refused(tmp_path, "--ledger", "redis://h:99999/0")
