"""What a shop says of its tools, and what their hooks let through."""

from __future__ import annotations

import dataclasses
import enum
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from gateway.service.declarations import read_tool
from merchant_sdk import Arg, CallKey, Line, Misuse, Refused, RequestKey, Shop, request_key
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


def tool(
    work: Any, items: list[Item], address: Address, size: Size, how: Literal["post", 1, None] = "post",
    note: str | None = None, weight: Decimal = Decimal(0), share: float = 0.0, gift: bool = False, extra: Any = None,
    words: Annotated[list[str], Arg(max_length=2)] | None = None, code: Annotated[str, Arg(pattern="^[a-z]+$")] = "x",
) -> None:  # fmt: skip
    """A tool with every kind of annotation."""


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
