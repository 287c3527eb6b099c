"""What is tried on a merchant, as a table. Each row is played by the function of its name (`deliveries`,
`signatures`, `refusals`, `statuses`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Need = Literal["count", "other", "declined", "status"]

OPTION: Final[dict[Need, str]] = {
    "count": "--count-tool or --count-url",
    "other": "--other-arguments",
    "declined": "--declined-arguments",
    "status": "--status-url",
}
"""What gives a fault what it needs."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One line of the report. `promise` is what must hold, `rule` where docs/merchants/protocol.md says so, `do` what
    to look at if it does not hold."""

    code: str
    promise: str
    rule: str
    do: str
    needs: tuple[Need, ...] = ()


_VERIFY: Final = "The signature, steps 1 to 6"
_ONCE: Final = "rule 2"
_CLAIM: Final = "Claim the key, do the work and store the reply in one transaction, under a unique index on the key."

FAULTS: Final[tuple[Fault, ...]] = (
    Fault(
        "honest",
        "a signed call is done, once, and is there when its answer is",
        "rule 4",
        "Check the secret, the tool's name and --arguments; if those are right: commit first, then reply.",
    ),
    Fault("apart", "calls of two customers are two", _ONCE, "A key names one call: never less of it.", ("count",)),
    Fault("twice", "the same call again is answered with the first answer", _ONCE, _CLAIM),
    Fault("twins", "eight copies at once are one call and get one answer", _ONCE, _CLAIM),
    Fault(
        "lost-reply", "a call whose answer was lost is not done again", _ONCE, "Store the key before the answer leaves."
    ),
    Fault("hang-up", "a caller that has gone does not make it two", _ONCE, _CLAIM),
    Fault(
        "cut",
        "of a request that breaks off, nothing is done; the whole one after it is",
        "rule 1",
        "Read Content-Length bytes or nothing; verify before you parse.",
    ),
    Fault("slow", "a request that trickles in is done once", _ONCE, "Give the body as many seconds as your work."),
    Fault("reordered", "a copy that overtakes the first is the same call", _ONCE, _CLAIM),
    Fault("rotation", "one good signature among several is enough", _VERIFY, "Try every entry of webhook-signature."),
    Fault("stale", "a signature six minutes old is refused", _VERIFY, "Refuse what is over 300 seconds old."),
    Fault("ahead", "a signature six minutes ahead is refused", _VERIFY, "Refuse what is over 300 seconds ahead."),
    Fault("forged", "another secret's signature is refused", _VERIFY, "Compare the whole signature."),
    Fault("unsigned", "a call without its signature headers is refused", _VERIFY, "No header, no call."),
    Fault("altered", "a body changed after it was signed is refused", _VERIFY, "Sign the raw bytes, not parsed ones."),
    Fault(
        "odd-signature",
        "a signature header of nonsense is refused, and is no error of the server",
        _VERIFY,
        "Compare bytes as sent; decode nothing that is not verified.",
    ),
    Fault(
        "borrowed-key",
        "an Idempotency-Key that is not the signed webhook-id is refused",
        "The request",
        "Compare the two: a captured call must not run under another key.",
    ),
    Fault(
        "other-cart",
        "the same key with another cart is a conflict, with nothing of the first order in it",
        "rule 3",
        "Store a digest of tool, arguments, company and conversation with the key; answer 422 if it differs.",
        ("other",),
    ),
    Fault(
        "other-customer",
        "the same key from another conversation is a conflict, with nothing of the first order in it",
        "rule 3",
        "Store a digest of tool, arguments, company and conversation with the key; answer 422 if it differs.",
    ),
    Fault(
        "declined",
        "a decline is a definite no, is repeated as it was, and does not block the next call",
        "rule 5",
        "Answer 402, 422 or another definite 4xx; store it under the call's key and nowhere else.",
        ("declined",),
    ),
    Fault(
        "status-committed",
        "the status of a call that was done is committed, with its reply",
        "The status endpoint",
        "Look the key up where the reply is stored.",
        ("status",),
    ),
    Fault(
        "status-void",
        "the status of a key that never came is void",
        "The status endpoint",
        "Write a tombstone under the key, commit it, say void.",
        ("status",),
    ),
    Fault(
        "late",
        "a call that arrives after its key was said to be void is refused",
        "The status endpoint",
        "The tombstone lies where the call claims its key.",
        ("status",),
    ),
    Fault(
        "status-unsigned",
        "a status question that is not signed is refused, and blocks nothing",
        _VERIFY,
        "Verify questions as you verify calls.",
        ("status",),
    ),
)
