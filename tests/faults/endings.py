"""What must hold once a history is over: every fault has passed, every lease has lapsed, the sweeper has come by."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from gateway.core.record import SETTLED, Effect, Mode, Status
from tests.faults.plan import Ask, How, Plan
from tests.faults.shop import BY_NAME, WINDOW_S

if TYPE_CHECKING:
    from tests.faults.invariants import Watch
    from tests.faults.run import World

_MAY_LEAVE_UNSENT: Final = frozenset({"gateway killed", "ledger clock jumps", "ledger failover"})
"""Faults after which an effect may rightly be unknown though nothing was sent: its worker is dead or too late."""

_LOSES_WHAT_WAS_LEARNT: Final = frozenset(
    {"settle not sent", "settle reply lost", "read not sent", "read reply lost", "ledger restart", "ledger failover"}
)
"""Faults after which a merchant's `committed` is asked for again, but only while the call is still unknown (5.4)."""


def check(world: World, watch: Watch) -> None:
    """All of them, in the order in which they explain each other."""
    for one in (
        _nothing_runs,
        _log_and_records,
        _indexes,
        _once,
        _told,
        _wanted,
        _unsent,
        _seen_successes,
        _forgotten,
        _settles,
        _answered,
        _limited,
    ):
        one(world, watch)
        if watch.broken:
            return


def given_twice(plan: Plan, ask: Ask) -> bool:
    """Whether the plan gives this id to more than one call."""
    return len({(a.tool, a.sku) for a in plan.asks if (a.conversation, a.call) == (ask.conversation, ask.call)}) > 1


def _nothing_runs(world: World, watch: Watch) -> None:
    for effect in world.ledger.effects():
        if effect.status is Status.EXECUTING:
            watch.broke("4.5", f"{effect.hex[:8]} is executing for ever")
        if effect.status is Status.AWAITING_APPROVAL:
            watch.broke("7.4", f"{effect.hex[:8]} waits for approval for ever, and so does what repeats it")


def _log_and_records(world: World, watch: Watch) -> None:
    """7.6: the log alone tells where every effect stands."""
    told: dict[bytes, str] = {}
    for log in world.ledger.logs.values():
        for logged in log:
            event = logged.event
            if event.effect_id is None or not event.type.startswith("effect."):
                continue
            word = event.type.partition(".")[2]
            if word == "resolved":
                told[event.effect_id] = str(event.data["outcome"])
            elif word == "released":
                told[event.effect_id] = Status.ABSENT.value
            elif word in {status.value for status in Status}:
                told[event.effect_id] = word
    for effect_id, word in told.items():
        effect = world.ledger.effect(effect_id)
        stands = Status.ABSENT.value if effect is None else effect.status.value
        if stands != word and not (effect is None and _has_ended(world, word)):
            watch.broke("7.6", f"{effect_id.hex()[:8]} is {stands}, but its events say {word}")
    for effect in world.ledger.effects():
        if effect.effect_id not in told:
            watch.broke("7.6", f"{effect.hex[:8]} has no events")


def _has_ended(world: World, word: str) -> bool:
    """Whether the retention time may have ended a record that the log ends with this word."""
    ends = {*(status.value for status in SETTLED), Status.AWAITING_APPROVAL.value}
    return word in ends and world.has_outlived_records


def _indexes(world: World, watch: Watch) -> None:
    by_status: dict[Status, set[bytes]] = defaultdict(set)
    for effect in world.ledger.effects():
        by_status[effect.status].add(effect.effect_id)
    if set(world.ledger.unknown_ids) != by_status[Status.INDETERMINATE]:
        watch.broke("4.15", "the index of unknown outcomes is not what is unknown")
    gone = {id_ for id_ in world.ledger.due_at if world.ledger.effect(id_) is None}
    held = by_status[Status.EXECUTING] | by_status[Status.AWAITING_APPROVAL]
    if set(world.ledger.due_at) - gone != held or (gone and not world.has_outlived_records):
        watch.broke("4.15", "the index of what falls due is not what runs and what is held")


def _once(world: World, watch: Watch) -> None:
    """At most one effect a key, and no more effects than were wanted."""
    for key, orders in world.books.by_key.items():
        if len(orders) > 1 and key not in watch.excuses and key not in watch.repeatable:
            watch.broke("4.6", f"{key[:8]} was done {len(orders)} times")
    wanted: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for ask in world.plan.asks:
        wanted[ask.group].add(ask.intent)
    for job in world.plan.jobs:
        wanted[job.group].add(job.intent)
    done: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for order in world.books.orders:
        if order.key in watch.repeatable:
            continue
        if order.key in watch.approvals.ran_granted:
            wanted[order.conversation, order.tool, order.sku].add(f"approved: {order.key}")
        done[order.conversation, order.tool, order.sku].append(order.key)
    for group, keys in done.items():
        if len(keys) > len(wanted[group]):
            _excuse_late_repeats(world, watch, keys)
        if len(keys) > len(wanted[group]) and not any(key in watch.excuses for key in keys):
            watch.broke("4.9", f"{len(wanted[group])} of {group} wanted, {len(keys)} done")
    if any(key in watch.excuses for key in world.books.by_key):
        return
    by_call: dict[tuple[str, str | None, str | None], Ask] = {
        (a.conversation, a.turn, a.call): a for a in world.plan.asks if a.call is not None
    }
    by_intent = Counter(
        ask.intent
        for order in world.books.orders
        if (ask := by_call.get((order.conversation, order.turn, order.tool_call_id))) is not None
        and BY_NAME[ask.tool].on_repeat != "run"
        and not given_twice(world.plan, ask)
        and order.key not in watch.approvals.ran_granted
    )
    for intent, times in by_intent.items():
        if times > 1:
            watch.broke("4.9", f"{intent} was done {times} times")


