"""What every store promises, whichever database and library is below."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from merchant_sdk import KeyConflict, Line, Refused, RequestKey, issue_token, redeem, request_key
from merchant_sdk.call_status import CLOCKS_DIFFER_S

TOKEN_SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
START = 1_796_000_000.0
DAY_S = 86_400.0
# SQLite has one writer; the others are tried where their isolation differs.
PRUNES_BESIDE = ["sqlite3", "psycopg", "psycopg-repeatable-read", "psycopg-serializable", "sqlalchemy-mariadb"]
PURCHASE = {"purpose": "order", "buyer": "b-1", "cart": [Line("pizza", 1)]}
WAIT_S = 30.0


def derived(**changed: Any) -> RequestKey:
    return request_key("order", **{"buyer": "b-1", "cart": [Line("pizza", 1)], "window_s": 1200, **changed})


def together(count: int, act: Callable[[int], Any]) -> list[Any]:
    """`act(0)` … at the same moment, each in a thread; their results."""
    start = threading.Barrier(count)

    def run(number: int) -> Any:
        start.wait(WAIT_S)
        while True:
            try:
                return act(number)
            except Exception as refused:
                if not _refused_commit(refused):
                    raise

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def _refused_commit(error: BaseException) -> bool:
    """Whether a serializable database refused the commit (SQLSTATE 40001): nothing is stored, and whoever called comes
    again with the same key, as a gateway does."""
    cause = getattr(error, "orig", None) or error
    return getattr(cause, "sqlstate", None) == "40001"


class Inside:
    """A work that is held in its open transaction, after its insert."""

    def __init__(self, place: Callable[..., Any]) -> None:
        self.entered, self._leave = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._pool = ThreadPoolExecutor(1)
        self.outcome: Future[Any] = self._pool.submit(place, inside=self._hold)
        assert self.entered.wait(WAIT_S)

    def _hold(self, _db: Any) -> None:
        self.entered.set()
        assert self._leave.wait(WAIT_S)
        if self._error is not None:
            raise self._error

    def leave(self, error: BaseException | None = None) -> None:
        self._error = error
        self._leave.set()
        self._pool.shutdown(wait=False)


def test_the_same_call_runs_once_and_replays_its_answer(desk: Any) -> None:
    """2.1 at the merchant: however late."""
    first = desk.place("k1")
    desk.clock.at += 86_400 * 20
    assert desk.place("k1") == first == {"for": "b-1"}
    assert desk.orders() == ["b-1"]


def test_k7_08_the_same_key_for_another_cart_is_a_conflict(desk: Any) -> None:
    """K7-08: never the other's order."""
    desk.place("k1", wants="2 A at 5.00")
    with pytest.raises(KeyConflict):
        desk.place("k1", wants="1 B at 10.00")
    assert desk.orders() == ["b-1"]


def test_keys_that_differ_in_case_or_in_their_last_byte_are_different_keys(desk: Any) -> None:
    """A collation that takes K for k would answer one customer with another's order."""
    longest = "x" * 1023
    for call in ("K", "k", "k ", longest + "a", longest + "b", "café", "cafe"):
        desk.place(call, buyer=f"b {len(desk.orders())}")
    assert len(desk.orders()) == 7


def test_the_reply_comes_back_to_the_byte(desk: Any) -> None:
    """2.1: whatever text it holds."""
    given = {"text": "₹ 1.20 🍕 \x00 \\ ' \" %s %(kind)s :kind", "long": "x" * 100_000}
    assert desk.place("k1", reply=given) == given
    assert desk.place("k1") == given


def test_k1_02_two_calls_of_one_purchase_are_one_order(desk: Any) -> None:
    """K1-02: under on_repeat=run both calls arrive; the buyer-and-cart key makes one order."""
    first, second = desk.place("call_a", derived()), desk.place("call_b", derived())
    assert first == {"for": "b-1"}
    assert second["already_done"]["order_again"] == "Say so."
    assert second["already_done"]["at"] == "2026-11-30T00:53:20.000Z"
    desk.clock.at += 90_000
    assert desk.place("call_b", derived()) == second, "the call keeps its answer, also after the window"
    assert desk.orders() == ["b-1"]


