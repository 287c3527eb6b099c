"""How long tools take to be read, beside the parser alone: `python -m benchmarks.lint.read_speed [TOOLS]`.

Best of five, one process. The ratio of ten times the tools says whether time grows with the size alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from heuristics.formats import read_tools

_WORDS = "Looks an order up by the number the shop gave it and tells what stands in it. "


def manifest(tools: int) -> bytes:
    """OpenAI tools of about a kilobyte each."""
    properties = {f"field_{n}": {"type": "string", "description": _WORDS} for n in range(6)}
    schema = {"type": "object", "properties": properties, "required": ["field_0"], "additionalProperties": False}
    return json.dumps(
        [
            {"type": "function", "function": {"name": f"get_order_{n}", "description": _WORDS, "parameters": schema}}
            for n in range(tools)
        ]
    ).encode()


def best_of(times: int, work: Callable[[], object]) -> float:
    """Seconds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    tools = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    data, tenth = manifest(tools), manifest(tools // 10)
    parsed = best_of(5, lambda: json.loads(data))
    read = best_of(5, lambda: read_tools(data, "tools.json"))
    named = best_of(5, lambda: [tool.places["/name"] for tool in read_tools(data, "tools.json")])
    small = best_of(5, lambda: read_tools(tenth, "tools.json"))
    print(f"{tools:,} tools, {len(data) / 1e6:.1f} MB")
    print(f"json.loads                       {parsed:.3f} s")
    print(f"read_tools                       {read:.3f} s")
    print(f"read_tools, each name located    {named:.3f} s")
    parsed_small = best_of(5, lambda: json.loads(tenth))
    ratios = f"{read / small:.1f} times (json.loads {parsed / parsed_small:.1f})"
    print(f"against {tools // 10:,} tools: {ratios}")


if __name__ == "__main__":
    main()
