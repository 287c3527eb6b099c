"""docs/architecture.md names what there is: every package of the gateway, and every module of three of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DIAGRAM = PAGE.split("```")[1]
ROWS = re.findall(r"^\| `gateway/(\w+)`[^|]*\| (.*) \|$", PAGE, re.M)


def there(folder: Path) -> set[str]:
    """Its modules, and its packages."""
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    return modules | {file.parent.name for file in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("package", ["core", "service", "adapters"])
def test_the_table_names_the_modules_that_are_there_each_once(package: str) -> None:
    jobs = " ".join(jobs for folder, jobs in ROWS if folder == package)
    named = re.findall(r"`(\w+)`", jobs)
    assert sorted(named) == sorted(there(ROOT / "gateway" / package))


def test_the_diagram_names_what_the_gateway_is_made_of() -> None:
    named: set[str] = set()
    for group, single in re.findall(r"gateway/(?:\{([\w,]+)\}|(\w+))", DIAGRAM):
        named.update(group.split(",") if group else [single])
    assert named == there(ROOT / "gateway")