@pytest.mark.parametrize("after_s", [5, 90, 19 * 60, 3 * 3600])
def test_k7_05_the_window_decides_for_a_derived_key_and_the_token_for_itself(desk: Any, after_s: int) -> None:
    """K7-05: (a) the same token: always the original; (b) a new one: always new; (c) derived: the window."""
    tokens = [redeem(TOKEN_SECRET, issue_token(TOKEN_SECRET, **PURCHASE, now=desk.clock(), ttl_s=600), **PURCHASE)]
    desk.place("k1", tokens[0])
    desk.place("k2", derived())
    desk.clock.at += after_s
    assert "already_done" in desk.place("k3", tokens[0])
    new = issue_token(TOKEN_SECRET, **PURCHASE, now=desk.clock(), ttl_s=600)
    assert desk.place("k4", redeem(TOKEN_SECRET, new, **PURCHASE)) == {"for": "b-1"}
    assert ("already_done" in desk.place("k5", derived())) == (after_s < 1200)
    assert len(desk.orders()) == (3 if after_s < 1200 else 4)


def test_k7_02_twins_of_one_call_are_one_order(desk: Any) -> None:
    """K7-02: the losers wait and get the original; no conflict, no error."""
    for turn in range(3):
        assert together(6, lambda _, t=turn: desk.place(f"k{t}", buyer=f"b-{t}")) == [{"for": f"b-{turn}"}] * 6
    assert desk.orders() == ["b-0", "b-1", "b-2"]


def test_k7_02_simultaneous_calls_of_one_purchase_are_one_order(desk: Any) -> None:
    """K7-02: by their request key."""
    for turn in range(3):
        purchase = derived(session=f"cs-{turn}", window_s=None)
        answers = together(6, lambda n, t=turn, p=purchase: desk.place(f"k{t}-{n}", p, buyer=f"b-{t}"))
        assert [answer["for"] for answer in answers] == [f"b-{turn}"] * 6
        assert sum("already_done" in answer for answer in answers) == 5
    assert desk.orders() == ["b-0", "b-1", "b-2"]


def test_k7_05_simultaneous_calls_after_the_window_are_one_new_order(desk: Any) -> None:
    """K7-05 (c): the old record is taken over once, not by each who finds it."""
    desk.place("k1", derived())
    desk.clock.at += 1200
    answers = together(5, lambda n: desk.place(f"again-{n}", derived()))
    assert sum("already_done" in answer for answer in answers) == 4
    assert len(desk.orders()) == 2


@pytest.mark.parametrize("purchase", [None, derived()], ids=["call", "purchase"])
def test_k7_02_a_twin_of_work_that_failed_does_it_itself(desk: Any, purchase: RequestKey | None) -> None:
    """K7-02: the winner rolled back, so the one who waited is now the first."""
    keys = ("k1", "k1") if purchase is None else ("k1", "k2")
    held = Inside(lambda inside: desk.place(keys[0], purchase, buyer="first", inside=inside))
    with ThreadPoolExecutor(1) as pool:
        twin = pool.submit(desk.place, keys[1], purchase, buyer="second")
        held.leave(RuntimeError("the shop broke"))
        assert twin.result(WAIT_S) == {"for": "second"}
    with pytest.raises(RuntimeError, match="broke"):
        held.outcome.result(WAIT_S)
    assert desk.orders() == ["second"]


