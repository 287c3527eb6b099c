"""3.5: the gateway's rules speak when a shop defines a tool, where they are installed, and never stop it."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from merchant_sdk import Shop, ToolRemark, found_lint

ROOT = Path(__file__).parents[2]
SECRET = "whsec_" + "A" * 43 + "="
(DECLARED,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][found_lint.GROUP].items()

BROKEN = """\
def raises(registration): raise RuntimeError("bad rules")
def gives_no_list(registration): return 7
def fine(registration): return ["say more"]
"""


@pytest.fixture(autouse=True)
def looked_for_anew() -> Iterator[None]:
    found_lint._installed.cache_clear()
    yield
    found_lint._installed.cache_clear()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Entry points of the group, by the names they lead to."""
    (tmp_path / "broken_lints.py").write_text(BROKEN)
    (tmp_path / "fails_at_import.py").write_text("1 / 0")
    (tmp_path / "misses_something.py").write_text("import a_library_that_nobody_has")
    monkeypatch.syspath_prepend(tmp_path)

    def points(*values: str) -> None:
        made = EntryPoints(EntryPoint(value, value, found_lint.GROUP) for value in values)
        monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: made.select(group=group))

    return points


def define(tmp_path: Path, name: str = "do_it", doc: str = "", **given: Any) -> list[warnings.WarningMessage]:
    def tool(work: Any, price: float = 1.0) -> None: ...

    tool.__doc__ = doc
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        shop = Shop(tmp_path / "shop.db", secrets=[SECRET], **given)
        shop.tool(name=name)(tool)
    assert list(shop.tools) == [name]
    return seen


def test_p3_5_the_projects_own_rules_are_declared_and_speak(install: Any, tmp_path: Path) -> None:
    """3.5: what pyproject declares is what is found; each remark has its rule's code and the merchant's own line."""
    install(DECLARED[1])
    seen = define(tmp_path)
    assert {warning.category for warning in seen} == {ToolRemark}
    assert {warning.filename for warning in seen} == {__file__}
    told = [str(warning.message) for warning in seen]
    assert {message.split(" ")[1] for message in told} >= {"OG303", "OG305"}
    assert all(message.startswith("do_it: OG") for message in told)


def test_p3_5_notes_are_left_to_registration(install: Any, tmp_path: Path) -> None:
    """3.5: a tool that registers without a warning defines without one."""
    install(DECLARED[1])

    def place_order(work: Any, item: str) -> None:
        """Order an item."""

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Shop(tmp_path / "shop.db", secrets=[SECRET]).tool()(place_order)


def test_none_turns_it_off_and_a_lint_of_ones_own_takes_its_place(install: Any, tmp_path: Path) -> None:
    """What was handed in is asked alone."""
    install(DECLARED[1])
    assert define(tmp_path, lint=None) == []
    assert [str(warning.message) for warning in define(tmp_path, lint=lambda body: ["no"])] == ["do_it: no"]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("broken_lints:raises", "the lint broken_lints:raises failed on do_it: RuntimeError"),
        ("broken_lints:gives_no_list", "the lint broken_lints:gives_no_list failed on do_it: TypeError"),
        ("broken_lints:is_not_there", "the lint broken_lints:is_not_there cannot be loaded: AttributeError"),
        ("fails_at_import:remarks", "the lint fails_at_import:remarks cannot be loaded: ZeroDivisionError"),
        ("misses_something:remarks", None),
        ("not_installed:remarks", None),
        (None, None),
    ],
)
def test_a_broken_lint_stops_neither_the_shop_nor_the_others(
    install: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, value: str | None, line: str | None
) -> None:
    """A line in the log where somebody has to mend it, silence where nothing is installed."""
    install(*[value] * (value is not None), "broken_lints:fine")
    with caplog.at_level(logging.INFO, "merchant_sdk"):
        assert [str(warning.message) for warning in define(tmp_path)] == ["do_it: say more"]
    assert [record.getMessage() for record in caplog.records] == [line] * (line is not None)


def test_installed_packages_that_cannot_be_read_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One broken package of the environment must not keep a shop from starting."""

    def unreadable(*, group: str) -> Any:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text")

    monkeypatch.setattr("importlib.metadata.entry_points", unreadable)
    assert define(tmp_path) == []
    assert [r.getMessage() for r in caplog.records] == ["installed lints cannot be looked for: UnicodeDecodeError"]


def test_nothing_is_looked_for_before_a_tool_is_defined(tmp_path: Path) -> None:
    """Importing the SDK and making a Shop cost what they did; with `lint=None` a tool does too."""
    look = (
        "import sys; import merchant_sdk as m\n"
        f"shop = m.Shop({str(tmp_path / 'shop.db')!r}, secrets=[{SECRET!r}], lint=None)\n"
        "shop.tool(name='do_it')(lambda work: None)\n"
        f"shop = m.Shop({str(tmp_path / 'shop.db')!r}, secrets=[{SECRET!r}])\n"
        "print(*{'importlib.metadata', 'heuristics', 'gateway'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
