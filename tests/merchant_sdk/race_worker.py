"""One worker process of the race: `python race_worker.py DATABASE THREADS`.

Each line on stdin is a round; every thread places the round's order and prints `<round> <order id>`. A line
`die <round>` inserts the order, prints `inside`, and waits to be killed with its transaction open.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from merchant_sdk import CallKey, Line, SQLiteStore, once, request_key


def place(store: SQLiteStore, turn: str, call: str, start: threading.Barrier, die: bool = False) -> str:
    start.wait()
    with once(store, CallKey(call, turn), now=time.time) as work:
        if not work.bind(request_key("order", buyer=turn, cart=[Line("pizza", 1)], session=turn)):
            row = work.db.execute("INSERT INTO orders (buyer, item) VALUES (?, 'pizza')", (turn,))
            if die:
                print("inside", flush=True)
                sys.stdin.readline()
            work.reply({"order_id": row.lastrowid})
    return f"{turn} {work.answer.result['order_id']}"


def main(database: str, threads: int) -> None:
    store = SQLiteStore(database, busy_timeout_s=60)
    with ThreadPoolExecutor(threads) as pool:
        for line in iter(sys.stdin.readline, ""):
            verb, _, turn = line.strip().rpartition(" ")
            if verb == "die":
                place(store, turn, f"doomed-{turn}", threading.Barrier(1), die=True)
                continue
            start = threading.Barrier(threads)
            # Half the threads of every process share one gateway key, the others bring keys of their own.
            calls = [turn if n % 2 else f"{turn} {id(store)} {n}" for n in range(threads)]
            for reply in pool.map(lambda call, t=turn, s=start: place(store, t, call, s), calls):
                print(reply, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
