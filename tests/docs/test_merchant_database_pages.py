"""docs/merchants/*.md: their fragments run, and the key examples are what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs" / "merchants").glob("*.md"))
FRAGMENTS = [
    pytest.param(fragment, id=f"{page.stem}-{number}")
    for page in PAGES
    if page.stem in ("databases", "frameworks", "keys")
    for number, fragment in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S))
]


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_every_fragment_runs(fragment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports resolve, keys are made, functions are defined."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_SECRET", "whsec_" + "A" * 43 + "=")
    names: dict[str, Any] = {"__name__": "fragment"}
    exec(compile(fragment, "docs/merchants", "exec", dont_inherit=True), names)
    assert {"key", "place_order"} & names.keys()
