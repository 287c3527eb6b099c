"""The part of the played gateway that keeps effects and approvals: as much of the ledger as a turn can tell."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

FIRST_AT = "2026-11-29T10:00:00.120Z"


@dataclass
class PlayedEffects:
    """`said` by target: fields that are answered in place of a decision. `refused` by report (`complete`, …): problems
    played one a request. `asked` counts requests by what they ask for."""

    said: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    submitted: list[dict[str, Any]] = field(default_factory=list)
    reported: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    pages: list[dict[str, Any]] = field(default_factory=list)
    decided: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)

    def submit(self, sent: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked["submit"] += 1
        self.submitted.append(sent)
        if sent["target"] in self.said:
            return 200, self.said[sent["target"]]
        name = json.dumps([sent["conversation"], sent.get("tool_call_id") or sent["claim_token"]])
        record = self.records.setdefault(name, {"effect_id": f"{len(self.records):064x}", "status": "executing"})
        shown = {key: record[key] for key in ("effect_id", "status")}
        if record["status"] != "executing":
            replay = {"matched": "claim_token", "first_at": FIRST_AT, "age_s": 1.5}
            return 200, {**shown, "decision": "replay", "replay": replay, **record["outcome"]}
        record["token"] = sent["claim_token"]
        return 200, {**shown, "decision": "proceed", "lease_s": 60}

    def report(self, what: str, effect_id: str, sent: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked[what] += 1
        self.reported.append((what, sent))
        if self.refused.get(what):
            code, status = self.refused[what].pop(0)
            return status, {"code": code, "status": status, "message": code, "outcome": "not_sent", "retryable": False}
        name = next((name for name, record in self.records.items() if record["effect_id"] == effect_id), None)
        if name is None:
            return 404, {"code": "not_found", "status": 404, "message": "nothing is recorded", "outcome": "not_sent"}
        record = self.records[name]
        if what == "release":
            del self.records[name]
            return 200, {"effect_id": effect_id, "status": "absent"}
        if what == "renew":
            return 200, {"effect_id": effect_id, "status": "executing", "lease_s": 60}
        outcome = {key: sent[key] for key in ("result", "error") if key in sent}
        if record.get("outcome", outcome) != outcome:
            return 409, {"code": "outcome_conflict", "status": 409, "message": "another", "outcome": "not_sent"}
        record |= {"outcome": outcome, "status": "succeeded" if what == "complete" else "failed"}
        return 200, {"effect_id": effect_id, "status": record["status"], **outcome}

    def settle_all(self, result: Any) -> None:
        """Another runner was faster."""
        for record in self.records.values():
            record |= {"outcome": {"result": result}, "status": "succeeded"}

    def page(self, cursor: str | None) -> tuple[int, dict[str, Any]]:
        return 200, self.pages[int(cursor or 0)]

    def decide(self, approval: str, what: str, sent: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.decided.append((approval, what, sent))
        done = {"grant": ("granted", "succeeded"), "deny": ("denied", "denied")}[what]
        verdict = {"id": approval, "decision": done[0], "status": done[1], "by": "customer", "effect_id": "ab" * 32}
        return 200, verdict | ({"result": {"total": 1.1}, "error": None} if what == "grant" else {})
