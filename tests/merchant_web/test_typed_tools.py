"""A tool's annotations are its JSON Schema, and what the schema lets through is what the function gets."""

from __future__ import annotations

import dataclasses
import enum
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema_rs
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.schema_shape import shape_problems
from merchant_sdk import Arg, Refused, Shop
from merchant_sdk.arguments import read_arguments, signature_of

SECRET = "whsec_" + "A" * 43 + "="


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclasses.dataclass
class Item:
    sku: Annotated[str, Arg("Which", min_length=1, max_length=5)]
    quantity: Annotated[int, Arg(minimum=1, maximum=9)] = 1
    options: dict[str, str] = dataclasses.field(default_factory=dict)


class Address(TypedDict):
    street: str
    floor: NotRequired[int]


class Model(pydantic.BaseModel):
    item: str
    size: Size = Size.SMALL
    parts: list[Model] = []


def tool(
    work: Any, items: list[Item], address: Address, size: Size, how: Literal["post", 1, None] = "post",
    note: str | None = None, weight: Decimal = Decimal(0), share: float = 0.0, gift: bool = False, extra: Any = None,
    words: Annotated[list[str], Arg(max_length=2)] | None = None, code: Annotated[str, Arg(pattern="^[a-z]+$")] = "x",
) -> None:  # fmt: skip
    """A tool with every kind of annotation."""


def of_model(work: Any, order: Model) -> None:
    """One model is all of the arguments."""


GOOD: dict[str, Any] = {"items": [{"sku": "dosa"}], "address": {"street": "MG Road"}, "size": "s"}


def test_annotations_become_a_schema_that_the_gateway_takes() -> None:
    """3.5: both the gateway's own rules and JSON Schema 2020-12 accept it."""
    for function in (tool, of_model):
        schema = signature_of(function).schema
        assert shape_problems(schema) == []
        jsonschema_rs.meta.validate(schema)
    assert signature_of(tool).schema["required"] == ["items", "address", "size"]
    assert signature_of(tool).schema["properties"]["items"]["items"] == {
        "type": "object",
        "properties": {
            "sku": {"type": "string", "minLength": 1, "maxLength": 5, "description": "Which"},
            "quantity": {"type": "integer", "minimum": 1, "maximum": 9},
            "options": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["sku"],
        "additionalProperties": False,
    }
    assert "Model" in signature_of(of_model).schema["$defs"]


def test_arguments_arrive_as_what_they_were_annotated_as() -> None:
    """Dataclasses, enums and models are made; defaults are filled in."""
    read = read_arguments(signature_of(tool), GOOD | {"weight": Decimal("1.5")})
    assert read["items"] == [Item("dosa", 1, {})]
    assert (read["size"], read["how"], read["weight"], read["code"]) == (Size.SMALL, "post", Decimal("1.5"), "x")
    order = read_arguments(signature_of(of_model), {"item": "dosa", "parts": [{"item": "vada"}]})["order"]
    assert isinstance(order, Model)
    assert order.parts[0].item == "vada"


@pytest.mark.parametrize(
    ("function", "changed", "named"),
    [
        (tool, {"items": [{"sku": "dosa"}, {"sku": ""}]}, "items[1].sku is at least"),
        (tool, {"items": [{"sku": "dosa", "quantity": 10}]}, "items[0].quantity is at most"),
        (tool, {"items": [{"sku": "dosa", "colour": "red"}]}, "items[0].colour is not known"),
        (tool, {"items": [{}]}, "items[0].sku is missing"),
        (tool, {"items": "dosa"}, "items has the wrong type: it is a list"),
        (tool, {"address": {"street": "x", "floor": "1"}}, "address.floor has the wrong type"),
        (tool, {"address": []}, "address has the wrong type: it is an object"),
        (tool, {"size": "xl"}, "size is none of the values"),
        (tool, {"how": True}, "how is none of the values"),
        (tool, {"words": ["a", "b", "c"]}, "words is at most"),
        (tool, {"words": [1]}, "words[0] has the wrong type"),
        (tool, {"code": "A"}, "code is of the form"),
        (tool, {"unheard": 1}, "unheard is not known"),
        (of_model, {"item": "x", "parts": [{"item": 7}]}, "parts[0].item does not fit"),
        (of_model, {}, "item does not fit"),
    ],
)
def test_a_wrong_argument_is_refused_by_the_name_of_its_field(function: Any, changed: Any, named: str) -> None:
    """Bad input: 422 in words, no value repeated (9.3)."""
    given_ = changed if function is of_model else GOOD | changed
    with pytest.raises(Refused) as refused:
        read_arguments(signature_of(function), given_)
    assert refused.value.code == "invalid_arguments"
    assert f": {named}" in refused.value.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.text("abS", max_size=6) | st.sampled_from(["s", "post"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["sku", "street", "a"]), inner),
    max_leaves=6,
)


