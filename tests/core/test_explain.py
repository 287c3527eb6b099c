"""Events told in words: every type and every reason has a text, and no word of a caller's breaks a line (7.6)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.explain import NOW, STATUS_AFTER, explain, status_of
from gateway.core.explain_texts import REASONS, TEXTS
from gateway.core.outcome import TABLE, Reason
from gateway.core.record import Status
from gateway.core.reply_body import Body

GATEWAY = Path(__file__).parents[2] / "gateway"
SEMANTICS = (GATEWAY.parent / "docs" / "semantics.md").read_text(encoding="utf-8")


def event(type_: str, effect_id: str | None = "ab" * 32, **said: object) -> dict[str, object]:
    return {"seq": 1, "type": type_, "at": "2026-11-29T10:00:00.120Z", "effect_id": effect_id, **said}


def closed_types() -> set[str]:
    """The types of 7.6 that are of effects and approvals."""
    (line,) = re.findall(r"^- \*\*7\.6\*\*.*$", SEMANTICS, re.MULTILINE)
    listed, family = set(), ""
    for name in re.findall(r"`([a-z_.]+)`", line.partition("closed in its types:")[2].partition(". `effect")[0]):
        family = name.partition(".")[0] or family
        listed.add(name if name.partition(".")[0] else family + name)
    return {name for name in listed if name.partition(".")[0] in ("effect", "approval")}


def test_p7_6_every_type_of_event_has_a_text_and_none_that_is_not_there():
    """7.6: the types are closed, so the texts can be whole."""
    assert set(TEXTS) == closed_types()
    assert set(STATUS_AFTER) < set(TEXTS)
    assert set(STATUS_AFTER.values()) | {None} == {status.value for status in Status} | {None}


def test_every_reason_that_the_gateway_gives_has_words():
    """5: what was seen of an exchange, what a body turned out to be, and what the gateway itself says of a claim."""
    useless = {body.value for body in Body} - {body.value for row in TABLE for body in row.bodies or ()}
    given = {reason.value for reason in Reason} | useless
    said = re.compile(r"(?:Release|Lose)\(\s*[\w.]+,\s*(?:[\w.]+),\s*\"([^\"]+)\"|lost\(view, effect, \"([^\"]+)\"")
    for file in GATEWAY.rglob("*.py"):
        given |= {one or other for one, other in said.findall(file.read_text(encoding="utf-8"))}
    assert {"lease lapsed", "no secret", "gateway fault"} < given
    assert given <= set(REASONS)


@pytest.mark.parametrize("type_", TEXTS)
def test_an_event_that_says_nothing_beside_is_still_told(type_):
    """A newer gateway may say other things; no place is left open."""
    (line,) = explain([event(type_, outcome="failed")]).story
    assert line
    assert "{" not in line
    assert "None" not in line


def test_a_type_of_a_newer_gateway_is_named():
    """And changes nothing of what is known."""
    told = explain([event("effect.executing"), event("effect.teleported")])
    assert (told.status, told.story[1]) == ("executing", "effect.teleported.")


@pytest.mark.parametrize("status", [*(each.value for each in Status)])
def test_every_status_has_something_to_be_done(status):
    """Even if it is only: nothing."""
    told = explain([event("effect.resolved", outcome=status)])
    assert told.status == status
    assert told.now


@pytest.mark.parametrize(("when", "lines"), NOW)
def test_what_can_be_done_is_found_by_what_the_events_say(when, lines):
    """Each row of the table is reached, and not hidden by one before it."""
    said = {name: value for name, value in when.items() if name not in ("status", "idempotency", "run_by")}
    events = [event("effect.allowed", idempotency=when.get("idempotency")), event("effect.executing")]
    if "run_by" in when:
        events[1]["by"] = when["run_by"]
    if "status" in when:
        events.append(event("effect.resolved", outcome=when["status"], **said))
    else:
        events = [event("effect.denied", None, first="cd" * 32, **said)]
    assert explain(events).now == tuple(line.replace("{first}", "cd" * 32) for line in lines)


RUN_BY_ITS_RUNTIME = [
    (("effect.succeeded", {}), "Its runtime did it."),
    (("effect.succeeded", {"late": True}), "Its runtime did it, and said so late."),
    (("effect.indeterminate", {"reason": "lease lapsed"}), "the runtime that ran it did not report in time"),
    (("effect.executing", {"by": "runtime", "again": True}), "A runtime took it to run it again"),
]


@pytest.mark.parametrize(("then", "words"), RUN_BY_ITS_RUNTIME, ids=lambda value: str(value)[:40])
def test_p7_2_what_a_runtime_runs_is_not_told_as_the_gateways_or_a_merchants_doing(then, words):
    """7.2, 7.6: a model call was never sent to anybody."""
    told = explain([event("effect.executing", by="runtime", lease_s=60.0), event(then[0], **then[1])])
    assert told.story[0] == "A runtime took it, to run it itself."
    assert words in told.story[1]
    assert not re.search("gateway|merchant", " ".join((*told.story, *told.now)))


def test_a_refusal_that_was_not_stored_is_no_status():
    """7.3: it is in the log under the id, not under an effect."""
    told = explain([event("effect.denied", None, code="step_limit", tool_call_id="n1")])
    assert told.status is None
    assert "step_limit" in told.story[0]


SAYS = {"rule": "large-orders", "bundle_version": "b1"}
TOLD = [
    (("effect.awaiting_approval", {"because": "policy", **SAYS}), "rule large-orders wants somebody to approve it"),
    (("effect.awaiting_approval", {"because": "repeat", "first": "cd"}), "had already succeeded (effect cd)"),
    (("effect.awaiting_approval", {"because": "repeat", "first": "cd", **SAYS}), "and rule large-orders wants"),
    (("approval.requested", {"approvers": ["operator", "anna"]}), "Asked operator, anna for an approval."),
    (("approval.requested", {"approvers": ["anna"], "instead_of": "00"}), "Asked anna anew"),
    (("approval.granted", {"by": "ops", "rationale": "seen"}), "Granted by ops: seen"),
    (("approval.granted", {"by": "customer", "via": "rt", "customer_message": "yes"}), "Granted by customer, says rt: yes"),
    (("approval.denied", {"by": "ops"}), "Refused by ops."),
    (("approval.used", {}), "cannot be used again"),
    (("approval.expired", {}), "ran out"),
    (("effect.allowed", SAYS), "Rule large-orders let it run."),
    (("effect.renewed", {"lease_s": 60.0}), "was given 60.0 s more"),
    (("effect.denied", {"code": "policy_denied", "reason": "closed", **SAYS}), "Denied by rule large-orders: closed."),
    (("effect.denied", {"code": "policy_denied", "bundle_version": "b1"}), "no rule of the policy allows it"),
    (("effect.rate_limited", SAYS), "Over the limit of rule large-orders"),
    (("effect.rate_limited", {"reason": "not countable", **SAYS}), "does not say what is to be counted"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "words"), TOLD, ids=lambda each: each if isinstance(each, str) else each[0])
def test_p7_3_policy_limits_and_approvals_are_told_in_words(said, words):
    """7.3, 7.4, 7.5: who wanted what, who decided, and by which rule."""
    type_, data = said
    (line,) = explain([event(type_, **data)]).story
    assert words in line


def test_p7_5_what_was_limited_may_come_again():
    """7.5"""
    told = explain([event("effect.rate_limited", None, tool_call_id="n1", **SAYS)])
    assert (told.status, told.now) == (
        None,
        ("The same request, ids unchanged, may come again once the window is over.",),
    )


@given(st.text(max_size=20), st.text(max_size=20))
def test_p9_3_nobodys_words_break_a_line(one, other):
    """9.3: an id with a line break, a note with a terminal's escapes."""
    told = explain(
        [
            event("effect.proposed", target=one, tool_call_id=other, turn=one),
            event("effect.indeterminate", reason=one, http_status=500, seen=other),
            event("effect.resolved", outcome="failed", by=one, note=other, code=one),
        ]
    )
    for line in (*told.story, *told.now):
        assert line.isprintable()


TYPES = st.sampled_from([*TEXTS, "effect.teleported"])
SAID = st.dictionaries(
    st.sampled_from(
        ["code", "reason", "matched", "said_by_merchant", "again", "late", "http_status", "first", "count"]
    ),
    st.none() | st.booleans() | st.integers(0, 999) | st.text(max_size=4) | st.lists(st.none(), max_size=1),
)


@given(st.lists(st.tuples(TYPES, st.booleans(), SAID), max_size=12))
def test_any_events_are_told_a_line_each(made):
    """Total: a log that a newer gateway wrote, or only its end, is no fault."""
    events = [event(type_, "ab" if own else None, outcome="failed", **said) for type_, own, said in made]
    told = explain(events)
    assert len(told.story) == len(events)
    assert told.status == status_of(events)
