"""`oncegate check-merchant`: every carelessness is convicted, by the faults that show it, and care is not."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from secrets import token_hex
from types import ModuleType
from typing import Any

import pytest

from gateway.commands.merchant_check.counting import as_count
from gateway.commands.merchant_check.plan import FAULTS
from gateway.commands.merchant_check.player import PLAYS, play
from gateway.commands.merchant_check.result import Run
from gateway.commands.merchant_check.target import Target

CONFLICTS = ["other-cart", "other-customer"]
REPEATS = ["twice", "twins", "lost-reply", "hang-up", "slow", "reordered"]
DECLINED = ["declined"]

CARELESS: dict[str, tuple[list[str], list[str]]] = {
    # the carelessness: the faults that must convict it, and those that may, as copies happen to meet
    "answers_html": (["honest"], []),
    "answers_gzip": (["honest"], []),
    "answers_latin": (["honest"], []),
    "answers_nan": (["honest"], []),
    "answers_octets": (["honest"], []),
    "error_after_commit": (["honest"], []),
    "orders_at_two_tables": (["honest"], []),
    "commit_after_reply": (["honest"], []),
    "key_after_reply": (["twice"], [*REPEATS, *CONFLICTS, "status-committed"]),
    "no_key_check": ([*REPEATS, *CONFLICTS, "late"], []),
    "one_order_for_all": (["apart"], [fault.code for fault in FAULTS]),
    "refuses_repeats": ([*REPEATS, *CONFLICTS], []),
    "marks_repeats_in_the_body": (["twice", "twins", "slow", "reordered", *CONFLICTS], ["hang-up", "lost-reply"]),
    "twins_race": (["twins"], ["hang-up", "reordered"]),
    "refuses_twins": (["twins"], ["hang-up", "reordered", "lost-reply"]),
    "forgets_unheard": (["hang-up"], ["lost-reply"]),
    "takes_half_a_body": (["cut"], []),
    "one_read": (["slow", "reordered"], []),
    "no_signature_check": (
        ["stale", "ahead", "forged", "unsigned", "altered", "odd-signature", "borrowed-key", "status-unsigned", "cut"],
        [],
    ),
    "missing_signature_passes": (["unsigned", "odd-signature", "status-unsigned"], []),
    "remembers_signatures": (["stale", "altered"], []),
    "first_signature_only": (["rotation"], []),
    "no_age_check": (["stale"], []),
    "no_future_check": (["ahead"], []),
    "decodes_signatures": (["odd-signature", "rotation"], []),
    "trusts_unsigned_key": (["borrowed-key"], []),
    "conflict_gets_the_first_order": (CONFLICTS, []),
    "conflict_leaks": (CONFLICTS, []),
    "conflict_runs": ([*CONFLICTS, "status-committed", "late"], []),
    "forgets_key_on_conflict": (CONFLICTS, []),
    "ignores_the_customer": (["other-customer"], []),
    "decline_409": (DECLINED, []),
    "decline_429": (DECLINED, []),
    "decline_500": (DECLINED, []),
    "decline_is_200": (DECLINED, []),
    "blocks_after_a_decline": (DECLINED, []),
    "redoes_a_decline": ([*DECLINED, "late"], []),
    "status_knows_nothing": (["status-committed"], []),
    "status_without_reply": (["status-committed"], []),
    "unknown_in_progress": (["status-void", "late"], []),
    "void_not_binding": (["late"], []),
    "tombstone_503": (["late"], []),
    "unsigned_questions": (["status-unsigned"], []),
}
HARMLESS = ["conflict_409", "counts_as_list"]
UNHURRIED = {"takes_half_a_body", "no_signature_check", "refuses_twins"}
"""What they do wrong is done when nobody waits for it."""


PATIENCE = (1, 10, 100)
"""What hangs on two requests that meet in a moment is tried again with longer moments, should the machine stand still
for the length of one: the check may miss a carelessness that nothing brought to light, never one that it was shown."""


def check(careless: ModuleType, *words: str, patience: int = 1, **options: Any) -> Run:
    """The whole plan, unless options say otherwise, against a careless shop of these words."""
    with careless.CarelessShop(*words, moment_s=0.05 * patience) as shop:
        given = {
            "url": f"{shop.url}/tools",
            "tool": "place_order",
            "arguments": '{"item": "dosa", "quantity": 1}',
            "other": '{"item": "dosa", "quantity": 2}',
            "declined": '{"item": "vada", "quantity": 1}',
            "secrets": (careless.SECRET,),
            "status_url": f"{shop.url}/status",
            "count_tool": "count_orders",
            "settle_s": patience * (0.1 if UNHURRIED & set(words) else 0.01),
        } | {name: value(shop) if callable(value) else value for name, value in options.items()}
        only = given.pop("only", ())
        return asyncio.run(play(Target(**given), only, lambda: token_hex(8), time.time, time.monotonic))


def failed(run: Run) -> set[str]:
    return {each.fault.code for each in run.having("failed")}


@pytest.mark.parametrize("word", CARELESS)
def test_each_carelessness_is_convicted_by_the_faults_that_show_it_and_no_other(careless, word):
    """K7-02, K6-06, K6-07, K7-08: and every verdict says what was done and what to do."""
    must, may = CARELESS[word]
    # Where each second look takes long, the faults that could be meant and some that could not.
    only = {*must, *may, "apart", "twice", "rotation"} if word in UNHURRIED else ()
    for patience in PATIENCE:
        run = check(careless, word, only=only, patience=patience)
        only = {*must, *may}
        if set(must) <= failed(run):
            break
    assert set(must) <= failed(run) <= {*must, *may}, [(each.fault.code, each.why) for each in run.having("failed")]
    assert run.exit_status == 1
    assert all(each.why and each.history for each in run.having("failed"))


@pytest.mark.parametrize("word", ["", *HARMLESS])
def test_a_shop_that_takes_care_passes_every_fault(careless, word):
    """None is convicted for what it does right; a 409 for a conflict is only remarked on."""
    run = check(careless, word)
    assert failed(run) == set()
    assert (len(run.having("passed")), run.exit_status) == (len(FAULTS), 0)
    assert any(each.remarks for each in run.results) == (word == "conflict_409")


def test_every_fault_of_the_plan_is_played_and_convicts_some_carelessness():
    """A fault that convicts nobody would prove nothing."""
    codes = {fault.code for fault in FAULTS}
    assert codes == set(PLAYS)
    assert codes == {code for must, _ in CARELESS.values() for code in must}


def test_every_carelessness_of_the_shop_is_in_the_table(careless):
    """None is there without being played."""
    source = Path(careless.__file__).read_text("utf-8")
    here = set(re.findall(r'"(\w+)" (?:not )?in (?:self\.(?:server\.)?)?careless', source))
    here |= {word for group in re.findall(r'\{("\w+", "\w+")\} & ', source) for word in re.findall(r"\w+", group)}
    here |= set(re.findall(r'"(decline_\d+)":', source))
    assert here == {*CARELESS, *HARMLESS}


def test_without_a_count_only_answers_are_judged_and_that_is_said(careless):
    """Weaker: a second order that nobody tells of passes; two answers do not."""
    run = check(careless, "orders_at_two_tables", count_tool=None)
    assert not run.counted
    assert failed(run) == set()
    assert {each.fault.code: each.why for each in run.having("not tried")} == {
        "apart": "give --count-tool or --count-url"
    }
    assert {"twice", "twins", "late", "forged"} <= failed(
        check(careless, "no_key_check", "no_signature_check", count_tool=None)
    )


def test_orders_are_counted_by_url_too(careless):
    """The same as by a tool."""
    by_url = {"count_tool": None, "count_url": lambda shop: f"{shop.url}/count", "only": {"twins"}}
    runs = (check(careless, "twins_race", patience=patience, **by_url) for patience in PATIENCE)
    assert {"twins"} in map(failed, runs)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(3, 3), ([1, 2], 2), ({"orders": 4, "at": "noon"}, 4), ({"orders": [{}, {}]}, 2), ("7", 7), ("7\n", 7)]
    + [(each, None) for each in (None, True, -1, 1.5, "x", {}, {"a": 1, "b": 2}, {"a": {"b": 1}}, "9" * 30)],
)
def test_a_count_is_a_number_or_a_list(answer, expected):
    """What could be two numbers is none."""
    assert as_count(answer) == expected


def test_what_was_not_given_is_not_tried_and_says_which_option(careless):
    """Not tried is no failure."""
    run = check(careless, other=None, declined=None, status_url=None)
    assert {each.fault.code: each.why for each in run.having("not tried")} == {
        "other-cart": "give --other-arguments",
        "declined": "give --declined-arguments",
        **dict.fromkeys(["status-committed", "status-void", "late", "status-unsigned"], "give --status-url"),
    }
    assert run.exit_status == 0


def test_after_a_failed_honest_call_nothing_else_is_tried(careless):
    """A shop that refuses all would pass every refusal."""
    run = check(careless, secrets=("whsec_" + "A" * 32,), count_tool=None)
    assert failed(run) == {"honest"}
    assert "is it the right secret" in run.results[0].why
    assert {each.why for each in run.having("not tried")} == {"the honest call has to pass first"}


def test_the_run_ends_when_its_time_is_over(careless):
    """Bounded: a shop that never answers costs one deadline; what was not tried is said, and is no pass."""
    run = check(careless, deadline_s=0.6, settle_s=0.5)
    assert run.exit_status == 2
    assert "--deadline" in run.stopped
    assert run.having("not tried")
