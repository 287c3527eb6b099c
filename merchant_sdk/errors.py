"""Everything the SDK raises, grouped by who has to act.

    MerchantError
    ├─ SignatureError     the request was not signed by the gateway: answer 401
    ├─ MalformedCall      signed, but not the gateway's wire: answer 400
    │  └─ BodyTooLarge    not read to its end: answer 413
    ├─ Refused            a definite no, in words for the customer: nothing was done
    │  ├─ KeyConflict     the same key, for something else
    │  └─ TokenRefused    an issued token that cannot be redeemed
    ├─ KeyInputError      a cart, buyer or amount that no key can be made of (also a ValueError)
    │  └─ MoneyError
    ├─ StoreBusy          the transaction never began: safe to send again
    ├─ OutcomeUnknown     lost at the commit, or failed right after it: the same call again finds out
    ├─ SecretError        a configured secret is unusable (also a ValueError)
    └─ Misuse             the merchant's own code has to change; the work was rolled back, but for the last of these
       ├─ ReplyBeforeCommit
       ├─ ReplyTooLarge
       ├─ NoReply
       ├─ AlreadyDone
       └─ TransactionMisuse
          └─ TransactionEnded   ended inside the work, by its SQL: what it stored is not known

No message holds a secret, a signature or another customer's data.
"""

from __future__ import annotations

from typing import Literal

from merchant_sdk.fingerprint import differing

SignatureKind = Literal["missing", "duplicate", "malformed", "too_long", "wrong_scheme", "out_of_time", "no_match"]

_SIGNATURE_TEXT: dict[SignatureKind, str] = {
    "missing": "a signature header is missing",
    "duplicate": "a signature header came twice",
    "malformed": "a signature header is malformed",
    "too_long": "a signature header is too long",
    "wrong_scheme": "no signature of a known scheme",
    "out_of_time": "the timestamp is outside the tolerance: it is old, or a clock is wrong",
    "no_match": "no signature matches",
}

# What the gateway reads as "the merchant refused" (semantics 5). 409 and 5xx would be read as "unknown",
# 401, 403, 425 and 429 as "never executed": a refusal must be neither.
REFUSAL_STATUSES = frozenset({400, 402, *range(404, 408), *range(410, 425), 426, 428, 431, 451})


class MerchantError(Exception):
    """Base of everything the SDK raises."""


class SignatureError(MerchantError):
    """The only error of `verify`. `kind` says why, for the merchant's log and not for the sender."""

    def __init__(self, kind: SignatureKind) -> None:
        super().__init__(_SIGNATURE_TEXT[kind])
        self.kind: SignatureKind = kind


class MalformedCall(MerchantError):
    """The body is not a call as semantics 6 writes it."""


class BodyTooLarge(MalformedCall):
    """A body of more than `most` bytes (9.4), of which nothing was looked at."""

    def __init__(self, most: int) -> None:
        super().__init__(f"a body is at most {most} bytes")
        self.most = most


class Refused(MerchantError):
    """A definite no: the work is rolled back and the customer is told why.

    `code` is for programs, `message` for the customer, `status` an HTTP status that the gateway reads as a
    refusal; any other raises ValueError here rather than leaving an order in doubt.
    """

    def __init__(self, code: str, message: str, *, status: int = 422) -> None:
        if status not in REFUSAL_STATUSES:
            raise ValueError(f"HTTP status {status} does not tell the gateway that the call was refused")
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


class KeyConflict(Refused):
    """The same key with another fingerprint: never answered with the first one's result (2.2).

    `fields` names what differs (cart, buyer, arguments …) where the fingerprints can tell.
    """

    def __init__(self, kind: str, *, first: str, given: str, first_at: str) -> None:
        self.fields = differing(first, given)
        what = f" ({' and '.join(self.fields)} differ)" if self.fields else f" ({first[:12]}, now {given[:12]})"
        super().__init__(
            "key_reused", f"This {kind} key was used at {first_at} for something else{what}. Nothing was done."
        )
        self.first_fingerprint = first
        self.fingerprint = given


class TokenRefused(Refused):
    """An issued token that is forged, was issued for something else, or came too late."""


class KeyInputError(MerchantError, ValueError):
    """No request key can be made of this; the message names the field and the reason."""


class MoneyError(KeyInputError):
    """An amount that is not exact money in its currency."""


class StoreBusy(MerchantError):
    """The write lock was not free in time, or no database was there. Nothing was begun."""


class OutcomeUnknown(MerchantError):
    """The connection was lost at the commit, before its answer came, or a hook after the commit raised. The same call
    again finds out, and does the work if it was not kept."""


AFTER_COMMIT = "the work was committed, and a hook after the commit raised: the same call again gets its answer"
"""What stores say of an `after_commit` or `on_commit` hook that failed."""


class SecretError(MerchantError, ValueError):
    """A configured secret is unusable. The message does not contain it."""


class Misuse(MerchantError):
    """The merchant's code broke a rule of `once`; its writes are rolled back."""


class ReplyBeforeCommit(Misuse):
    """The answer was read while the transaction was still open: leave the `with` block first."""


class ReplyTooLarge(Misuse):
    """A reply beyond the middleware's cap, which is kept whole in memory: an endless stream is no reply."""


class NoReply(Misuse):
    """The block ended without `work.reply(...)`."""


class AlreadyDone(Misuse):
    """`work.done` is true: the work was done before, and there is nothing to write."""


OURS = (
    "the transaction belongs to `once`: a work commits when its block ends, and rolls back when you raise; a read does "
    "neither"
)
"""What every store says of a transaction that the work, or a read, would end."""


class TransactionMisuse(Misuse):
    """The work began, ended or lost the transaction that belongs to `once`."""


class TransactionEnded(TransactionMisuse):
    """The work ended the transaction by SQL that nobody saw: what was kept of it is not known. Look at the order."""


FAILED = "the transaction failed or was rolled back inside the work; nothing is stored"
"""Where a rollback is all that is left."""
ENDED = (
    "the transaction ended inside the work, by a COMMIT or ROLLBACK in its SQL: whether what it did was kept is not "
    "known; look at the order"
)
"""Where it is found to be over at the end."""
GONE = (
    "the claim was gone at the end: the transaction ended inside the work, by its SQL, or the work set another "
    "search_path. What is open was rolled back; whether anything was kept before it is not known: look at the order"
)
"""Where another is found in its place, or the record not in it."""