def _told(world: World, watch: Watch) -> None:
    """4.2: whoever is told of a success has one: two that were wanted and said to be done are two."""
    done = Counter((o.conversation, o.tool, o.sku) for o in world.books.orders)
    unsure = set()
    for order in world.books.orders:
        effect = world.ledger.effect(bytes.fromhex(order.key))
        # 4.7: under safe_to_retry the first answers for a second that comes while it is unknown.
        answers = effect is not None and effect.was_unknown and effect.mode is Mode.SAFE_TO_RETRY
        if answers or order.key in watch.forgotten or order.key in watch.excuses:
            unsure.add((order.conversation, order.tool, order.sku))
    for group, intents in watch.told_of_success.items():
        if len(intents) > done[group] and group not in unsure:
            watch.broke("4.2", f"{len(intents)} of {group} are said to be done, and {done[group]} are")


def _excuse_late_repeats(world: World, watch: Watch, keys: list[str]) -> None:
    """4.9: what names no turn is a repeat only for as long as the window, by the ledger's clock."""
    effects = [world.ledger.effect(bytes.fromhex(key)) for key in keys]
    known = sorted((e for e in effects if e is not None and e.turn is None), key=lambda e: e.first_at or 0)
    for first, second in itertools.pairwise(known):
        if (second.first_at or 0) - (first.settled_at or first.claimed_at or 0) >= WINDOW_S * 1000:
            watch.excuse(second.hex, "a repeat that names no turn was first heard after the window")


def _wanted(world: World, watch: Watch) -> None:
    """What no fault has met is done, each as often as it was wanted; what needs an approval may not get it."""
    if None in world.touched or world.plan.policy:
        return
    intents: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    unclear: set[tuple[str, str, str]] = set()
    for ask in world.plan.asks:
        intents[ask.group].add(ask.intent)
        misused = ask.how is not How.RECYCLED and any(
            other.how is How.MISUSED and other.call == ask.call for other in world.plan.asks
        )
        if misused or ask.how is How.SUPERSEDED:
            unclear.add(ask.group)
    done = Counter((o.conversation, o.tool, o.sku) for o in world.books.orders)
    for group, wishes in intents.items():
        if group not in unclear and group not in world.touched and done[group] < len(wishes):
            watch.broke("4.9", f"{len(wishes)} of {group} wanted, {done[group]} done, and no fault was in the way")


def _unsent(world: World, watch: Watch) -> None:
    """4.11: a claim under which nothing was sent is withdrawn, and does not stay behind as an unknown outcome."""
    kinds = {kind for kind, times in world.faults.items() if times}
    if kinds & _MAY_LEAVE_UNSENT:
        return
    for effect in world.ledger.effects():
        if effect.status is Status.INDETERMINATE and effect.hex not in watch.senders and not effect.submitted:
            watch.broke("4.11", f"{effect.hex[:8]} is unknown, though nothing was ever sent for it")


def _seen_successes(world: World, watch: Watch) -> None:
    """4.4, 4.11: a success that a living gateway has seen is recorded, or its conflict is."""
    seen = dict(watch.told_done)
    if not _LOSES_WHAT_WAS_LEARNT & {kind for kind, times in world.faults.items() if times}:
        seen |= watch.told_committed
    for key, process in seen.items():
        if not process.alive or key in watch.conflicts or process is not world.processes[process.number]:
            continue
        effect: Effect | None = world.ledger.effect(bytes.fromhex(key))
        if key in watch.forgotten:
            continue
        if effect is None and _has_ended(world, Status.SUCCEEDED.value):
            continue
        if effect is None or effect.status is not Status.SUCCEEDED:
            watch.broke(
                "4.4", f"{key[:8]} was seen to succeed, but stands as {effect and effect.status}, and no conflict"
            )


def _forgotten(world: World, watch: Watch) -> None:
    """4.14: a success whose claim a failover lost nobody can record; but somebody is told of it."""
    for key, process in watch.needs_alarm.items():
        lives = process.alive and process is world.processes[process.number]
        if lives and not watch.alarms["forgotten"]:
            watch.broke("4.14", f"{key[:8]} succeeded, the ledger has forgotten its claim, and nobody is told")


def _settles(world: World, watch: Watch) -> None:
    """5.4: a merchant that answers is asked until it is known, while its tool stands where the call was sent to."""
    for effect in world.ledger.effects():
        tool = world.shelf.tool(effect.company, effect.target)
        here = tool is not None and tool.status_endpoint is not None and tool.endpoint == effect.endpoint
        if here and effect.status is Status.INDETERMINATE:
            watch.broke("5.4", f"{effect.hex[:8]} is still unknown, though its merchant would say")


def _answered(world: World, watch: Watch) -> None:
    """Every request that a living gateway took in was answered."""
    for process in world.processes:
        for served in process.serving if process.alive else ():
            watch.broke("4.8", f"{served.ask.call} was never answered by a gateway that lives")


def _limited(world: World, watch: Watch) -> None:
    """7.5: with nothing in the way each refusal is in the log, and whoever waits as long as it is told gets its turn."""
    if not world.plan.faults:
        watch.limits.ended()
