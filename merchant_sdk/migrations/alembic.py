"""The table as an Alembic migration.

    from alembic import op
    from merchant_sdk.migrations.alembic import create_oncegate_once, drop_oncegate_once

    def upgrade(): create_oncegate_once(op)
    def downgrade(): drop_oncegate_once(op)

It is no model of yours: keep it out of `--autogenerate` with `include_object=not_oncegate_once`.
"""

from __future__ import annotations

from typing import Any, Protocol

from merchant_sdk.migrations import statements


class Operations(Protocol):
    """What is used of `alembic.op`."""

    def get_context(self) -> Any:
        """The migration's context, which knows the database's dialect."""

    def execute(self, sqltext: str) -> None:
        """Run one statement, or print it in offline mode."""


def create_oncegate_once(op: Operations) -> None:
    """Make the table. Raises ValueError for a database that has none."""
    name = op.get_context().dialect.name
    for statement in statements("mysql" if name == "mariadb" else name):
        op.execute(statement)


def drop_oncegate_once(op: Operations) -> None:
    """Drop the table: every key is forgotten, and every call may run again."""
    op.execute("DROP TABLE oncegate_once")


def not_oncegate_once(_object: Any, name: str | None, kind: str, *_: Any) -> bool:
    """For `include_object` in env.py: leave the table to these operations."""
    return not (kind == "table" and name == "oncegate_once")
