"""Python modules that declare tools with the merchant SDK, read without importing them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from heuristics.formats import UnreadableSource, find_tools, read_tools

ROOT = Path(__file__).parents[2]

MODULE = '''\
"""A shop."""
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, Optional

from pydantic import BaseModel, Field

from merchant_sdk import Arg, CallWork, Shop

raise SystemExit("this is never run")

shop = Shop("shop.db", secrets=[])
app = FastAPI()


class Size(enum.StrEnum):
    SMALL = "s"
    LARGE = "l"


class Line(BaseModel):
    sku: str = Field(min_length=1)
    quantity: int = 1
    parts: list["Line"] = []


@shop.tool(key=lambda work, **_: None, on_repeat="hold", idempotency="safe_to_retry")
async def place_order(
    work: CallWork, lines: list[Line], total: Decimal, *, size: Size = Size.SMALL, note: Optional[str] = None
) -> dict:
    """Place an order.

    It costs money.
    """


@shop.tool(name="größe_finden", side_effecting=False, description="Finds")
def find(work, a: int | None, b: Literal["x", "y"], c: Annotated[float, Arg("How much", minimum=0)], d: dict[str, bool], e):
    ...


@app.tool()
def other(a: int): ...


@app.get("/")
def page(): ...
'''


def test_tools_come_from_the_shops_decorator_alone_and_nothing_is_run() -> None:
    order, find = read_tools(MODULE.encode(), "shop.py")
    assert (order.name, order.description, order.side_effecting) == (
        "place_order",
        "Place an order.\n\nIt costs money.",
        True,
    )
    assert order.extras == {"on_repeat": "hold", "idempotency": "safe_to_retry", "key": True}
    assert (find.name, find.description, find.side_effecting) == ("größe_finden", "Finds", False)
    assert [tool.name for tool in read_tools(MODULE.encode(), "shop.py", format="python")][-1] == "other"


def test_parameters_come_from_annotations() -> None:
    order, find = read_tools(MODULE.encode(), "shop.py")
    assert order.parameters == {
        "type": "object",
        "properties": {
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
            "total": {"type": "number", "format": "decimal"},
            "size": {"$ref": "#/$defs/Size"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["lines", "total"],
        "additionalProperties": False,
        "$defs": {
            "Line": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string", "minLength": 1},
                    "quantity": {"type": "integer"},
                    "parts": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
                },
                "required": ["sku"],
            },
            "Size": {"enum": ["s", "l"]},
        },
    }
    assert find.parameters is not None
    assert find.parameters["properties"] == {
        "a": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "b": {"enum": ["x", "y"]},
        "c": {"type": "number", "description": "How much", "minimum": 0},
        "d": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "e": {},
    }


@pytest.mark.parametrize(
    ("tool", "pointer", "written"),
    [
        (0, "", "shop.tool(key"),
        (0, "/name", "place_order(\n"),
        (0, "/description", '"""Place'),
        (0, "/parameters/properties/total", "total: Decimal"),
        (1, "/name", '"größe_finden"'),
        (1, "/description", '"Finds"'),
        (1, "/parameters", "find(work"),
        (1, "/parameters/properties/d", "d: dict"),
    ],
)
def test_every_part_has_its_line_and_column_in_characters(tool: int, pointer: str, written: str) -> None:
    place = read_tools(MODULE.encode(), "shop.py")[tool].places[pointer]
    offset = MODULE.index(written)
    assert (place.line, place.column) == (MODULE.count("\n", 0, offset) + 1, offset - MODULE.rfind("\n", 0, offset))


def test_the_example_that_ships_is_read() -> None:
    tool = read_tools((ROOT / "examples/merchant_ten_lines.py").read_bytes(), "m.py")[0]
    assert (tool.name, tool.side_effecting, tool.extras) == ("place_order", True, {"key": "purchase"})
    assert list((tool.parameters or {})["properties"]) == ["item", "quantity"]


def test_a_shop_from_another_module_is_known_by_what_only_the_sdk_takes(
    refusal: Callable[..., UnreadableSource],
) -> None:
    text = "from .shop import shop\n\n@shop.tool({})\ndef a(work): ...\n"
    assert read_tools(text.format("side_effecting=False").encode(), "a.py")[0].name == "a"
    assert "declares no tools" in refusal(text.format("")).message
    assert find_tools(text.format("").encode(), "a.py") is None
