"""A tool's annotations are its JSON Schema, and what the schema lets through is what the function gets."""

from __future__ import annotations

import dataclasses
import enum
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema_rs
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.schema_shape import shape_problems
from gateway.service.declarations import read_tool
from merchant_sdk import Arg, CallKey, Line, Misuse, Refused, RequestKey, Shop, request_key
from merchant_sdk.arguments import read_arguments, signature_of
from merchant_sdk.wire import Call, Context

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


def test_the_manifest_is_what_the_gateway_reads(shop: Shop) -> None:
    """3.5: each body is a registration, with the status endpoint for what has an effect."""

    @shop.tool(on_repeat="run", idempotency="safe_to_retry", timeout_s=5)
    def add_to_cart(work: Any, item: str) -> None:
        """Put an item into the cart.

        On two lines.
        """

    @shop.tool(side_effecting=False, description="The menu")
    def get_menu(read: Any) -> None: ...

    add, menu = shop.manifest()
    assert (add.pop("name"), menu.pop("name")) == ("add_to_cart", "get_menu")
    assert add["description"] == "Put an item into the cart.\n\nOn two lines."
    assert add["status_endpoint"] == "https://shop.example/tools/status"
    assert "status_endpoint" not in menu
    assert read_tool(add).side_effecting is True
    assert read_tool(menu).side_effecting is False
    assert shop.manifest("https://other.example")[0]["endpoint"] == "https://other.example"


def test_without_an_endpoint_there_is_no_manifest(tmp_path: Path) -> None:
    """3.5: said before a gateway is asked."""
    with pytest.raises(ValueError, match="endpoint"):
        Shop(tmp_path / "shop.db", secrets=[SECRET]).manifest()


