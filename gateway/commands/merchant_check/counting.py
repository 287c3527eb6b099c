"""How many times the merchant says that it did the work: a number, a list, or an object with one of either."""

from __future__ import annotations

from typing import Any

from gateway.commands.merchant_check.link import Link
from gateway.commands.merchant_check.target import CannotRun, Target
from gateway.commands.merchant_check.wire import Writer


async def count(target: Target, writer: Writer, link: Link) -> int | None:
    """None where the merchant names nothing to ask. Raises CannotRun for an answer that is no count."""
    if target.count_tool is not None:
        said = await link.post("count", writer.read(target.count_tool, target.count_arguments))
        source = f"--count-tool {target.count_tool}"
    elif target.count_url is not None:
        said = await link.get("count", target.count_url)
        source = "--count-url"
    else:
        return None
    if said.unreached:
        raise CannotRun(f"nothing answers at {target.count_url or target.url}: {said.unreached}")
    if said.status in (401, 403):
        raise CannotRun(f"{source} was refused (is it the right secret?): {said.said}")
    found = as_count(said.json) if said.done else None
    if found is None:
        raise CannotRun(f"{source} has to answer a number or a list, and answered: {said.said}")
    return found


def as_count(value: Any) -> int | None:
    """The number in an answer; None if it holds none, or more than one."""
    if isinstance(value, dict):
        found = [number for each in value.values() if (number := _plain(each)) is not None]
        return found[0] if len(found) == 1 else None
    return _plain(value)


def _plain(value: Any) -> int | None:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, str):
        return int(value) if value.strip().isdecimal() and len(value) < 19 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
