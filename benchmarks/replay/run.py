"""One replay: a private redis-server, a gateway that is restarted again and again, a shop, an assistant."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import Gateway, RedisServer
from benchmarks.replay.assistant import COMPANY, Assistant, Seen
from benchmarks.replay.checks import Failure, check
from benchmarks.replay.expected import Expected, Fate, Oddities, expect, oddities
from benchmarks.replay.recorded import RecordedCall
from benchmarks.replay.shop import Delivery, RecordedShop

RESTARTS: Final = 6
_LIMITS_OFF: Final = {"repeat_window_s": 0, "max_steps": "off"}
_ENDED_WELL: Final = "the gateway did not end well when asked to"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the gateway judged a tool's name."""

    tool: str
    side_effecting: bool
    reason: str


@dataclass(slots=True)
class Report:
    """What a replay showed."""

    expected: list[Expected]
    verdicts: list[Verdict]
    odd: Oddities
    restarts: Counter[str] = field(default_factory=Counter)
    seen: list[Seen] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    dropped: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)


async def replay(calls: Sequence[RecordedCall], folder: Path, *, restarts: int = RESTARTS) -> Report:
    """Send every call in order, in `restarts` parts; after each part the gateway is restarted (asked to end,
    or killed, by turns) and every call of the part comes again. The last restart kills redis-server as well,
    which then has its append-only file and nothing else. Raises StartFailed; `folder` must be empty."""
    started = time.monotonic()
    async with RedisServer(folder / "redis") as redis, RecordedShop() as shop:
        gateway = Gateway(folder / "gateway", redis.url)
        try:
            await gateway.start()
            report = await _prepare(calls, gateway, shop)
            report.deliveries = shop.deliveries
            parts = _cut(report.expected, restarts)
            for number, part in enumerate(parts):
                async with Assistant(gateway.url, report.seen) as assistant:
                    await assistant.converse(part)
                    report.dropped += assistant.dropped
                await _restart(gateway, redis, report, kill=bool(number % 2), last=number == len(parts) - 1)
                async with Assistant(gateway.url, report.seen) as assistant:
                    await assistant.again(part)
            code = await gateway.stop()
            if code != 0:
                report.failures.append(Failure(_ENDED_WELL, "the last stop", f"exit code {code}"))
        finally:
            await gateway.kill()
    report.failures += check(report.expected, report.seen, report.deliveries)
    report.seconds = time.monotonic() - started
    return report


async def _prepare(calls: Sequence[RecordedCall], gateway: Gateway, shop: RecordedShop) -> Report:
    async with Assistant(gateway.url, []) as assistant:
        await assistant.put(f"/v1/companies/{COMPANY}", _LIMITS_OFF)
        secret = (await assistant.post(f"/v1/companies/{COMPANY}/secrets", {}))["secret"]
        verdicts = []
        for tool in sorted({call.tool for call in calls}):
            # Nothing declared: the name alone decides, and `on_repeat` is the default, hold.
            stored = await assistant.put(f"/v1/companies/{COMPANY}/tools/{tool}", _registration(shop.url))
            verdict = stored["verdict"]
            verdicts.append(Verdict(tool, verdict["side_effecting"], verdict["reason"]))
    expected = expect(calls, {verdict.tool for verdict in verdicts if verdict.side_effecting})
    shop.prepare(expected, secret)
    return Report(expected, verdicts, oddities(calls, expected))


def _registration(endpoint: str) -> dict[str, Any]:
    return {
        "description": "As recorded.",
        "parameters": {"type": "object"},
        "endpoint": endpoint,
    }


async def _restart(gateway: Gateway, redis: RedisServer, report: Report, *, kill: bool, last: bool) -> None:
    if kill:
        await gateway.kill()
    elif code := await gateway.stop():
        report.failures.append(
            Failure(_ENDED_WELL, f"restart {sum(report.restarts.values()) + 1}", f"exit code {code}")
        )
    report.restarts["killed" if kill else "asked to end"] += 1
    if last:
        await redis.kill()
        await redis.start()
        report.restarts["with redis-server killed too"] += 1
    await gateway.start()


def _cut(expected: Sequence[Expected], parts: int) -> list[Sequence[Expected]]:
    """Parts of about the same length, cut wherever that falls, within conversations and turns too."""
    size = max(1, -(-len(expected) // parts))
    return [expected[start : start + size] for start in range(0, len(expected), size)]


def counts(report: Report) -> dict[str, int]:
    """The figures of a run, by name."""
    fates = Counter(each.fate for each in report.expected)
    writes = [each for each in report.expected if each.fate is not Fate.READ]
    bodies = [one.body for one in report.seen if isinstance(one.body, dict)]
    decisions = Counter(str(body.get("decision")) for body in bodies)
    arrived = Counter(delivery.key is not None for delivery in report.deliveries)
    return {
        "calls": len(report.expected),
        "conversations": len({each.call.conversation for each in report.expected}),
        "read_only_calls": fates[Fate.READ],
        "writes": len(writes),
        "writes_refused_by_the_shop": sum(each.fate is Fate.SENT and each.call.refused for each in writes),
        "requests": len(report.seen) + report.dropped,
        "replies_dropped": report.dropped,
        "sends_of_writes": arrived[True],
        "sends_of_reads": arrived[False],
        "replays": decisions["replay"],
        "holds": fates[Fate.HELD],
        "answers_held": decisions["blocked"],
        "answers_denied": decisions["denied"],
        "refused_by_the_gateway": sum(one.status != 200 for one in report.seen),
        "recycled_ids": report.odd.recycled_ids,
        "turns": report.odd.turns,
        "turns_longer_than_six_steps": report.odd.long_turns,
        "calls_beyond_the_sixth_step": report.odd.calls_beyond,
        "writes_a_60_s_window_could_have_held": report.odd.held_by_window,
        "writes_repeated_within_their_turn": report.odd.repeats_in_turn,
        "restarts": report.restarts["killed"] + report.restarts["asked to end"],
        "failures": len(report.failures),
    }
