"""A run for a terminal: a line a fault, and under a failed one what it did and what to do."""

from __future__ import annotations

from gateway.commands.merchant_check.result import Result, Run

WEAK = (
    "judged by the answers alone: an order too many that is not told of was not seen; "
    "--count-tool or --count-url counts them"
)


def as_text(run: Run) -> str:
    lines = [f"{run.tool} at {run.url}", ""]
    for result in run.results:
        lines += _lines(result)
    lines.append("")
    if not run.counted:
        lines.append(WEAK)
    if run.stopped:
        lines.append(f"stopped: {run.stopped}")
    numbers = [f"{len(run.having(verdict))} {verdict}" for verdict in ("passed", "failed", "not tried")]
    return "\n".join([*lines, ", ".join(numbers)]) + "\n"


def _lines(result: Result) -> list[str]:
    shown = "FAILED" if result.verdict == "failed" else result.verdict
    line = f"{shown:9}  {result.fault.code:16}  {result.fault.promise}"
    if result.verdict == "not tried":
        return [f"{line}: {result.why}"]
    lines = [line]
    if result.verdict == "failed":
        lines += [
            f"{'':11}it: {result.why}",
            f"{'':11}do: {result.fault.do} (docs/merchants/protocol.md, {result.fault.rule})",
        ]
    return [*lines, *(f"{'':11}note: {remark}" for remark in result.remarks)]
