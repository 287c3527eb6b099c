"""Make `oncegate_once` in each database that migrations reach."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations

from merchant_sdk.migrations import statements


def create(_apps: Any, schema_editor: Any) -> None:
    for statement in statements(schema_editor.connection.vendor):
        schema_editor.execute(statement)


def drop(_apps: Any, schema_editor: Any) -> None:
    schema_editor.execute("DROP TABLE oncegate_once")


class Migration(migrations.Migration):  # type: ignore[misc]
    """The first and, by contract, the only one."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    # No transaction of its own: MySQL and MariaDB cannot roll a table back, and Django refuses to try. Where it can be
    # rolled back, the migration as a whole is.
    operations: ClassVar[list[Any]] = [migrations.RunPython(create, drop, atomic=False)]