@settings(max_examples=400)
@given(name=st.sampled_from(list(signature_of(tool).schema["properties"])), value=json_values)
def test_the_function_takes_what_the_schema_takes(name: str, value: Any) -> None:
    """2.9: the gateway judges by the schema, the shop by the annotation; they are one."""
    signature = signature_of(tool)
    by_schema = jsonschema_rs.is_valid(signature.schema, GOOD | {name: value})
    try:
        read_arguments(signature, GOOD | {name: value})
        by_shop = True
    except Refused:
        by_shop = False
    assert by_shop == by_schema


@pytest.mark.parametrize("annotation", [bytes, set, dict[int, str], list[bytes], complex, Literal[1.5]])
def test_an_annotation_that_json_cannot_fill_fails_at_import(annotation: Any) -> None:
    """What cannot work is found when the shop starts."""

    def broken(work: Any, item: Any) -> None: ...

    broken.__annotations__["item"] = annotation
    with pytest.raises(TypeError, match="broken: item"):
        signature_of(broken)


@dataclasses.dataclass
class Nested:
    inside: list[Nested]


@dataclasses.dataclass
class Checked:
    amount: int

    def __post_init__(self) -> None:
        if self.amount < 1:
            raise ValueError(f"{self.amount} is too little")


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (pydantic.PositiveInt, "say it with Arg"),
        (Annotated[int, pydantic.Field(ge=1)], "say it with Arg"),
        (pydantic.conint(ge=1), "say it with Arg"),
        (Annotated[dict, Arg(min_length=1)], "says nothing about an object"),
        (Annotated[str, Arg(minimum=1)], "minimum=...\\) says nothing about a string"),
        (Annotated[int, Arg(max_length=3)], "max_length=...\\) says nothing about an integer"),
        (Annotated[list[str], Arg(pattern="a")], "says nothing about an array"),
        (Annotated[bool, Arg(minimum=0)], "says nothing about a boolean"),
        (Nested, "it holds itself"),
    ],
)
def test_a_bound_that_would_not_be_kept_fails_at_import(annotation: Any, why: str) -> None:
    """A quantity of -3 must not pass because its bound was read by nobody."""

    def order(work: Any, item: Any, other: int = 1) -> None: ...

    order.__annotations__["item"] = annotation
    with pytest.raises(TypeError, match=why):
        signature_of(order)


def test_notes_that_bind_nothing_are_passed_over() -> None:
    """Annotated is other libraries' place too, also for what has no hash."""

    def order(work: Any, item: Annotated[int, {"for": "others"}, Arg(minimum=1)]) -> None: ...

    assert signature_of(order).schema["properties"]["item"] == {"type": "integer", "minimum": 1}


@pytest.mark.parametrize(
    ("annotation", "value", "named"),
    [(float, 10**400, "item is larger"), (Checked, {"amount": -77}, "item does not fit")],
)
def test_what_the_merchants_own_types_refuse_is_refused_and_no_error(annotation: Any, value: Any, named: str) -> None:
    """A 500 would leave the customer in doubt of an order that was never begun. No value is repeated (9.3)."""

    def order(work: Any, item: Any, other: int = 1) -> None: ...

    order.__annotations__["item"] = annotation
    with pytest.raises(Refused, match=named) as refused:
        read_arguments(signature_of(order), {"item": value})
    assert "77" not in refused.value.message


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    schema = "CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT)"
    return Shop(tmp_path / "shop.db", secrets=[SECRET], schema=schema, endpoint="https://shop.example/tools/")
