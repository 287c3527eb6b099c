"""The event logs of a whole run, verified at its end by the command that everybody has: `oncegate events verify`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from typing import Final, NamedTuple

from benchmarks.chaos.checks import CHAIN, Violation
from benchmarks.processes import DEV_KEY

WITHIN_S: Final = 60.0
UNVERIFIED: Final = "the event logs could not be verified"


class Verified(NamedTuple):
    """`logs` that have sealed events, how many `events` these are, and what is wrong with any log."""

    logs: int
    events: int
    wrong: tuple[Violation, ...]


async def verify_all(url: str, companies: Iterable[str]) -> Verified:
    """Every log that the companies' feeds name, and their own. A run in which nothing was sealed is verified by nobody,
    and counts as a violation."""
    logs, events, wrong = 0, 0, []
    for company in companies:
        code, out, told = await _events_verify(url, company)
        said = [json.loads(line) for line in out.splitlines()]
        logs += sum(bool(each["sealed"]) for each in said)
        events += sum(each["sealed"] for each in said)
        found = [Violation(CHAIN, f"{company}/{each['conversation']}", "; ".join(each["wrong"])) for each in said]
        wrong += [each for each in found if each.detail]
        if code != int(any(each.detail for each in found)):
            wrong.append(Violation(UNVERIFIED, company, f"status {code}: {told.strip()[-300:]}"))
    if not events:
        wrong.append(Violation(UNVERIFIED, "all", "nothing was sealed"))
    return Verified(logs, events, tuple(wrong))


async def _events_verify(url: str, company: str) -> tuple[int | None, str, str]:
    command = (sys.executable, "-m", "gateway.cli", "events", "verify", company, "--json", "--url", url)
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "ONCEGATE_KEY": DEV_KEY},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, told = await asyncio.wait_for(process.communicate(), WITHIN_S)
    except TimeoutError:
        return None, "", f"not done within {WITHIN_S:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, out.decode(), told.decode()
