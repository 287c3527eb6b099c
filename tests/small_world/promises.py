"""What no state of the small world may break, and what no answer may say."""

from __future__ import annotations

from typing import Final

from gateway.core.record import SETTLED, Mode, Status
from tests.small_world.answers import Answer
from tests.small_world.ledger import Ledger
from tests.small_world.moves import Worker
from tests.small_world.shop import Shop, result_of
from tests.small_world.situations import Situation
from tests.small_world.story import Broken

DID_NOTHING: Final = frozenset(
    {
        *("ledger_unavailable", "merchant_not_ready", "too_slow", "tool_call_id_reused", "attempt_superseded"),
        *("denied: prior_outcome_unknown", "blocked", "replay", "refused", "approval_decided", "grant_refused"),
    }
)
"""Answers which say that this request did nothing at the merchant."""
MAY_HOLD: Final = frozenset({Status.EXECUTING, Status.INDETERMINATE, Status.SUCCEEDED})


class Promises:
    """Checked once for each pair of a ledger's contents and a shop."""

    def __init__(self, situation: Situation, ledger: Ledger) -> None:
        self._situation = situation
        self._ledger = ledger
        self._held: set[tuple[int, Shop]] = set()

    def hold(self, contents: int, shop: Shop) -> None:
        """Raises Broken where a state breaks a promise."""
        if (contents, shop) in self._held:
            return
        self._commits(shop)
        if not self._situation.trouble.hasty:
            self._records(contents, shop)
        self._held.add((contents, shop))

    def _commits(self, shop: Shop) -> None:
        if len(shop.commits) > self._situation.commits:
            raise Broken(f"{len(shop.commits)} orders were made of {self._situation.commits} that were meant")
        if self._situation.mode is Mode.AT_MOST_ONCE and self._situation.trouble.hasty:
            return
        keys = [commit.key for commit in shop.commits]
        if len(keys) != len(set(keys)):
            raise Broken("two orders were made under one key")

    def _records(self, contents: int, shop: Shop) -> None:
        for commit in shop.commits:
            effect = self._ledger.effect(contents, commit.key)
            if effect is None or effect.status not in MAY_HOLD:
                stands = "nothing" if effect is None else effect.status.value
                raise Broken(f"4.2: an order was made, and its record says {stands}")
            if commit.token in shop.unsent:
                raise Broken(
                    f"8: an order was made by request {commit.token + 1}, which was told that nothing was sent"
                )
        for effect in self._ledger.effects(contents):
            if effect.status is Status.SUCCEEDED:
                made = shop.committed(effect.effect_id)
                if made is None or effect.outcome is None or effect.outcome.result != result_of(made):
                    raise Broken("4.2: a record says succeeded with what the merchant never did")

    def answered(self, contents: int, shop: Shop, worker: Worker, answer: Answer) -> bool:
        """Whether the answer says that its request did nothing; raises Broken where it says what is not so."""
        if answer.status == Status.SUCCEEDED.value:
            self._success(contents, shop, worker, answer)
        elif answer.result is not None:
            raise Broken("8: an answer that is no success shows a result")
        if answer.status == Status.FAILED.value and not self._situation.trouble.hasty:
            # Where the ledger is away (4.11), a worker can speak of its own request only.
            alone = not answer.recorded
            if any(
                commit.key == answer.shown and (not alone or commit.token == worker.token) for commit in shop.commits
            ):
                raise Broken("8: a failure was answered of an order that was made")
        if answer.said == "replay" and any(commit.token == worker.token for commit in shop.commits):
            raise Broken("4.10: a replay was answered to a request that made an order itself")
        if answer.recorded and answer.status in {status.value for status in SETTLED} and answer.said != "blocked":
            effect = self._ledger.effect(contents, answer.shown)
            if effect is None or effect.status.value != answer.status:
                raise Broken("4.2: an outcome was answered before it was recorded")
        if answer.said in ("granted", "refused"):
            self._decided(contents, answer)
        return answer.said in DID_NOTHING

    def _decided(self, contents: int, answer: Answer) -> None:
        """7.4: what somebody is told of an approval is what stands."""
        effect = self._ledger.effect(contents, answer.shown)
        decided = effect is not None and effect.approval is not None and effect.approval.decided_by is not None
        denied = effect is not None and effect.status is Status.DENIED
        if decided and denied is (answer.said == "refused"):
            return
        # What was granted and came to nothing, released or resolved so, may be gone by now.
        if answer.said == "refused" or (effect is not None and effect.status is not Status.ABSENT):
            raise Broken(f"7.4: an approval is told to be {answer.said}, and is not")

    def _success(self, contents: int, shop: Shop, worker: Worker, answer: Answer) -> None:
        made = [number for number, commit in enumerate(shop.commits) if commit.key == answer.shown]
        if not made:
            raise Broken("8: a success was answered of an order that was never made")
        shown = [shop.commits[number] for number in made if answer.result == result_of(number)]
        if not shown:
            raise Broken("8: an answer shows another result than the merchant's")
        if shown[0].sku != self._situation.asks[worker.caller].sku:
            raise Broken("2.2: an answer shows the result of another call")
