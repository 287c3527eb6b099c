"""One pass through `once`: what was claimed, what was found, and what is left behind at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from merchant_sdk import nesting, units
from merchant_sdk.deciding import Answer, answer_of, decide, unix_seconds
from merchant_sdk.errors import AlreadyDone, Misuse, NoReply, Refused, ReplyBeforeCommit, StoreBusy
from merchant_sdk.keys import CallKey, RequestKey
from merchant_sdk.reply import to_json
from merchant_sdk.store import UNFINISHED, Contention, Record, Store, Transaction
from merchant_sdk.stores.failures import committing, entering

CLAIM_TRIES = 20
"""How often a claim is made anew when the database gave another transaction precedence."""

_LONG_S = 1.0
"""The shortest window. Who waited for a shorter work than this is inside every window."""


class Work:
    """One pass through `once`. Used as a context manager, once."""

    def __init__(
        self,
        store: Store,
        key: CallKey | RequestKey,
        now: Callable[[], float],
        body: str | None,
        expected: RequestKey | None = None,
    ) -> None:
        self._store = store
        self._key = key
        self._now = now
        self._state: Literal["new", "open", "committed", "rolled_back"] = "new"
        self._open: Transaction | None = None
        self._came = self._at = 0.0
        self._bound: RequestKey | None = None
        self._expected = expected
        self._along = expected if getattr(store, "expects", False) else None
        self._body = body
        self._found: Answer | None = None
        self._touched = False
        self._gave_up = False
        self._overtaken = False
        self._level = nesting.Level(store)

    @property
    def db(self) -> Any:
        """The connection inside the transaction. Raises AlreadyDone when there is nothing to write."""
        if self._found is not None:
            raise AlreadyDone("this was done before: return work.answer, write nothing")
        self._touched = True
        return self._transaction.db

    @property
    def done(self) -> bool:
        """Whether the work was committed before, by this call or as this purchase."""
        return self._found is not None

    @property
    def answer(self) -> Answer:
        """The committed reply. Raises ReplyBeforeCommit while the transaction is open or was rolled back."""
        if self._found is not None:
            return self._found
        if self._state != "committed" or self._body is None:
            raise ReplyBeforeCommit("nothing is committed yet: read work.answer after the `with` block")
        return Answer(self._body, self._at)

    @property
    def request_key(self) -> RequestKey | None:
        """The purchase this work was bound to; keep its `text` with the order to `forget` it on a cancel."""
        return self._bound

    @property
    def at(self) -> float:
        """When this work began: Unix seconds, the time its records carry. A long one's window begins at its end."""
        return self._at

    def bind(self, key: RequestKey, *, order_again: str = "") -> bool:
        """Say which purchase this is; True if it, or this call, was done before.

        `order_again` tells the customer how to buy the same thing on purpose. Raises KeyConflict and
        TokenRefused as `decide` does.
        """
        if not isinstance(key, RequestKey):
            raise TypeError(f"a work is bound to a purchase: request_key(...), not {type(key).__name__}")
        if self.done:
            return True
        if self._bound is not None:
            raise Misuse("a call is bound to one purchase")
        if self._expected is not None and key != self._expected:
            raise Misuse("the work is bound to another purchase than it was said to expect")
        if (key.kind, key.text) == (self._key.kind, self._key.text):
            if key != self._key:
                raise Misuse("the work's own key is this purchase already, and for something else")
            self._bound = key
            return False
        self._level.claim(key)
        try:
            self._find_anew(key, order_again)
        except StoreBusy:
            self._gave_up = True
            raise
        self._bound = key
        return self.done

    def forget(self, request_key: str) -> None:
        """Let the purchase of this key be made anew: its order was cancelled in this same transaction. Raises Misuse
        for the purchase that this work makes."""
        if self.done:
            raise AlreadyDone("this was done before: there is nothing to forget")
        if any(
            isinstance(key, RequestKey) and key.text == request_key for key in (self._key, self._bound, self._expected)
        ):
            raise Misuse("a work cannot forget the purchase that it makes itself: its order would have no record")
        self._touched = True
        self._transaction.forget(RequestKey.kind, request_key)

    def reply(self, result: Any) -> None:
        """The answer to store with the work: JSON values, Decimal as text. Raises TypeError or ValueError."""
        if self.done or self._body is not None:
            raise AlreadyDone("there is one reply, and only for work that was not done before")
        if self._state != "open":
            raise Misuse("the block has ended")
        self._body = to_json(result)

    def __enter__(self) -> Self:
        if self._state != "new":
            raise Misuse("a Work is entered once")
        wait_s = self._level.claim(self._key)
        if self._along is not None:
            self._level.claim(self._along)
        try:
            self._came = unix_seconds(self._now())
            with entering:
                self._open = self._store.begin(wait_s)
                self._state = "open"
                nesting.entered(self._level)
                units.opened("`once`", lambda: self._state == "open", key=self)
                self._find([self._key], "", tries=CLAIM_TRIES)
                self._along = None
        except BaseException:
            if self._open is not None:
                self._end(commit=False)
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            commit = self._write_records(exc)
        except BaseException:
            self._end(commit=False)
            raise
        self._end(commit=commit)
        # A refusal gives way to the success of a twin that came in between; nothing else is held back.
        return self._overtaken and isinstance(exc, Refused)

    def _find(self, keys: Sequence[CallKey | RequestKey], order_again: str, *, tries: int) -> None:
        """Claim each key in turn, up to the first that was done before. Raises as `decide`, and Contention
        or StoreBusy when it could not."""
        for left in reversed(range(tries)):
            try:
                for key in keys:
                    record = self._claim(key)
                    if record is not None:
                        self._found = answer_of(record, order_again if key.kind == "request" else "")
                        return
                return
            except Contention as contention:
                if tries == 1:
                    raise
                if not left:
                    raise StoreBusy("others kept the database from deciding; nothing was begun") from contention
                self._transaction.undo_work()

    def _find_anew(self, key: RequestKey, order_again: str) -> None:
        """Find what is bound, beginning anew if the database asks for it and the work has done nothing yet."""
        try:
            self._find([key], order_again, tries=1)
        except Contention as contention:
            if self._touched:
                # What the work did cannot be repeated from here; it is undone, and the caller may come again.
                raise StoreBusy("the database gave another transaction precedence; nothing was stored") from contention
            self._transaction.undo_work()
            self._find([self._key, key], order_again, tries=CLAIM_TRIES)

    def _claim(self, key: CallKey | RequestKey) -> Record | None:
        if key is self._key:
            self._at = unix_seconds(self._now())
            if self._along is not None:
                self._transaction.expect(self._record(self._along, self._body or UNFINISHED))  # type: ignore[attr-defined]
        found = self._transaction.claim(self._record(key, self._body or UNFINISHED))
        try:
            # As of when this call came: by the end of its wait for the winner the window may be over.
            return decide(found, key, self._at if found is None else self._came)
        except Refused:
            if found is None and key is not self._key:
                # The work may go on without this purchase, and what it claimed would be committed with it.
                self._transaction.forget(key.kind, key.text)
            raise

    def _write_records(self, exc: BaseException | None) -> bool:
        """Put what this block leaves behind; whether there is anything to commit."""
        if exc is not None:
            return isinstance(exc, Refused) and not self.done and self._remember_refusal(exc)
        if self._found is not None:
            return self._found.matched == "request" and isinstance(self._key, CallKey) and self._keep_answer()
        if self._gave_up:
            # Not every database's transaction fails with its wait, and who holds the purchase makes that order.
            raise StoreBusy("another held the purchase, and the work went on without it; nothing was stored")
        if self._body is None:
            raise NoReply("the block ended without work.reply(...): nothing was stored")
        if self._expected is not None and self._bound is None:
            raise Misuse("the work was not bound to the purchase that it was said to expect; nothing was stored")
        keys = [self._key] if self._bound in (None, self._key) else [self._key, self._bound]
        records = [self._record(key, self._body) for key in keys]
        if isinstance(keys[-1], RequestKey) and keys[-1].window_s is not None:
            # Whoever waited for this order came before its end, and is inside a window that begins there.
            now = self._now()
            if now - self._at >= _LONG_S:
                records[-1] = records[-1]._replace(at=now)
        self._transaction.put(records)
        return True

    def _remember_refusal(self, refused: Refused) -> bool:
        """A refusal stays with its call, so that no twin succeeds after the customer was told no."""
        if not isinstance(self._key, CallKey):
            return False
        if not self._claim_anew():
            return False
        reply = to_json({"code": refused.code, "message": refused.message, "status": refused.status})
        self._transaction.put([self._record(self._key, reply, "refused")])
        return True

    def _keep_answer(self) -> bool:
        """Another call of a purchase that was made keeps this answer, also when the window has passed."""
        answer = self._found
        if answer is None or not self._claim_anew():
            return False
        self._transaction.put([self._record(self._key, answer.body)])
        return True

    def _claim_anew(self) -> bool:
        """Undo the work and claim the call's own key; False if a twin answered it meanwhile."""
        body, found = self._body, self._found
        self._body = self._found = None
        self._transaction.undo_work()
        self._find([self._key], "", tries=CLAIM_TRIES)
        if self.done:
            self._overtaken = True
            return False
        self._body, self._found = body, found
        return True

    def _record(
        self, key: CallKey | RequestKey, body: str, outcome: Literal["succeeded", "refused"] = "succeeded"
    ) -> Record:
        # An answer found as a purchase is kept from now on, not from its first commit: its call may come again
        # for as long as any other.
        return Record(key.kind, key.text, key.fingerprint, outcome, body, self._at)

    def _end(self, *, commit: bool) -> None:
        transaction, self._open = self._transaction, None
        self._state = "rolled_back"
        self._level.is_open = False
        try:
            if commit:
                with committing:
                    transaction.commit()
                self._state = "committed"
        finally:
            try:
                if self._state != "committed":
                    transaction.rollback()
            finally:
                # Also where a cancelled task ends here: its connection would go to nobody.
                units.ended(self, committed=self._state == "committed")
                transaction.close()

    @property
    def transaction(self) -> Transaction:
        """The open transaction, for integrations. Raises Misuse outside the block."""
        return self._transaction

    @property
    def _transaction(self) -> Transaction:
        if self._open is None:
            raise Misuse("the transaction is open only inside the `with` block")
        return self._open
