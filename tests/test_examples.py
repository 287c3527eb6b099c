"""The profiles of tests/conftest.py: the same examples in every process, or new ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

CONFTEST = Path(__file__).with_name("conftest.py")
CHOSEN = "same-examples"
SEARCH = """
import runpy, sys
from hypothesis import given, settings, strategies as st
runpy.run_path(sys.argv[1])
settings.load_profile(sys.argv[2])
sys.path.insert(0, "modules")
if sys.argv[3:]:
    __import__(sys.argv[3])

@given(st.tuples(st.integers(), st.text(), st.lists(st.floats(allow_nan=False)), st.binary()))
def shown(example):
    print(ascii(example))

shown()
"""


def examples(folder: Path, profile: str, hash_seed: str, *loaded: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", SEARCH, str(CONFTEST), profile, *loaded],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("\n") > 50
    return ran.stdout


def test_the_same_examples_are_tried_whatever_else_is_loaded_and_however_sets_are_ordered(tmp_path: Path) -> None:
    module = tmp_path / "modules" / "shop.py"
    module.parent.mkdir()
    module.write_text("\n".join(f"N{n} = {n}_000_007, {n}.125, 'a text {n}', b'bytes {n}'" for n in range(1, 200)))
    assert examples(tmp_path, CHOSEN, "1") == examples(tmp_path, CHOSEN, "2", "shop")


def test_new_examples_are_new_ones(tmp_path: Path) -> None:
    """Two searches that are alike would be no search: 128 random bits part them."""
    assert examples(tmp_path, "new-examples", "0") != examples(tmp_path, "new-examples", "0")


@pytest.mark.parametrize("profile", ["same-examples", "new-examples"])
def test_no_profile_judges_how_fast_the_machine_is_and_each_says_how_to_try_a_failure_again(profile: str) -> None:
    chosen = settings.get_profile(profile)
    assert chosen.deadline is None
    assert HealthCheck.too_slow in chosen.suppress_health_check
    assert chosen.print_blob
    assert chosen.derandomize == (profile == CHOSEN)


def test_one_of_the_profiles_is_in_force() -> None:
    """Whatever Hypothesis itself would choose, here or where it finds that it runs in CI."""
    assert settings.get_current_profile_name() in {"same-examples", "new-examples"}
