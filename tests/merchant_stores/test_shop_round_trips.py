"""A tool whose `key` needs only the call has its purchase claimed with the call: no round trip more than a bare order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from benchmarks.sdk.wire_count import counted
from merchant_sdk import Line, Refused, RequestKey, Shop, request_key
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.wire import Call, Context

SECRET = "whsec_" + "A" * 43 + "="
BARE = 3
"""Round trips of BEGIN, INSERT and COMMIT."""

Key = Callable[..., Any]


def purchase(buyer: str, item: str) -> RequestKey:
    return request_key("order", buyer=buyer, cart=[Line(item, 1)], window_s=60)


def from_the_call(work: Any, item: str) -> RequestKey:
    return purchase(work.call.context.conversation, item)


def from_the_database(work: Any, item: str) -> RequestKey:
    row = work.db.execute("SELECT %s", [work.call.context.conversation]).fetchone()
    return purchase(row[0], item)


def from_the_database_if_it_can(work: Any, item: str) -> RequestKey:
    """Swallows what it is told too early, and would then name another purchase."""
    try:
        buyer = work.db.execute("SELECT %s", [work.call.context.conversation]).fetchone()[0]
    except Exception:
        buyer = "nobody"
    return purchase(buyer, item)


def that_refuses(work: Any, item: str) -> RequestKey:
    raise Refused("no_purchase", "There is nothing to buy.")


@contextmanager
def shop_of(conninfo: str, key: Key, asked: list[str] | None = None) -> Iterator[Shop]:
    store = PsycopgStore(conninfo, create_table=True)
    shop = Shop(store, secrets=[SECRET])
    asked = [] if asked is None else asked

    def named(work: Any, item: str) -> Any:
        asked.append(type(work).__name__)
        return key(work, item)

    @shop.tool(key=named)
    def place_order(work: Any, item: str) -> dict[str, str]:
        work.db.execute("INSERT INTO orders (buyer) VALUES (%s)", [item])
        return {"for": work.request_key.text}

    yield shop
    store.close()


def call(shop: Shop, key: str, conversation: str = "c-1") -> Any:
    asked = Call(key, "place_order", {"item": "pizza"}, Context("acme", conversation))
    return shop.run_call(asked, lambda result: result)


@pytest.mark.parametrize(
    ("key", "more"),
    [(from_the_call, 0), (from_the_database, 2), (from_the_database_if_it_can, 2)],
    ids=["the call", "the database", "the database if it can"],
)
def test_a_purchase_that_the_call_names_costs_no_round_trip(postgres_database: str, key: Key, more: int) -> None:
    """Counted on the wire, for a call that is new; the other keys ask the database, and then the purchase is claimed."""
    with counted(postgres_database) as (proxied, count), shop_of(proxied, key) as shop:
        for number in range(8):  # past the preparing of repeated statements
            count.clear()
            call(shop, f"k{number}", f"c-{number}")
    assert count.round_trips == BARE + more


@pytest.mark.parametrize(
    "key", [from_the_call, from_the_database, from_the_database_if_it_can], ids=lambda key: key.__name__
)
def test_k1_02_however_its_key_is_told_a_purchase_is_one_order(postgres_database: str, key: Key) -> None:
    """K1-02: two calls of one conversation that want the same."""
    with shop_of(postgres_database, key) as shop:
        first, second = call(shop, "k1").result, call(shop, "k2").result
    assert second["for"] == first["for"]
    assert second["already_done"]
    with psycopg.connect(postgres_database) as db:
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (1,)


def test_a_key_that_the_call_names_is_asked_once_and_another_again_with_the_work(postgres_database: str) -> None:
    for key, told in ((from_the_call, ["_Early"]), (from_the_database, ["_Early", "CallWork"])):
        asked: list[str] = []
        with shop_of(postgres_database, key, asked) as shop:
            call(shop, f"k-{key.__name__}", key.__name__)
        assert asked == told


def test_what_a_key_refuses_is_told_when_its_turn_comes(postgres_database: str) -> None:
    """After the look at the call itself: one that was answered is answered again, whatever its key says today (4.10)."""
    with shop_of(postgres_database, from_the_call) as shop:
        answered = call(shop, "k1")
    with shop_of(postgres_database, that_refuses) as shop:
        assert call(shop, "k1").body == answered.body
        with pytest.raises(Refused, match="nothing to buy"):
            call(shop, "k2")
