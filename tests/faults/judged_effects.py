"""What must hold of every answer to a runtime that runs effects itself (7.2), and to whoever decides approvals (7.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.core.approval_names import read_approval_name
from gateway.core.errors import GatewayError
from gateway.core.policy import Action
from gateway.core.record import Effect, Mode, Status
from gateway.service.claims import token_of
from tests.faults.plan import How, Job

if TYPE_CHECKING:
    from tests.faults.callers import Served
    from tests.faults.invariants import Watch

_SUBMITTED: Final = ("ledger_unavailable", "call_in_flight", "attempt_superseded", "tool_call_id_reused")
_REPORTED: Final = ("ledger_unavailable", "claim_lost", "outcome_conflict", "not_found")
_DECIDED: Final = (
    *("ledger_unavailable", "call_in_flight", "approval_decided", "approval_outdated", "grant_refused", "forbidden"),
    *("not_found", "merchant_unreachable", "merchant_not_ready"),
)
_DECISIONS: Final = ("proceed", "replay", "blocked", "denied", "rate_limited")


def submission(watch: Watch, served: Served, job: Job, answer: Any) -> None:
    if isinstance(answer, GatewayError):
        if answer.code not in _SUBMITTED:
            watch.broke("8", f"{job} is answered {answer.code}")
        if answer.code == "tool_call_id_reused" and job.how is not How.CHANGED and not _changed(watch, job):
            watch.broke("2.2", f"{job} is refused as reused, and never was")
        return
    decision, key = answer["decision"], answer["effect_id"] or ""
    if decision not in _DECISIONS:
        watch.broke("8", f"{job} is answered {decision}")
    if decision == "proceed":
        _proceeds(watch, served, job, key)
    if decision in ("proceed", "replay"):
        _same_token(watch, job, key)
    if decision == "blocked" and answer["approval"] is None:
        watch.broke("7.4", f"{job} is blocked, and nobody can approve it")
    if decision == "replay" and key not in watch.excuses and key not in watch.forgotten:
        _replayed(watch, job, key, answer)


def _changed(watch: Watch, job: Job) -> bool:
    same_id = (
        other for other in watch.world.plan.jobs if (other.conversation, other.call) == (job.conversation, job.call)
    )
    return any(other.how is How.CHANGED for other in same_id)


def _proceeds(watch: Watch, served: Served, job: Job, key: str) -> None:
    if key in watch.forgotten:
        return
    if not watch.started[key]:
        watch.broke("7.6", f"{job} may run, and no effect.executing was written")
    effect = watch.world.ledger.effect(bytes.fromhex(key))
    stranger = effect is not None and token_of(job.token) not in effect.tokens
    # What it claimed just now its runtime may have given back before a slow answer came.
    stranger = stranger and watch.claimed_at.get((key, token_of(job.token)), -1.0) < served.began
    if stranger and effect is not None and effect.status is Status.EXECUTING and key not in watch.stirred:
        watch.broke("4.3", f"{job} may run, and its token holds nothing")
    first = watch.firsts.setdefault((key, job.token), served.began)
    if first == served.began and effect is not None and effect.mode is Mode.AT_MOST_ONCE:
        denies = watch.world.shelf.phases.since(served.began, job.target) == {Action.DENY}
        if denies and watch.claimed_at.get((key, token_of(job.token)), -1.0) >= served.began:
            watch.broke("7.3", f"{job} may run, though policy denied it before it was asked for")


def _same_token(watch: Watch, job: Job, key: str) -> None:
    """7.2: without an id the same token is the same submission, and another token of that attempt another."""
    if job.call is not None or key in watch.undone:
        return
    repeats = job.kind == "tool_call"  # 4.9: one that is identical may be answered with the first one's outcome
    before = watch.submitted.setdefault((job.conversation, job.token), key)
    if before != key and before not in watch.undone:
        watch.broke("7.2", f"{job} was {before[:8]} and now is {key[:8]}")
    effect = watch.world.ledger.effect(bytes.fromhex(key))
    answers = effect is not None and effect.was_unknown  # 4.7: the first answers for the second
    mine = (job.turn, job.attempt)
    others = watch.intents.setdefault(key, {})
    intent = others.setdefault(mine, job.intent)
    if intent != job.intent and not answers and not repeats:
        watch.broke("7.2", f"{job} is answered with the effect of another token in its attempt: {key[:8]}")


def _replayed(watch: Watch, job: Job, key: str, answer: Any) -> None:
    status = answer["status"]
    effect = watch.world.ledger.effect(bytes.fromhex(key))
    if status == "succeeded":
        result = answer.get("result")
        dropped = "error" in answer
        if not watch.happened(key, None if result is None else bytes(result), dropped):
            watch.broke("4.2", f"{job} is told of a success that did not happen")
        if any(order.sku != job.sku or order.tool != job.target for order in watch.world.books.of(key)):
            watch.broke("2.2", f"{job} is shown another's result")
    stands = status if effect is None or effect.status is Status.ABSENT else effect.status.value
    if status in ("succeeded", "failed", "denied") and stands != status:
        watch.broke("4.2", f"{job} is told {status}, and it stands as {stands}")


def report(watch: Watch, served: Served, job: Job, key: str, what: str, answer: Any) -> None:
    """What a runtime is told that says how its work ended, or that it goes on."""
    effect = watch.world.ledger.effect(bytes.fromhex(key))
    token = token_of(job.token)
    if key in watch.forgotten or key in watch.excuses:
        return
    if isinstance(answer, GatewayError):
        if answer.code not in _REPORTED:
            watch.broke("8", f"{job} {what} is answered {answer.code}")
        if answer.code == "claim_lost" and effect is not None and token in effect.tokens:
            _not_lost(watch, job, what, effect, token)
        return
    expected = {"complete": "succeeded", "fail": "failed", "renew": "executing"}.get(what)
    if expected is not None and answer["status"] != expected:
        watch.broke("4.3", f"{job} says {what}, and is told {answer['status']}")
    if what in ("complete", "fail") and (effect is None or effect.status.value != expected):
        stands = None if effect is None else effect.status.value
        if not watch.world.has_outlived_records:
            watch.broke("4.2", f"{job} is told that {what} is recorded, and it stands as {stands}")


def _not_lost(watch: Watch, job: Job, what: str, effect: Effect, token: bytes) -> None:
    holds = effect.status is Status.EXECUTING and effect.tokens[-1] == token
    if holds and not effect.lapsed(watch.world.clock()) and not watch.ledger_jumped and what != "renew":
        watch.broke("4.3", f"{job} holds its claim, and is told that {what} comes too late")
    if what == "complete" and effect.status is Status.INDETERMINATE:
        watch.broke("4.4", f"{job} succeeded late, and is passed over")


def decision(watch: Watch, served: Served, name: str, said: str, answer: Any) -> None:
    """What a decider is told."""
    read = read_approval_name(name)
    assert read is not None
    if isinstance(answer, GatewayError):
        if answer.code not in _DECIDED:
            watch.broke("8", f"approval {name[-32:-24]} is answered {answer.code}")
        return
    watch.approvals.answered(read.approval, said)
    key, one = answer["effect_id"], watch.approvals.known.get(read.approval.hex())
    if key in watch.forgotten or key in watch.excuses or one is None:
        return
    if said == "denied":
        watch.must_not_happen(key, "denied")
        return
    tool = watch.world.shelf.tool("acme", served.ask.tool)
    moved = watch.world.moved_at is not None and served.began > watch.world.moved_at
    just_now = watch.granted_at.get(read.approval.hex(), -1.0) >= served.began
    if just_now and moved and tool is not None and tool.version != one.tool_version:
        watch.broke("7.4", f"{key[:8]} is granted, though its tool was registered anew before that was asked")
    if just_now and watch.world.shelf.phases.since(served.began, served.ask.tool) == {Action.DENY}:
        watch.broke("7.4", f"{key[:8]} is granted, though a newer policy denies it")
    result = answer.get("result")
    # A merchant's key is shown no result (9.1).
    hidden = result is None
    if answer["status"] == "succeeded" and not watch.happened(key, None if hidden else bytes(result), hidden):
        watch.broke("4.2", f"{key[:8]} is granted and said to be done, and is not")
    if answer["status"] == "failed" and key not in watch.repeatable:
        watch.must_not_happen(key, "granted, and said to have failed")
