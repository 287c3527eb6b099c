"""Why a call was replayed, held, denied or is unknown, and what can be done now: from its events alone (7.6). Pure.

An event is what the API shows: `{"type", "effect_id", …}` with what it says beside. Texts are tables by type and by
what an event says; the first row that fits is told. Callers' and merchants' words are shown so that they cannot break a
line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

Event = Mapping[str, Any]

ABSENT: Final = "absent"
"""Where nothing stands: released, or resolved as never done."""


class Explained(NamedTuple):
    """`status` as the events have it (None: they name none); `story` has a line an event, `now` what can be done."""

    status: str | None
    story: tuple[str, ...]
    now: tuple[str, ...]


class Row(NamedTuple):
    """A text, and what an event must say for it; `{name}` stands for what the event says there."""

    text: str
    when: Mapping[str, object] = {}


STATUS_AFTER: Final[Mapping[str, str]] = {
    "effect.awaiting_approval": "awaiting_approval",
    "effect.executing": "executing",
    "effect.succeeded": "succeeded",
    "effect.failed": "failed",
    "effect.denied": "denied",
    "effect.indeterminate": "indeterminate",
    "effect.released": ABSENT,
}
"""What an effect is after an event of it; `effect.resolved` says so itself, other types change nothing."""

REASONS: Final[Mapping[str, str]] = {
    "timed_out": "the merchant did not answer in time",
    "connection_lost": "the connection broke off before an answer came",
    "reply_truncated": "the answer broke off",
    "reply_not_http": "what came back was no HTTP",
    "lease lapsed": "the gateway that ran it was killed or hung before it wrote down an outcome",
    "gateway fault": "a fault of the gateway's own ended it; its log has the kind and the place",
    "replied": "the merchant's answer does not tell whether it was done",
    "html": "the merchant answered with a page instead of a result",
    "content_type": "the merchant's answer is neither JSON nor text",
    "content_encoding": "the merchant's answer was compressed, which was not asked for",
    "undecodable": "the merchant's answer cannot be decoded",
    "malformed_json": "the merchant's answer is no valid JSON",
    "nested_too_deep": "the merchant's answer is nested too deep",
    "name_not_resolved": "the merchant's host name could not be resolved",
    "address_refused": "the merchant's address is not one that may be called",
    "connect_failed": "the merchant could not be reached",
    "certificate_invalid": "the merchant's TLS certificate is not valid",
    "tls_failed": "the secure connection to the merchant failed",
    "request_refused": "the request could not be written as HTTP",
    "too_late": "the merchant had too many calls to take this one in time",
    "lease too short": "the ledger was too slow to start it",
    "no secret": "the company has no signing secret",
    "claim withdrawn": "the ledger did not say in time whether it may run, so the claim was taken back",
    "not sent": "nothing was sent",
}
"""Words of `reason`; another is shown as it is."""

TEXTS: Final[Mapping[str, tuple[Row, ...]]] = {
    "effect.proposed": (Row("Asked for: {target}, id {tool_call_id}{place}."),),
    "effect.allowed": (
        Row("Rule {rule} let it run.", {"rule": True}),
        Row("It was new or no longer held, so it was allowed to run."),
    ),
    "effect.executing": (
        Row("A runtime took it to run it again, under the same key.", {"by": "runtime", "again": True}),
        Row("A runtime took it, to run it itself.", {"by": "runtime"}),
        Row("Sent again under the same key, as the tool is safe_to_retry.", {"again": True}),
        Row("The gateway set out to send it to the merchant."),
    ),
    "effect.renewed": (
        Row("Its runner was still at work, and was given {lease_s} s more.", {"lease_s": True}),
        Row("Its runner was still at work, and was given more time."),
    ),
    "effect.succeeded": (
        Row("Its runtime did it, and said so late.", {"run_by": "runtime", "late": True}),
        Row("Its runtime did it.", {"run_by": "runtime"}),
        Row("Done after all, says the merchant's status endpoint.", {"said_by_merchant": True}),
        Row("The merchant did it; the result was too large to keep.", {"result_dropped": True}),
        Row("The merchant did it; its answer came late.", {"late": True}),
        Row("The merchant did it."),
    ),
    "effect.failed": (
        Row("The merchant refused it.", {"code": "merchant_refused"}),
        Row("It failed: {code}."),
    ),
    "effect.indeterminate": (
        Row(
            "Not known whether it was done: the runtime that ran it did not report in time.",
            {"run_by": "runtime", "reason": "lease lapsed"},
        ),
        Row("Not known whether it was done: {reason} (HTTP {http_status}).", {"http_status": True}),
        Row("Not known whether it was done: {reason}."),
    ),
    "effect.released": (Row("Not sent: {reason}. Its id is free again."),),
    "effect.awaiting_approval": (
        Row(
            "Held: the same call had already succeeded (effect {first}), and rule {rule} wants an approval.",
            {"because": "repeat", "rule": True},
        ),
        Row("Held: the same call had already succeeded (effect {first}).", {"because": "repeat"}),
        Row("Held: rule {rule} wants somebody to approve it.", {"rule": True}),
        Row("Held until somebody approves it."),
    ),
    "effect.denied": (
        Row("Denied: the turn had no steps left (step_limit). Nothing was recorded.", {"code": "step_limit"}),
        Row(
            "Denied: it is not known whether an identical call was done (effect {first}). Nothing was recorded.",
            {"code": "prior_outcome_unknown"},
        ),
        Row("Denied: nobody approved it in time, or used its approval.", {"code": "approval_expired"}),
        Row("Denied: the approval was refused.", {"code": "approval_denied"}),
        Row(
            "Denied by rule {rule}: {reason}. Nothing was recorded.",
            {"code": "policy_denied", "rule": True, "reason": True},
        ),
        Row("Denied by rule {rule}. Nothing was recorded.", {"code": "policy_denied", "rule": True}),
        Row("Denied: no rule of the policy allows it. Nothing was recorded.", {"code": "policy_denied"}),
        Row("Denied: {code}."),
    ),
    "effect.rate_limited": (
        Row(
            "Rule {rule} limits it, and it does not say what is to be counted. Nothing was recorded.",
            {"reason": "not countable"},
        ),
        Row("Over the limit of rule {rule} for now; nothing was recorded.", {"rule": True}),
        Row("Too many calls for now; nothing was recorded."),
    ),
    "effect.resolved": (
        Row("The merchant's status endpoint says that it was done.", {"said_by_merchant": True, "code": None}),
        Row(
            "The merchant's status endpoint says that it was not done and never will be.",
            {"said_by_merchant": True},
        ),
        Row("Resolved by {by} as never done: its id is free again. {note}", {"outcome": ABSENT}),
        Row("Resolved by {by} as {outcome}. {note}"),
    ),
    "effect.conflict": (
        Row(
            "ALARM: the merchant's status endpoint says that it was done, but the record says {stands}. "
            "Somebody has to look.",
            {"said_by_merchant": True},
        ),
        Row("ALARM: a success was reported, but the record says {stands}. Somebody has to look."),
    ),
    "effect.replayed": (
        Row("Asked for again under its id ({count}×): answered from the record.", {"matched": "tool_call_id"}),
        Row("Asked for again by a re-run of its turn ({count}×): answered from the record.", {"matched": "effect"}),
        Row("An identical call came ({count}×): answered from the record.", {"matched": "repeat"}),
        Row("Asked for again ({count}×): answered from the record."),
    ),
    "approval.requested": (
        Row("Asked {approvers} anew: what was to be approved, or who may, had changed.", {"instead_of": True}),
        Row("Asked {approvers} for an approval.", {"approvers": True}),
        Row("An approval was asked for."),
    ),
    "approval.granted": (
        Row("Granted by {by}, says {via}: {customer_message}", {"customer_message": True, "via": True}),
        Row("Granted by {by}: {rationale}", {"rationale": True}),
        Row("Granted by {by}."),
    ),
    "approval.denied": (
        Row("Refused by {by}, says {via}: {customer_message}", {"customer_message": True, "via": True}),
        Row("Refused by {by}: {rationale}", {"rationale": True}),
        Row("Refused by {by}."),
    ),
    "approval.expired": (Row("The time to approve it, or to use its approval, ran out."),),
    "approval.used": (Row("The approval was used, and cannot be used again."),),
}

_REPEAT = "Asking again under the same id gives this outcome; nothing is sent."
_UNKNOWN = (
    "An identical call in this conversation is denied until this is settled.",
    "If the tool has a status endpoint, the merchant is being asked and the record settles by itself.",
    "Else ask the merchant what became of this effect id, its Idempotency-Key; then say so: "
    "oncegate calls resolve COMPANY CONVERSATION EFFECT",
)

_BY_RUNTIME: Final = (
    "Find out from whoever ran it what became of it; then say so: oncegate calls resolve COMPANY CONVERSATION EFFECT"
)

NOW: Final[tuple[tuple[Mapping[str, object], tuple[str, ...]], ...]] = (
    ({"status": "succeeded", "result_dropped": True}, ("The merchant has the result; ask there.", _REPEAT)),
    ({"status": "succeeded"}, (_REPEAT,)),
    (
        {"status": "failed", "code": "not_executed"},
        (_REPEAT, "If it is still wanted: make it as a new call, under a new id."),
    ),
    ({"status": "failed"}, (_REPEAT, "An identical call under a new id may be tried.")),
    (
        {"status": "executing"},
        (
            "Wait: the same request waits for the outcome.",
            "If whoever runs it died, it becomes unknown when its lease lapses.",
        ),
    ),
    (
        {"status": "awaiting_approval"},
        (
            "Nothing is sent while it is held, and it lapses if nobody approves it: oncegate approvals list COMPANY",
            "What a first one came to can be told meanwhile.",
        ),
    ),
    ({"status": "denied"}, (_REPEAT, "If it is still wanted: make it as a new call, under a new id.")),
    (
        {"status": "indeterminate", "idempotency": "safe_to_retry", "run_by": "runtime"},
        ("Submit it again: whoever does is given it, under the same key.", _BY_RUNTIME),
    ),
    (
        {"status": "indeterminate", "run_by": "runtime"},
        ("It is given to nobody by itself.", _UNKNOWN[0], _BY_RUNTIME),
    ),
    (
        {"status": "indeterminate", "idempotency": "safe_to_retry"},
        ("Ask again under the same id: it is sent again under the same key, and answers.", *_UNKNOWN[1:]),
    ),
    ({"status": "indeterminate"}, ("It is not sent again by itself.", *_UNKNOWN)),
    ({"status": ABSENT}, ("Nothing stands: the same request, ids unchanged, runs as new.",)),
    ({"code": "policy_denied"}, ("Asked again it is judged again, by the rules of then.",)),
    ({"code": "rate_limited"}, ("The same request, ids unchanged, may come again once the window is over.",)),
    ({"code": "step_limit"}, ("Answer the customer with what is known; the next turn has steps of its own.",)),
    (
        {"code": "prior_outcome_unknown"},
        ("Settle the first: oncegate calls show COMPANY CONVERSATION --effect {first}",),
    ),
)
"""What can be done, by the status, by who runs it, and by what the events last said of `code`, `idempotency` and
`first`."""


def explain(events: Sequence[Event]) -> Explained:
    """The story of one effect, or of one id that was denied without a record; events in their order."""
    facts: dict[str, object] = {}
    runners = [event.get("by") for event in events if event["type"] == "effect.executing"]
    if runners:
        # Fixed by its first claim (4.6): one is run by the gateway or by runtimes, and never by both.
        facts["run_by"] = runners[-1]
    for event in events:
        facts |= {name: event[name] for name in ("idempotency", "first") if event.get(name) is not None}
        if event["type"] == "effect.rate_limited":
            facts["code"] = "rate_limited"
        if event["type"] in STATUS_AFTER or event["type"] == "effect.resolved":
            facts |= {name: event.get(name) for name in ("code", "result_dropped")}
    status = status_of(events)
    facts["status"] = status
    advice = next((lines for when, lines in NOW if _fits(when, facts)), ())
    return Explained(
        status,
        tuple(_told({**event, "run_by": facts.get("run_by")}) for event in events),
        tuple(_filled(line, facts) for line in advice),
    )


def status_of(events: Sequence[Event]) -> str | None:
    """Where an effect stands after its events: the record's status, without a look at the record."""
    status: str | None = None
    for event in events:
        if event.get("effect_id") is None:
            continue  # a refusal that was logged and not stored
        if event["type"] == "effect.resolved":
            status = str(event["outcome"])
        else:
            status = STATUS_AFTER.get(event["type"], status)
    return status


