"""What `make help` offers is there: every program, module, script and file that a recipe calls."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
VARIABLES = dict(re.findall(r"^(\w+) :?= (.*)$", MAKEFILE, re.M))
TARGETS = {
    name: recipe
    for name, recipe in re.findall(r"^([a-z-]+):[^\n]*\n((?:\t[^\n]*\n|(?<=\\\n)[^\n]*\n)*)", MAKEFILE, re.M)
    if name != "help"
}
OFFERED = re.findall(r"^([a-z-]+):.*? ## ", MAKEFILE, re.M)
MADE_ON_THE_SPOT = {"uv"}


def recipe_of(target: str) -> str:
    """With the variables put in, but for the folder of programs, which is shown as BIN."""
    return TARGETS.get(target, "").replace("$(PYTEST)", VARIABLES["PYTEST"]).replace("$(BIN)/", "BIN/")


def is_there(module: str) -> bool:
    """A module of the repository that `python -m` can run from its root, or an installed one."""
    parts = ROOT.joinpath(*module.split("."))
    if (parts / "__main__.py").is_file() or parts.with_suffix(".py").is_file():
        return True
    return not (ROOT / module.partition(".")[0]).exists() and importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("target", [name for name in OFFERED if name != "help"])
def test_every_target_of_make_help_calls_what_exists(target: str) -> None:
    """A target that points at nothing is found here, not by a newcomer."""
    recipe = recipe_of(target)
    called = re.findall(r"BIN/([\w.-]+)((?: -m [\w.]+| [\w./-]+)?)", recipe)
    assert recipe.strip(), f"{target} has no recipe"
    for program, rest in called:
        argument = rest.split()[-1] if rest else ""
        if program == "python":
            found = is_there(argument) if " -m " in f"{rest} " else (ROOT / argument).is_file()
            assert found, f"{target} calls {argument}"
        elif program == "oncegate":
            assert argument in COMMANDS, f"{target} calls oncegate {argument}"
        elif program not in MADE_ON_THE_SPOT:
            assert Path(sys.executable).with_name(program).exists(), f"{target} calls {program}"
    for script in re.findall(r"(?<![\w/])(\.ci/[\w.-]+)", recipe):
        assert (ROOT / script).is_file(), f"{target} calls {script}"


def test_the_targets_are_read_with_their_recipes() -> None:
    """A pattern that finds no recipe would pass everything."""
    assert {"demo", "serve", "test", "check", "bench", "replay", "accuracy", "lock", "clean"} <= set(OFFERED)
    assert "BIN/python -m benchmarks.bench" in recipe_of("bench")
    assert not is_there("benchmarks.no_such")
    assert is_there("pytest")


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on PATH")
def test_make_accuracy_measures_the_file_that_it_is_given() -> None:
    """As make itself reads it; nothing is run."""
    ran = subprocess.run(
        ["make", "-n", "accuracy", "DATA=my names.csv"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert 'tests/heuristics/accuracy.py "my names.csv"' in ran.stdout
