"""The table `oncegate_once`, as SQL for each database. The table is part of the contract with running shops:
change it only by a new one beside it."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

Vendor = Literal["postgresql", "sqlite", "mysql"]

MADE_MEANWHILE = frozenset({"23505", "42P07", "42710"})
"""What PostgreSQL answers IF NOT EXISTS with while somebody else makes the same: another try finds it made."""
MAKING_TRIES = 5


def ddl(vendor: str) -> str:
    """The statements that make the table where it is missing, each ended by `;`. ValueError for others."""
    if vendor not in ("postgresql", "sqlite", "mysql"):
        raise ValueError(f"there is no table for {vendor}: only for postgresql, sqlite and mysql (MariaDB too)")
    return (files(__name__) / "sql" / f"{vendor}.sql").read_text(encoding="utf-8")


def statements(vendor: str) -> list[str]:
    """The same, one by one."""
    return [statement.strip() for statement in ddl(vendor).split(";") if statement.strip()]
