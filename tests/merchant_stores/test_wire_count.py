"""What `once` adds to an order insert, counted on the wire to a real PostgreSQL."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.sdk.orders import ORDERS, makers
from benchmarks.sdk.wire_count import counted
from merchant_sdk import CallKey
from merchant_sdk.stores.postgres import PsycopgStore

# name: statements, round trips. The bare insert is BEGIN, INSERT, COMMIT.
COSTS = {
    "bare": (3, 3),
    "once": (5, 3),
    "once, reply known": (4, 3),
    "once and bind": (7, 3),
    "once and bind, reply known": (5, 3),
    "bare, SQLAlchemy": (3, 3),
    "once, SQLAlchemy": (5, 3),
    "once, SQLAlchemy, reply known": (4, 3),
    "bare, SQLAlchemy async": (3, 3),
    "once, SQLAlchemy async": (5, 3),
    "once, SQLAlchemy async, reply known": (4, 3),
}


def test_the_common_path_costs_no_round_trip_and_one_statement_where_the_reply_is_known(postgres_database: str) -> None:
    """The claim travels with BEGIN and the reply with COMMIT; a reply that is known beforehand is in the claim."""
    PsycopgStore(postgres_database, create_table=True, schema=ORDERS).close()
    with counted(postgres_database) as (proxied, count), ExitStack() as closing:
        found = {}
        for name, make in makers(proxied, closing).items():
            place = make()
            for _ in range(8):
                place(uuid4().hex)
            count.clear()
            place(uuid4().hex)
            found[name] = (len(count.statements), count.round_trips)
    assert found == COSTS


PAGE = Path(__file__).parents[2] / "docs" / "merchants" / "databases.md"
NUMBERED = "CREATE TABLE numbered (id bigserial PRIMARY KEY, number text UNIQUE, buyer text NOT NULL)"


def test_the_pages_first_way_costs_one_statement_and_its_second_two(postgres_database: str) -> None:
    """The page's own examples, run and counted: what a shop copies is what it pays."""
    PsycopgStore(postgres_database, create_table=True, schema=NUMBERED).close()
    told = []
    for fragment in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)[:2]:
        names: dict[str, Any] = {}
        exec(compile(fragment.replace("INTO orders", "INTO numbered"), PAGE.name, "exec", dont_inherit=True), names)
        with counted(postgres_database) as (proxied, count):
            store = PsycopgStore(proxied)
            for number in range(8):
                key = f"{len(told)} {number}"
                count.clear()
                first = names["place_order"](store, CallKey(key, "f"), "b-1")
                told_by_wire = (len(count.statements), count.round_trips)
                assert names["place_order"](store, CallKey(key, "f"), "b-1") == first
            store.close()
        told.append(told_by_wire)
    assert told == [(4, 3), (5, 3)]
