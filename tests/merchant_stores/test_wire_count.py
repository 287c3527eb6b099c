"""What `once` adds to an order insert, counted on the wire to a real PostgreSQL."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.sdk.orders import ORDERS, makers
from benchmarks.sdk.wire_count import counted
from merchant_sdk.stores.postgres import PsycopgStore

# name: statements, round trips. The bare insert is BEGIN, INSERT, COMMIT.
COSTS = {
    "bare": (3, 3),
    "once": (5, 3),
    "once, reply known": (4, 3),
    "once and bind": (7, 4),
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
                place()
            count.clear()
            place()
            found[name] = (len(count.statements), count.round_trips)
    assert found == COSTS
