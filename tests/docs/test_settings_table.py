"""docs/operations.md shows every setting as the code has it."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.settings import FIELDS, environment_name, load

SCRIPT = Path(__file__).parents[2] / "docs" / "draw_settings.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("draw_settings", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_settings_is_up_to_date(script: Any) -> None:
    """Run docs/draw_settings.py after a change of the settings."""
    page = script.PAGE.read_text(encoding="utf-8")
    assert page == script.drawn(page)


def test_every_setting_is_in_the_table(script: Any) -> None:
    """Counted on the page, not in the script."""
    shown = re.findall(r"^\| `([a-z_.]+)` \| `(.*?)` \|", script.PAGE.read_text(encoding="utf-8"), re.M)
    assert FIELDS.keys() == dict(shown).keys()
    for path, default in shown:
        section, _, key = path.rpartition(".")
        value = json.loads(default)
        if not isinstance(value, dict):
            stated = f"[{section}]\n{key} = {default}\n" if section else f"{key} = {default}\n"
            assert load({}, {}, stated) == load({}, {}, None), path
        assert environment_name(path).startswith("ONCEGATE_")


def test_a_page_without_the_marks_is_not_written(script: Any) -> None:
    """A table that went nowhere would pass for one that is up to date."""
    with pytest.raises(ValueError, match="marks"):
        script.drawn("# Operating a gateway\n")
