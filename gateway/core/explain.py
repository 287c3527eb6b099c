"""Why a call was replayed, held, denied or is unknown, and what can be done now: from its events alone (7.6). Pure.

An event is what the API shows: `{"type", "effect_id", …}` with what it says beside. Of its texts (`explain_texts`) the
first row that fits is told. Callers' and merchants' words are shown so that they cannot break a
line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.core.explain_texts import ABSENT, REASONS, TEXTS

Event = Mapping[str, Any]


class Explained(NamedTuple):
    """`status` as the events have it (None: they name none); `story` has a line an event, `now` what can be done."""

    status: str | None
    story: tuple[str, ...]
    now: tuple[str, ...]


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
