"""What lint says of one tool as a merchant's code defines it: the entry point `oncegate.lint`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from heuristics.declared_tool import DeclaredTool, Place
from heuristics.lint import lint
from heuristics.lint_settings import LintSettings

__all__ = ["remarks"]

_FIELDS: Final = ("name", "description", "parameters", "side_effecting")
_SETTINGS: Final = LintSettings()


def remarks(registration: Mapping[str, Any]) -> list[str]:
    """Errors and warnings on the body of `PUT …/tools/{name}` with its `name`, each after its rule's code.

    Notes are for `oncegate lint` and `oncegate tools register`, which see all tools of a company at once.
    """
    tool = DeclaredTool(
        name=registration["name"],
        place=Place(""),
        format="oncegate",
        description=registration.get("description"),
        parameters=registration.get("parameters"),
        document=registration.get("parameters") or {},
        side_effecting=registration.get("side_effecting"),
        extras={field: value for field, value in registration.items() if field not in _FIELDS},
    )
    return [f"{found.code} {found.message}" for found in lint([tool], _SETTINGS) if found.severity != "note"]
