"""Guards of the merchant's SDK, taken out of the shops that are written with it (6, and 5.4 for what they say of a key)."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from merchant_sdk import work
from merchant_sdk.store import Record
from merchant_sdk.work import Work
from tests.faults.guards import Guard
from tests.faults.plan import Plan
from tests.faults.sdk_shop import Transaction
from tests.faults.shop import HONOURS_KEYS

# As a module: the package has a function of its name.
call_status = import_module("merchant_sdk.call_status")
_commit = Transaction.commit


def _runs_again(record: Record | None, key: Any, now: float) -> None:
    return None


def _void_by_word(store: Any, wanted: Record, wait_s: float, first_at: float | None) -> Any:
    transaction = store.begin(wait_s)
    try:
        found = transaction.claim(wanted)
        return call_status.CallStatus("void") if found is None else call_status._judged(found)
    finally:
        transaction.rollback()
        transaction.close()


def _refusal_is_forgotten(_: Any, refused: Any) -> bool:
    return False


def _reply_without_its_work(transaction: Transaction) -> None:
    transaction.db.clear()
    _commit(transaction)


def _honours(plan: Plan) -> bool:
    return any(ask.tool in HONOURS_KEYS for ask in plan.asks)


def _refuses_and_is_late(plan: Plan) -> bool:
    return _honours(plan) and {"merchant refuses", "request arrives late"} <= {fault.kind for fault in plan.faults}


def _asked(plan: Plan) -> bool:
    return plan.status and _honours(plan)


GUARDS_OF_SHOPS: Final = (
    Guard("once finds what was done", "6", ((work, "decide", _runs_again),), fits=_honours),
    Guard(
        "once remembers a refusal",
        "5",
        ((Work, "_remember_refusal", _refusal_is_forgotten),),
        fits=_refuses_and_is_late,
    ),
    Guard(
        "an order and its reply are one commit", "6", ((Transaction, "commit", _reply_without_its_work),), fits=_honours
    ),
    Guard("a tombstone before void is said", "5.4", ((call_status, "_settle", _void_by_word),), fits=_asked),
)
