"""The shipped migrations make the table that the stores use, and nothing else does it by hand."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.orm import sessionmaker

from merchant_sdk import CallKey, SQLiteStore, once
from merchant_sdk.migrations import ddl, statements
from merchant_sdk.migrations.alembic import create_oncegate_once, drop_oncegate_once, not_oncegate_once
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore
from merchant_sdk.stores.sqlite import TABLE

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["postgresql", "sqlite", "mysql"])
def engine(request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    if request.param == "postgresql":
        host = dict(part.split("=") for part in request.getfixturevalue("postgres_database").split())
        url = f"postgresql+psycopg://shop@/{host['dbname']}?host={host['host']}"
    elif request.param == "mysql":
        socket, name = request.getfixturevalue("mariadb_database")
        url = f"mysql+pymysql://root@/{name}?unix_socket={socket}"
    else:
        url = f"sqlite:///{request.getfixturevalue('sqlite_database')}"
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


def place(store: Any) -> Any:
    with once(store, CallKey("k1", "f"), now=lambda: 1.0) as work:
        if not work.done:
            work.reply("placed")
    return work.answer.matched


def test_the_alembic_operations_make_and_drop_the_table(engine: sa.Engine) -> None:
    """Up, used, up again (it is there already), down."""
    for change in (create_oncegate_once, create_oncegate_once):
        with engine.begin() as connection:
            change(Operations(MigrationContext.configure(connection)))
    store = SQLAlchemyStore(sessionmaker(engine))
    assert [place(store), place(store)] == [None, "call"]
    with engine.begin() as connection:
        drop_oncegate_once(Operations(MigrationContext.configure(connection)))
        assert "oncegate_once" not in sa.inspect(connection).get_table_names()


def test_alembic_leaves_the_table_to_its_operations() -> None:
    """`--autogenerate` would otherwise propose to drop what is no model."""
    assert not not_oncegate_once(None, "oncegate_once", "table", True, None)
    assert not_oncegate_once(None, "orders", "table", True, None)


def test_the_plain_sql_is_enough(postgres_database: str) -> None:
    """As `psql -f postgresql.sql` would run it, twice."""
    with psycopg.connect(postgres_database) as db:
        for _ in range(2):
            db.execute(ddl("postgresql").encode())
    store = PsycopgStore(postgres_database)
    assert [place(store), place(store)] == [None, "call"]
    store.close()


def test_the_sqlite_store_and_the_shipped_sql_make_the_same_table(sqlite_database: Path, tmp_path: Path) -> None:
    """One table, whoever makes it."""
    SQLiteStore(sqlite_database)
    with closing(sqlite3.connect(":memory:")) as fresh, closing(sqlite3.connect(sqlite_database)) as made:
        fresh.executescript(ddl("sqlite"))
        look = "SELECT sql FROM sqlite_master WHERE name LIKE 'oncegate%' ORDER BY name"
        assert fresh.execute(look).fetchall() == made.execute(look).fetchall()
    assert re.sub(r"\s+", " ", ddl("sqlite")).strip() == re.sub(r"\s+", " ", TABLE).strip()


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql", "mysql"])
def test_django_migrate_makes_the_table_and_takes_it_back(
    request: pytest.FixtureRequest, tmp_path: Path, vendor: str
) -> None:
    """`manage.py migrate oncegate`, then `zero`, in a project of its own."""
    if vendor == "postgresql":
        at = dict(part.split("=") for part in request.getfixturevalue("postgres_database").split())
        where = {"ENGINE": "django.db.backends.postgresql", "HOST": at["host"], "USER": "shop", "NAME": at["dbname"]}
    elif vendor == "mysql":
        socket, name = request.getfixturevalue("mariadb_database")
        where = {"ENGINE": "django.db.backends.mysql", "USER": "root", "NAME": name, "OPTIONS": {"unix_socket": socket}}
    else:
        where = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "shop.db")}
    (tmp_path / "shop_settings.py").write_text(
        f"import pymysql\npymysql.install_as_MySQLdb()\nDATABASES = {{'default': {where!r}}}\nINSTALLED_APPS = ['merchant_sdk.stores.django_app']\nUSE_TZ = True\n"
    )
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "shop_settings", "PYTHONPATH": f"{tmp_path}:{ROOT}"}

    def manage(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "django", *words], env=env, capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "Applying oncegate.0001_initial... OK" in manage("migrate", "oncegate")
    assert "No changes detected" in manage("makemigrations", "oncegate", "--check")
    assert "Unapplying oncegate.0001_initial... OK" in manage("migrate", "oncegate", "zero")


def test_mysql_keys_are_compared_by_their_bytes(mariadb_database: tuple[str, str]) -> None:
    """A collation that takes K for k would be a stranger's order."""
    with closing(pymysql.connect(unix_socket=mariadb_database[0], user="root", database=mariadb_database[1])) as db:
        cursor = db.cursor()
        for statement in statements("mysql"):
            cursor.execute(statement)
        cursor.execute("INSERT INTO oncegate_once VALUES ('call', 'K', 'f', 'succeeded', '1', 1)")
        cursor.execute("SELECT count(*) FROM oncegate_once WHERE `key` = 'k'")
        assert cursor.fetchone() == (0,)


@pytest.mark.parametrize("vendor", ["oracle", "", "../sqlite"])
def test_a_database_without_a_table_is_named(vendor: str) -> None:
    """A clear no, before anything runs."""
    with pytest.raises(ValueError, match="there is no table for"):
        ddl(vendor)


@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy"])
def test_k7_02_workers_that_start_at_once_make_one_table(postgres_database: str, kind: str) -> None:
    """K7-02: PostgreSQL's IF NOT EXISTS looks before the other's commit, and fails at its own."""
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_database))

    def make() -> None:
        if kind == "psycopg":
            PsycopgStore(postgres_database, create_table=True).close()
        else:
            SQLAlchemyStore(sessionmaker(engine)).create_table()

    with psycopg.connect(postgres_database) as first, ThreadPoolExecutor() as threads:
        for statement in statements("postgresql"):
            first.execute(statement.encode())
        second = threads.submit(make)
        with psycopg.connect(postgres_database, autocommit=True) as db:
            waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            while not db.execute(waits).fetchall():
                assert not second.done(), second.exception()
        first.commit()
        second.result()
    engine.dispose()
