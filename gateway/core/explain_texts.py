"""What events are told as: a text for every type by what an event says, and words for reasons (7.6). Tables only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.core.record import Status

ABSENT: Final = Status.ABSENT.value
"""Where nothing stands: released, or resolved as never done."""


class Row(NamedTuple):
    """A text, and what an event must say for it; `{name}` stands for what the event says there."""

    text: str
    when: Mapping[str, object] = {}


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
        *(
            Row(
                "Not known whether it was done: the merchant answered with a redirect (HTTP {http_status}), which is "
                "not followed. Register the address that takes the call itself: often the same with a slash at its "
                "end, or without.",
                {"http_status": status},
            )
            for status in (301, 302, 303, 307, 308)
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