def _told(event: Event) -> str:
    rows = TEXTS.get(event["type"])
    if rows is None:
        return f"{_word(event['type'])}."
    row = next((row for row in rows if _fits(row.when, event)), rows[-1])
    said = dict(event)
    if "reason" in said:
        said["reason"] = REASONS.get(str(said["reason"]), said["reason"])
    if isinstance(said.get("approvers"), list):
        said["approvers"] = ", ".join(map(_word, said["approvers"]))
    place = [f"{name} {_word(event[name])}" for name in ("turn", "step", "attempt") if event.get(name) is not None]
    return _filled(row.text, {**said, "place": "".join(f", {part}" for part in place)}).rstrip()


def _fits(when: Mapping[str, object], facts: Event) -> bool:
    """True: something is said there; None: nothing is; else just that."""
    return all(bool(facts.get(name)) if value is True else facts.get(name) == value for name, value in when.items())


class _Words(dict[str, object]):
    def __missing__(self, name: str) -> str:
        return "" if name == "note" else "not stated"


def _filled(text: str, facts: Mapping[str, Any]) -> str:
    shown = {name: _word(value) for name, value in facts.items() if value is not None}
    return text.format_map(_Words(shown))


def _word(value: object) -> str:
    """A value within a line: printable text as it is, anything else as JSON."""
    return (
        value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=True, default=str)
    )
