"""What a shop needs to do every call once: keys, `once`, signatures and an ASGI application.

Standard library only. Start with `docs/merchants.md`.
"""

from __future__ import annotations

from merchant_sdk.bounds import Arg
from merchant_sdk.call_status import CallStatus, call_status
from merchant_sdk.commit_before_reply import CommitBeforeReply, CommitBeforeReplyWSGI
from merchant_sdk.deciding import Answer
from merchant_sdk.errors import (
    AlreadyDone,
    BodyTooLarge,
    KeyConflict,
    KeyInputError,
    MalformedCall,
    MerchantError,
    Misuse,
    MoneyError,
    NoReply,
    OutcomeUnknown,
    Refused,
    ReplyBeforeCommit,
    ReplyTooLarge,
    SecretError,
    SignatureError,
    StoreBusy,
    TokenRefused,
    TransactionEnded,
    TransactionMisuse,
)
from merchant_sdk.fingerprint import fingerprint, named_fingerprint
from merchant_sdk.found_lint import ToolRemark
from merchant_sdk.handed import CallWork, Read
from merchant_sdk.issued_token import issue_token, redeem
from merchant_sdk.keys import CallKey, RequestKey
from merchant_sdk.money import minor_units
from merchant_sdk.once import once
from merchant_sdk.request_key import Line, given_key, request_key
from merchant_sdk.shop import Shop
from merchant_sdk.signing import Verified, sign, verify
from merchant_sdk.stores.sqlite import SQLiteStore
from merchant_sdk.units import transaction, watch
from merchant_sdk.work import Work

__all__ = [
    "AlreadyDone",
    "Answer",
    "Arg",
    "BodyTooLarge",
    "CallKey",
    "CallStatus",
    "CallWork",
    "CommitBeforeReply",
    "CommitBeforeReplyWSGI",
    "KeyConflict",
    "KeyInputError",
    "Line",
    "MalformedCall",
    "MerchantError",
    "Misuse",
    "MoneyError",
    "NoReply",
    "OutcomeUnknown",
    "Read",
    "Refused",
    "ReplyBeforeCommit",
    "ReplyTooLarge",
    "RequestKey",
    "SQLiteStore",
    "SecretError",
    "Shop",
    "SignatureError",
    "StoreBusy",
    "TokenRefused",
    "ToolRemark",
    "TransactionEnded",
    "TransactionMisuse",
    "Verified",
    "Work",
    "call_status",
    "fingerprint",
    "given_key",
    "issue_token",
    "minor_units",
    "named_fingerprint",
    "once",
    "redeem",
    "request_key",
    "sign",
    "transaction",
    "verify",
    "watch",
]
