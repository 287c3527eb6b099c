"""What a lint rule remarks about one tool, and the order in which remarks are told. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .declared_tool import Place

__all__ = ["SEVERITIES", "Finding", "Severity", "order_of"]

Severity = Literal["error", "warning", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """`error` and `warning` fail a lint run and, under `on_finding = "refuse"`, a registration (3.5); `note` is worth
    knowing and fails nothing. `code` is the rule's stable id (`OG101`), `rule` its name."""

    code: str
    rule: str
    severity: Severity
    message: str
    tool: str
    place: Place


def order_of(finding: Finding) -> tuple[str, int, int, str, str, str]:
    """Sort key: by file, then as the eye meets them in it."""
    place = finding.place
    return (place.path, place.line or 0, place.column or 0, finding.code, finding.tool, finding.message)
