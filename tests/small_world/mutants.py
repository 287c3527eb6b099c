"""Guards taken out of the rules, one at a time, to see that the search notices."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import getsource
from types import ModuleType
from typing import Any, Final, NamedTuple

from gateway.core import approving, claim, expiry, granting, holding, identity, repeats, settlement


class Mutant(NamedTuple):
    """In `function` of `module`, `there` becomes `instead`; a text that is not there once is an error."""

    name: str
    module: ModuleType
    function: str
    there: str
    instead: str
    situation: str
    ticks: int = 1
    resolves: int = 0
    decisions: int = 0


APPROVED: Final = "the same call twice, to be approved"
MUTANTS: Final = (
    Mutant(
        "any token ends a claim by release",
        *(settlement, "_release", "effect.tokens[-1] == request.token", "True"),
        "the same call twice",
    ),
    Mutant(
        "any token settles a claim",
        *(settlement, "_settle", "effect.tokens[-1] == request.token", "True"),
        "the same call twice",
        resolves=1,
    ),
    Mutant(
        "any worker holds what executes",
        *(claim, "_known", "effect.tokens[-1] == request.token", "True"),
        "the same call twice",
    ),
    Mutant(
        "what is unknown is taken up under at_most_once",
        *(claim, "_known", "and effect.sent_again", ""),
        "the same call twice",
    ),
    Mutant(
        "no prior_outcome_unknown",
        *(repeats, "judge_repeat", "k.was_unknown and k.status in UNENDING", "False"),
        "two ids, one order, hold",
    ),
    Mutant(
        "an identical call does not wait for one that runs",
        *(
            repeats,
            "judge_repeat",
            "known.status is Status.EXECUTING:\n            return",
            "False:\n            return",
        ),
        "two ids, one order, replay",
    ),
    Mutant(
        "a repeat of a success runs",
        *(repeats, "judge_repeat", "known.status is Status.SUCCEEDED", "False"),
        "two ids, one order, replay",
    ),
    Mutant(
        "the fingerprint is not looked at",
        *(identity, "match", "if bound.fingerprint == print_:", "if True:"),
        "one id, two orders",
    ),
    Mutant(
        "a re-run turn starts its numbers elsewhere",
        *(granting, "new", "effect_id=own.effect", "effect_id=own.effect[::-1]"),
        "a turn run over",
    ),
    Mutant(
        "a lapse forgets that the outcome was unknown",
        *(granting, "lost", "Status.INDETERMINATE, was_unknown=True", "Status.INDETERMINATE"),
        "two ids, one order, hold",
    ),
    Mutant(
        "a release of what was unknown removes it",
        *(settlement, "_release", "if effect.was_unknown:", "if False:"),
        "the same call twice, safe to retry",
    ),
    Mutant(
        "evidence of an earlier claim resolves a later one",
        *(settlement, "_resolve", "request.token is not None and effect.tokens[-1:] != (request.token,)", "False"),
        "the same call twice",
        ticks=2,
        resolves=1,
    ),
    Mutant(
        "a settle tells the log nothing",
        *(settlement, "_settled", "ended(view, after, keep_ms, event)", "ended(view, after, keep_ms)"),
        "the same call twice",
    ),
    Mutant(
        "what policy says is not asked",
        *(holding, "begin", "request.asks is not None", "False"),
        APPROVED,
    ),
    Mutant(
        "a held call that is asked again runs",
        *(holding, "hold_ended", "if request.asks is None:", "if True:"),
        APPROVED,
    ),
    Mutant(
        "a grant does not say which approval was used",
        *(approving, "_granted", "(granted, used, *started", "(granted, *started"),
        APPROVED,
        decisions=1,
    ),
    Mutant(
        "what is refused is only not run",
        *(
            approving,
            "refuse",
            "Step(Settled(after), ended(view, after, request.keep_ms, *events))",
            "Step(Settled(after))",
        ),
        APPROVED,
        decisions=1,
    ),
    Mutant(
        "a hold that nobody decides stands for ever",
        *(expiry, "judge_expiry", "held is None or", "True or"),
        APPROVED,
    ),
    Mutant(
        "a hold that lapses tells the log nothing",
        *(expiry, "expire", 'Event("effect.denied", held.effect_id, {"code": fault.code}),', ""),
        APPROVED,
    ),
)


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The guard is gone from every module that has the function, for as long as this lasts."""
    original = getattr(mutant.module, mutant.function)
    source = textwrap.dedent(getsource(original))
    if source.count(mutant.there) != 1:
        raise ValueError(f"{mutant.name}: the text is there {source.count(mutant.there)} times")
    made: dict[str, Any] = {}
    exec(compile(source.replace(mutant.there, mutant.instead), mutant.name, "exec"), vars(mutant.module) | {}, made)
    changed = made[mutant.function]
    # Its globals are a copy, which shows it the module's other functions as they are.
    holders = [
        m for name, m in sys.modules.items() if name.startswith("gateway.core") and _has(m, mutant.function, original)
    ]
    for holder in holders:
        setattr(holder, mutant.function, changed)
    try:
        yield
    finally:
        for holder in holders:
            setattr(holder, mutant.function, original)


def _has(module: ModuleType, name: str, original: object) -> bool:
    return getattr(module, name, None) is original
