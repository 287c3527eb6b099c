"""One worker process of the race: `python -m benchmarks.sdk.race_worker DATABASE THREADS`.

A line `<round>` on stdin is a round: every thread places the round's order, and `<round> <order id>` is printed
for each. `die <round>` inserts the order, prints `inside`, and waits in the open transaction to be killed.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from merchant_sdk import CallKey, Line, SQLiteStore, once, request_key
from merchant_sdk.store import Store


def open_store(database: str) -> Store:
    """A PostgreSQL by its connection string, or a SQLite file by its path. The worker's order is one INSERT in both."""
    if "=" not in database:
        return SQLiteStore(database, busy_timeout_s=60)
    from merchant_sdk.stores.postgres import PsycopgStore

    return PsycopgStore(database, create_table=True)


def close_store(store: Store) -> None:
    """What it kept open."""
    close = getattr(store, "close", None)
    if close is not None:
        close()


def place(
    store: Store, turn: str, call: str, start: threading.Barrier, *, expects: bool = True, die: bool = False
) -> str:
    """The number of the round's order, whoever placed it."""
    start.wait()
    purchase = request_key("order", buyer=turn, cart=[Line("pizza", 1)], session=turn)
    with once(store, CallKey(call, turn), now=time.time, expect=purchase if expects else None) as work:
        if not work.bind(purchase):
            row = work.db.execute(f"INSERT INTO orders (buyer) VALUES ('{turn}') RETURNING id").fetchone()
            if die:
                print("inside", flush=True)
                sys.stdin.readline()
            work.reply({"order_id": row[0]})
    return f"{turn} {work.answer.result['order_id']}"


def main(database: str, threads: int) -> None:
    """Rounds until stdin ends."""
    store = open_store(database)
    with ThreadPoolExecutor(threads) as pool:
        for line in iter(sys.stdin.readline, ""):
            verb, _, turn = line.strip().rpartition(" ")
            if verb == "die":
                place(store, turn, f"doomed-{turn}", threading.Barrier(1), die=True)
                continue
            start = threading.Barrier(threads)
            # Half the threads of every process share one call key, the others bring keys of their own.
            calls = [turn if n % 2 else f"{turn} {id(store)} {n}" for n in range(threads)]
            # And some of each claim their purchase with the call, the others after it.
            expects = [n % 4 < 2 for n in range(threads)]
            for reply in pool.map(lambda call, e, t=turn, s=start: place(store, t, call, s, expects=e), calls, expects):
                print(reply, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