def test_many_twins_of_work_that_failed_are_one_order(desk: Any) -> None:
    """K7-02: on InnoDB they fall into a deadlock over the freed key, which is retried."""
    held = Inside(lambda inside: desk.place("k1", inside=inside))
    with ThreadPoolExecutor(6) as pool:
        twins = [pool.submit(desk.place, "k1", buyer=f"b-{n}") for n in range(6)]
        held.leave(RuntimeError("the shop broke"))
        answers = [twin.result(WAIT_S) for twin in twins]
    assert answers == [{"for": desk.orders()[0]}] * 6
    assert len(desk.orders()) == 1


def _decline(_db: Any) -> None:
    raise Refused("card_declined", "Your card was declined.", status=402)


def test_a_declined_card_is_remembered_for_the_call_and_not_for_the_purchase(desk: Any) -> None:
    """K7-03: the next attempt may pay; a late twin of the refused call may not."""
    with pytest.raises(Refused, match="declined"):
        desk.place("k1", derived(), inside=_decline)
    assert desk.orders() == []
    with pytest.raises(Refused, match="declined") as again:
        desk.place("k1", derived())
    assert (again.value.code, again.value.status) == ("card_declined", 402)
    assert desk.place("k2", derived()) == {"for": "b-1"}
    assert desk.orders() == ["b-1"]


def test_a_refusal_under_a_request_key_alone_leaves_nothing(desk: Any) -> None:
    """K7-03: there is no call to remember it for."""
    with pytest.raises(Refused, match="declined"):
        desk.place(None, derived(), inside=_decline)
    assert desk.records() == 0
    assert desk.place(None, derived()) == {"for": "b-1"}


def test_an_exception_leaves_nothing(desk: Any) -> None:
    """Work and record are one transaction."""

    def broken(_db: Any) -> None:
        raise RuntimeError("the shop broke")

    with pytest.raises(RuntimeError):
        desk.place("k1", derived(), inside=broken)
    assert desk.orders() == []
    assert desk.records() == 0
    assert desk.place("k1", derived()) == {"for": "b-1"}


def test_a_cancelled_purchase_can_be_made_anew(desk: Any) -> None:
    """`forget`, in the transaction of the cancellation."""
    desk.place("k1", derived())
    desk.forget("k2", derived())
    assert desk.place("k3", derived()) == {"for": "b-1"}
    assert len(desk.orders()) == 2


def test_a_reply_known_beforehand_is_stored_with_the_claim(desk: Any) -> None:
    """`once(..., reply=...)`: the same promises."""
    assert desk.place("k1", derived(), reply={"order": "mine"}) == {"order": "mine"}
    assert desk.place("k1", derived()) == {"order": "mine"}
    assert desk.place("k2", derived(), reply={"order": "other"})["order"] == "mine"
    assert desk.orders() == ["b-1"]


def test_old_records_are_pruned_by_their_time(desk: Any) -> None:
    """4.13: what came later stays."""
    desk.place("k1")
    desk.clock.at += 100
    desk.place("k2")
    assert desk.prune(desk.clock.at) == 1
    assert desk.status("k2").state == "committed"


def test_p5_4_a_committed_call_is_told_with_its_reply(desk: Any) -> None:
    """5.4: in the words of the status endpoint."""
    desk.place("k1")
    assert desk.status("k1").to_json() == '{"status":"committed","result":{"for":"b-1"}}'
    assert desk.records() == 1


def test_p5_4_void_is_binding_for_a_late_arrival(desk: Any) -> None:
    """5.4: the call comes after the shop said that it never would be done."""
    assert [desk.status("k1").to_json() for _ in range(2)] == ['{"status":"void"}'] * 2
    with pytest.raises(Refused) as late:
        desk.place("k1", derived())
    assert (late.value.code, late.value.status) == ("void", 410)
    assert desk.orders() == []
    assert desk.place("k2", derived()) == {"for": "b-1"}, "the purchase itself is free"


