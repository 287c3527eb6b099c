"""What the assistant wants and how often it asks for it: conversations made from a seed. Pure.

An *intent* is one thing that may happen once at a merchant (or `wanted` times, for a tool that runs repeats); its
arguments name it, so that every row of the merchants' databases belongs to one intent. An *ask* is one request for it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

CARELESS: Final = "careless"
"""A merchant without the SDK: whatever reaches it, it does."""
KEPT: Final = "kept"
"""A merchant with the SDK: it knows a call again by its key."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a tool is registered."""

    company: str
    on_repeat: str = "hold"
    idempotency: str | None = None

    @property
    def at_most_once(self) -> bool:
        return self.idempotency is None


TOOLS: Final = {
    "place_order": Terms(CARELESS),
    "book_table": Terms(CARELESS, on_repeat="replay"),
    "add_item": Terms(CARELESS, on_repeat="run"),
    "order_once": Terms(KEPT),
    "buy_item": Terms(KEPT, idempotency="safe_to_retry"),
}
OUT_OF_STOCK: Final = 13
"""Nobody sells that many: the merchant refuses."""


@dataclass(frozen=True, slots=True)
class Intent:
    """One wish. `rivals`: a name shared by calls under one id, of which one at most may ever happen (2.2)."""

    name: str
    conversation: str
    tool: str
    quantity: int
    price: str
    wanted: int = 1
    rivals: str | None = None

    @property
    def terms(self) -> Terms:
        return TOOLS[self.tool]

    @property
    def arguments(self) -> str:
        """JSON text: `price` has digits that a float would lose."""
        return f'{{"order": "{self.name}", "quantity": {self.quantity}, "price": {self.price}}}'

    @property
    def ordered(self) -> tuple[str, str, str]:
        """What a merchant's row of it holds, as written."""
        return self.name, str(self.quantity), self.price


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for an intent, under the names it goes by."""

    intent: Intent
    tool_call_id: str
    turn: str | None = None
    step: int | None = None
    attempt: int | None = None

    @property
    def fields(self) -> dict[str, Any]:
        stated = {"turn": self.turn, "step": self.step, "attempt": self.attempt}
        return {"tool_call_id": self.tool_call_id, **{k: v for k, v in stated.items() if v is not None}}


@dataclass(slots=True)
class Script:
    """A conversation: stages in order, the asks of one stage side by side."""

    name: str
    stages: list[list[Ask]] = field(default_factory=list)

    @property
    def asks(self) -> list[Ask]:
        return list(dict.fromkeys(ask for stage in self.stages for ask in stage))


def script(seed: int, number: int) -> Script:
    """The same for the same seed and number."""
    return _Writer(seed, number).script


class _Writer:
    def __init__(self, seed: int, number: int) -> None:
        self._rng = random.Random(f"{seed}/conversation/{number}")
        self.script = Script(f"c{seed}-{number}")
        self._made = 0
        self._ids = 0
        # Ids as models mint them: never again, or anew in every turn or step. Without a turn, only the first.
        self._style = self._rng.choices(("fresh", "turn", "step", "bare"), (4, 3, 2, 2))[0]
        for turn in range(self._rng.choice((1, 1, 2))):
            self._turn(f"t{turn}")

    def _turn(self, turn: str) -> None:
        rng, stages = self._rng, self.script.stages
        first: list[list[Ask]] = []
        for step in range(1, rng.choice((1, 2, 3)) + 1):
            if self._style == "step" or (step == 1 and self._style == "turn"):
                self._ids = 0
            asks = [ask for _ in range(rng.choice((1, 1, 2))) for ask in self._calls(turn, step)]
            first.append(asks)
            # Twice at once: the two go to different replicas where they can.
            stages.append([ask for ask in asks for _ in range(rng.choices((1, 2, 3), (6, 3, 1))[0])])
        if rng.random() < 0.3:
            stages.append([self._again(rng.choice(rng.choice(first)), len(first) + 1)])
        if self._style != "bare" and rng.random() < 0.35:
            self._rerun(first)
        if rng.random() < 0.5:  # again, later, in any order
            late = [ask for asks in first for ask in asks]
            stages.append(rng.sample(late, k=min(len(late), 2)))

    def _calls(self, turn: str, step: int) -> list[Ask]:
        """One new call; two for a tool whose repeats run, or for two calls that fight over one id."""
        rng = self._rng
        tool = rng.choices(tuple(TOOLS), (4, 2, 2, 3, 3))[0]
        if tool == "add_item" and self._style != "bare" and rng.random() < 0.5:
            intent = self._intent(tool, wanted=2)
            return [self._ask(intent, turn, step), self._ask(intent, turn, step)]
        if rng.random() < 0.06 and tool != "add_item":
            rivals = f"{self.script.name}.{self._made}"
            one = self._ask(self._intent(tool, rivals=rivals), turn, step)
            other = Ask(self._intent(tool, rivals=rivals), one.tool_call_id, one.turn, one.step, one.attempt)
            return [one, other]
        return [self._ask(self._intent(tool), turn, step)]

    def _intent(self, tool: str, *, wanted: int = 1, rivals: str | None = None) -> Intent:
        self._made += 1
        quantity = self._rng.choices((self._rng.randint(1, 9), OUT_OF_STOCK), (12, 1))[0]
        price = f"{self._rng.randint(1, 99)}.{self._rng.randint(0, 99):02d}0000000000000001"
        return Intent(f"{self.script.name}.{self._made}", self.script.name, tool, quantity, price, wanted, rivals)

    def _ask(self, intent: Intent, turn: str, step: int) -> Ask:
        self._ids += 1
        if self._style == "bare":
            return Ask(intent, f"call_{self._ids}")
        return Ask(intent, f"call_{self._ids}", turn, step, 1)

    def _again(self, ask: Ask, step: int) -> Ask:
        """The model repeats itself under a new id. (Where that is wanted, it is not a repeat: ask the same.)"""
        if ask.intent.terms.on_repeat == "run" or ask.intent.rivals:
            return ask
        self._ids += 1
        step_now = None if ask.step is None else step
        return Ask(ask.intent, f"again_{self._made}_{self._ids}", ask.turn, step_now, ask.attempt)

    def _rerun(self, first: list[list[Ask]]) -> None:
        """The turn starts over as the next attempt, under the same ids or under new ones."""
        fresh = self._rng.random() < 0.5
        for asks in first:
            if any(ask.intent.rivals for ask in asks):
                continue
            self.script.stages.append(
                [
                    Ask(
                        ask.intent,
                        f"r_{ask.step}_{ask.tool_call_id}" if fresh else ask.tool_call_id,
                        ask.turn,
                        ask.step,
                        2,
                    )
                    for ask in asks
                ]
            )
