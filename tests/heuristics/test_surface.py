"""The package's public names, suggestions and reports."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

import heuristics
from heuristics import Verdict, classify, nearest
from heuristics.report import as_dict, as_text


def test_all_is_what_is_visible() -> None:
    """What the package shows is what it promises, and the other way round."""
    visible = {
        name
        for name, value in vars(heuristics).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert visible == set(heuristics.__all__)
    assert sorted(heuristics.__all__) == heuristics.__all__


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("place_oder", "place_order"),
        ("placeOrder", "place_order"),
        ("PLACE-ORDER", "place_order"),
        ("cancel_ordre", "cancel_order"),
    ],
)
def test_a_misspelt_name_is_offered_its_nearest(name: str, expected: str) -> None:
    """8: a 404 `unknown_tool` offers the nearest names, the likeliest first."""
    assert nearest(name, ["cancel_order", "get_cart", "place_order"])[0] == expected


def test_suggestions_are_few_and_in_a_stable_order() -> None:
    """8: at most as many as asked for, and the same whatever the order of the known names."""
    known = [f"place_order_{letter}" for letter in "fedcba"]
    assert nearest("place_order", known) == nearest("place_order", reversed(known))
    assert len(nearest("place_order", known)) == 3
    assert len(nearest("place_order", known, limit=1)) == 1


@pytest.mark.parametrize("name", ["", "🛒", "zzzzzz", "x" * 10_000])
def test_a_name_like_no_other_is_offered_nothing(name: str) -> None:
    """8: no suggestion is better than a wrong one."""
    assert nearest(name, ["place_order", "get_cart"]) == []
    assert nearest("place_order", ["place_order"], limit=0) == []
    assert nearest("place_order", []) == []


def test_3_3_a_report_line_names_verdict_reason_and_source() -> None:
    """3.3: the verdict names the rule that gave it and why."""
    line = as_text("finalise_basket", classify("finalise_basket"))
    assert line.startswith("side-effecting  finalise_basket  ")
    assert line.endswith("[heuristic:words]")
    assert as_text("get_cart", classify("get_cart")).startswith("read-only       get_cart  ")


@pytest.mark.parametrize("name", ["a\nread-only  b", "\x1b[2Jx", "\u202eteg", "\ud800"])
def test_a_name_cannot_rewrite_the_line_that_reports_it(name: str) -> None:
    """9.4: control, bidirectional and broken characters are shown as escapes."""
    line = as_text(name, Verdict(True, "company", f"override for the exact name {name}", None))
    assert line.isprintable()


def test_3_3_a_reported_object_has_the_wires_shape() -> None:
    """3.3: the fields of `verdict` on the wire, with the name."""
    reported = as_dict("pay_bill", classify("pay_bill"))
    assert list(reported) == ["name", "side_effecting", "source", "reason", "verb"]
    assert json.loads(json.dumps(reported))["verb"] == "pay"