def test_p5_4_a_key_whose_record_may_have_been_pruned_is_never_void(desk: Any) -> None:
    """5.4: its order may exist. What was first sent after the last prune is as certain as ever."""
    desk.place("old")
    desk.clock.at += 100 * DAY_S
    desk.place("young")
    pruned = desk.clock.at - 30 * DAY_S
    assert desk.prune(pruned) == 1
    for first_at in (None, START, pruned, pruned + CLOCKS_DIFFER_S - 1):
        assert desk.status("old", first_at=first_at).to_json() == '{"status":"unknown"}', first_at
    assert desk.status("never came", first_at=pruned + CLOCKS_DIFFER_S).state == "void"
    with pytest.raises(Refused) as late:
        desk.place("never came")
    assert late.value.status == 410
    assert desk.status("young").state == "committed"
    assert desk.prune(pruned - DAY_S) == 0
    assert desk.status("old", first_at=pruned).state == "unknown", "an earlier prune takes nothing back"
    assert desk.orders() == ["b-1", "b-1"]


def test_p5_4_a_prune_that_dropped_nothing_leaves_void_possible(desk: Any) -> None:
    """5.4: as long as every record is there, a key without one never came; and how far it was pruned outlives prunes."""
    desk.place("k1")
    assert desk.prune(desk.clock.at - 30 * DAY_S) == 0
    assert desk.status("never came").state == "void"
    desk.clock.at += 100 * DAY_S
    assert [desk.prune(desk.clock.at), desk.prune(desk.clock.at + 1)] == [2, 0]
    assert desk.status("k1").state == "unknown"


@pytest.mark.parametrize("desk", PRUNES_BESIDE, indirect=True)
def test_p5_4_a_prune_beside_the_question_is_seen_by_it(desk: Any) -> None:
    """5.4: the record is gone before the question finds nothing, in every isolation; so is what says so."""
    for turn in range(8):
        desk.place(f"k{turn}")
        desk.clock.at += 1

        def act(number: int, key: str = f"k{turn}") -> Any:
            return desk.status(key, wait_s=WAIT_S).state if number % 3 else desk.prune(desk.clock.at)

        told = together(6, act)
        assert {word for word in told if isinstance(word, str)} <= {"committed", "unknown"}, told


def test_p5_4_a_refused_call_is_void(desk: Any) -> None:
    """5.4: nothing was done, and its refusal is remembered."""
    with pytest.raises(Refused):
        desk.place("k1", inside=_decline)
    assert desk.status("k1").state == "void"


def test_p5_4_a_running_call_is_in_progress_and_then_what_became_of_it(desk: Any) -> None:
    """5.4: no `void` beside an open transaction, also not one that could still fail."""
    held = Inside(lambda inside: desk.place("k1", inside=inside))
    assert desk.status("k1").to_json() == '{"status":"in_progress"}'
    held.leave()
    assert held.outcome.result(WAIT_S) == {"for": "b-1"}
    assert desk.status("k1").state == "committed"


def test_p5_4_void_beside_a_run_that_fails_holds(desk: Any) -> None:
    """5.4: the tombstone waits for the run, which rolls back; a twin that comes now is refused."""
    held = Inside(lambda inside: desk.place("k1", inside=inside))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(desk.status, "k1", wait_s=WAIT_S)
        held.leave(RuntimeError("the shop broke"))
        assert asked.result(WAIT_S).state == "void"
    with pytest.raises(Refused) as late:
        desk.place("k1")
    assert late.value.status == 410
    assert desk.orders() == []


def test_p5_4_void_and_the_call_at_the_same_moment_never_disagree(desk: Any) -> None:
    """5.4: either the order is there and no one was told `void`, or there is none and none will come."""
    for turn in range(6):

        def act(number: int, key: str = f"k{turn}") -> Any:
            if number % 2:
                return desk.status(key, wait_s=WAIT_S).state
            try:
                return desk.place(key, buyer=key)
            except Refused as refused:
                return refused.code

        told = together(4, act)
        done = desk.orders().count(f"k{turn}")
        assert set(map(str, told)) == ({str({"for": f"k{turn}"}), "committed"} if done else {"void"}), told
