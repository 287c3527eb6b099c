"""A run for a program: one JSON object."""

from __future__ import annotations

import json
from typing import Any

from gateway.commands.merchant_check.exchange import Exchange
from gateway.commands.merchant_check.result import Result, Run


def as_json(run: Run) -> str:
    """Times are milliseconds since the fault began; `counted` false says that only answers were judged."""
    told = {
        "url": run.url,
        "tool": run.tool,
        "counted": run.counted,
        "exit_status": run.exit_status,
        "stopped": run.stopped or None,
        **{verdict.replace(" ", "_"): len(run.having(verdict)) for verdict in ("passed", "failed", "not tried")},
        "faults": [_result(each) for each in run.results],
    }
    return json.dumps(told, indent=2) + "\n"


def _result(result: Result) -> dict[str, Any]:
    return {
        "code": result.fault.code,
        "promise": result.fault.promise,
        "rule": result.fault.rule,
        "verdict": result.verdict.replace(" ", "_"),
        "why": result.why or None,
        "do": result.fault.do if result.verdict == "failed" else None,
        "notes": list(result.remarks),
        "history": [_exchange(each) for each in result.history],
    }


def _exchange(exchange: Exchange) -> dict[str, Any]:
    return {
        "what": exchange.what,
        "key": exchange.key or None,
        "sent_ms": round(exchange.sent_s * 1000, 1),
        "ended_ms": round(exchange.ended_s * 1000, 1),
        "status": exchange.status,
        "said": exchange.said,
    }