def test_a_lint_that_is_handed_in_speaks_when_a_tool_is_defined(tmp_path: Path) -> None:
    """3.5: the SDK knows no rules of its own; whoever has some may hand them in."""
    shop = Shop(tmp_path / "shop.db", secrets=[SECRET], lint=lambda body: [f"rename {body['name']}"])
    with pytest.warns(UserWarning, match="do_it: rename do_it"):
        shop.tool()(lambda_named("do_it"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Shop(tmp_path / "shop.db", secrets=[SECRET], lint=None).tool()(lambda_named("do_it"))


def lambda_named(name: str) -> Any:
    def made(work: Any) -> None: ...

    made.__name__ = name
    return made


def call_of(shop: Shop, key: str, conversation: str = "c-1") -> Any:
    call = Call(key, "place_order", {}, Context("acme", conversation))
    assert isinstance(call.call_key(), CallKey)
    return shop.run_call(call, lambda result: result)


def count(shop: Shop) -> int:
    with shop.store.reading() as db:
        return int(db.execute("SELECT count(*) FROM orders").fetchone()[0])


def place_order(work: Any) -> Any:
    return {"order_id": work.db.execute("INSERT INTO orders (buyer) VALUES ('b')").lastrowid}


def purchase(work: Any) -> RequestKey:
    return request_key("order", buyer="b", cart=[Line("dosa", 1)], window_s=60)


def test_who_may_not_ask_gets_neither_an_order_nor_an_earlier_ones_answer(shop: Shop) -> None:
    """9.1 at the shop: an instruction is not an authorisation, and a purchase found is not one either."""

    def only_the_first(work: Any) -> Any:
        return work.call.context.conversation == "c-1"

    shop.tool(key=purchase, authorise=only_the_first)(place_order)
    assert call_of(shop, "k1").result == {"order_id": 1}
    with pytest.raises(Refused, match="does not allow") as refused:
        call_of(shop, "k2", "c-2")
    assert refused.value.code == "not_authorised"
    assert count(shop) == 1


@pytest.mark.parametrize("answer", [False, Refused("not_yours", "Ask as yourself.")])
def test_who_may_not_ask_is_shown_nothing_by_a_tool_that_only_reads(shop: Shop, answer: Any) -> None:
    """9.1 at the shop: somebody else's order is not read out either."""
    shown: list[str] = []

    def only_the_first(read: Any) -> Any:
        if read.call.context.conversation == "c-1":
            return True
        if isinstance(answer, Refused):
            raise answer
        return answer

    @shop.tool(side_effecting=False, authorise=only_the_first)
    def show_order(read: Any) -> str:
        shown.append(read.call.context.conversation)
        return "one dosa"

    for conversation in ("c-1", "c-2"):
        call = Call("read", "show_order", {}, Context("acme", conversation))
        if conversation == "c-1":
            assert shop.run_read(call, lambda result: result) == '"one dosa"'
        else:
            with pytest.raises(Refused) as refused:
                shop.run_read(call, lambda result: result)
            assert refused.value.code == ("not_yours" if isinstance(answer, Refused) else "not_authorised")
    assert shown == ["c-1"]


@pytest.mark.parametrize("said", [False, 0, "", [], Decimal(0)])
@pytest.mark.parametrize("hook", ["authorise", "accept"])
def test_a_hook_that_says_anything_but_yes_or_nothing_says_no(shop: Shop, hook: str, said: Any) -> None:
    """9.1 at the shop: `return stock.count(item)` is a no when none is left."""
    hooks: dict[str, Any] = {hook: lambda work: said}
    shop.tool(**hooks)(place_order)
    with pytest.raises(Refused, match="does not allow"):
        call_of(shop, "k1")
    assert count(shop) == 0


def test_a_hooks_answer_that_nobody_awaited_is_no_yes(shop: Shop) -> None:
    """An object that could be awaited is true, whatever it would say."""

    class Later:
        def __await__(self) -> Any:
            yield False

    for hook in ("authorise", "accept", "key"):
        shop.tools.clear()
        hooks: dict[str, Any] = {hook: lambda work: Later()}
        shop.tool(**hooks)(place_order)
        with pytest.raises(Misuse, match="not awaited"):
            call_of(shop, hook)
    assert count(shop) == 0


@pytest.mark.parametrize("made", [None, "O-1"])
def test_a_key_that_is_none_is_told_as_such(shop: Shop, made: Any) -> None:
    """A `return` that was forgotten; nothing is ordered without the guard that the tool asks for."""
    shop.tool(key=lambda work: made)(place_order)
    with pytest.raises(Misuse, match=f"key returns what request_key.* not {type(made).__name__}"):
        call_of(shop, "k1")
    assert count(shop) == 0


def test_a_hook_that_could_not_be_called_fails_at_import(shop: Shop) -> None:
    """It takes what the function takes."""
    hooks: list[tuple[dict[str, Any], str]] = [
        ({"accept": lambda work, item: True}, "accept takes what"),
        ({"authorise": lambda: True}, "authorise takes what"),
    ]
    for given_, why in hooks:
        with pytest.raises(TypeError, match=why):
            shop.tool(**given_)(place_order)
    assert shop.tools == {}


def test_what_the_shop_will_not_do_now_is_refused_in_words_but_repeats_get_their_answer(shop: Shop) -> None:
    """Stock that the first order used up is no reason to deny its repeat; a refusal stays with its call."""
    stock = [1]

    def in_stock(work: Any) -> None:
        if not stock[0]:
            raise Refused("sold_out", "Sorry, sold out.")
        stock[0] -= 1

    shop.tool(key=purchase, accept=in_stock)(place_order)
    assert call_of(shop, "k1").result == {"order_id": 1}
    assert call_of(shop, "k2").result["already_done"]
    shop.tools.clear()
    shop.tool(accept=in_stock)(place_order)
    for _ in range(2):
        with pytest.raises(Refused, match="sold out"):
            call_of(shop, "k3")
        stock[0] = 5  # the twin of a call that was refused must not succeed later
    assert count(shop) == 1
