"""One shop desk per way to reach a database; every promise of `once` is tried at each of them."""

from __future__ import annotations

import asyncio
import itertools
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiomysql
import aiosqlite
import asyncpg
import django
import psycopg
import pymysql
import pytest
import sqlalchemy as sa
from django.apps import apps
from django.conf import settings
from django.db import connections
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import NullPool

from benchmarks.sdk.databases import DoesNotStart, NoServer, private_mariadb, private_postgres
from merchant_sdk import CallKey, RequestKey, SQLiteStore, call_status, once
from merchant_sdk.migrations import statements
from merchant_sdk.stores.django import DjangoStore
from merchant_sdk.stores.postgres import PsycopgStore
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore
from merchant_sdk.stores.sqlalchemy_async import AsyncSQLAlchemyStore, once_async

START = 1_796_000_000.0
ORDERS = {
    "postgresql": "CREATE TABLE orders (id bigserial PRIMARY KEY, buyer text NOT NULL, item text UNIQUE)",
    "sqlite": "CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT NOT NULL, item TEXT UNIQUE)",
    "mysql": "CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, buyer VARCHAR(99) NOT NULL, item VARCHAR(99) UNIQUE)",
}
INSERT = "INSERT INTO orders (buyer) VALUES (:buyer)"


@dataclass
class Clock:
    at: float = START

    def __call__(self) -> float:
        return self.at


@dataclass
class Desk:
    """Places orders through one store. `inside` runs in the open transaction, after the insert."""

    store: Any
    insert: Callable[[Any, str], Any]
    read: Callable[[str], list[tuple[Any, ...]]]
    clock: Clock = field(default_factory=Clock)
    after: Callable[[], None] = lambda: None
    vendor: str = ""
    expects: bool = False
    """Whether a work is told beforehand which purchase it will be bound to."""

    def orders(self) -> list[str]:
        return [str(buyer) for (buyer,) in self.read("SELECT buyer FROM orders ORDER BY id")]

    def records(self) -> int:
        return int(self.read("SELECT count(*) FROM oncegate_once")[0][0])

    def place(
        self,
        call: str | None = None,
        purchase: RequestKey | None = None,
        *,
        buyer: str = "b-1",
        wants: str = "pizza",
        inside: Callable[[Any], Any] = lambda db: None,
        reply: Any = None,
    ) -> Any:
        """The committed answer's result."""
        key = purchase if call is None else CallKey(call, f"order {wants}")
        assert key is not None
        try:
            with once(self.store, key, now=self.clock, reply=reply, expect=self._expected(call, purchase)) as work:
                bound = call and purchase and work.bind(purchase, order_again="Say so.")
                if not work.done and not bound:
                    self.insert(work.db, buyer)
                    inside(work.db)
                    if reply is None:
                        work.reply({"for": buyer})
            return work.answer.result
        finally:
            self.after()

    def _expected(self, call: str | None, purchase: RequestKey | None) -> RequestKey | None:
        return purchase if self.expects and call is not None else None

    def forget(self, call: str, purchase: RequestKey) -> None:
        with once(self.store, CallKey(call, "cancel"), now=self.clock) as work:
            work.forget(purchase.text)
            work.reply("cancelled")
        self.after()

    def status(self, call: str, wait_s: float = 0.05, first_at: float | None = None) -> Any:
        try:
            return call_status(self.store, call, now=self.clock, wait_s=wait_s, first_at=first_at)
        finally:
            self.after()

    def prune(self, before: float) -> int:
        return int(self.store.prune(before))


class AsyncDesk(Desk):
    """The same over asyncio, each order on an event loop of its own."""

    def place(
        self,
        call: str | None = None,
        purchase: RequestKey | None = None,
        *,
        buyer: str = "b-1",
        wants: str = "pizza",
        inside: Callable[[Any], Any] = lambda db: None,
        reply: Any = None,
    ) -> Any:
        async def run() -> Any:
            key = purchase if call is None else CallKey(call, f"order {wants}")
            assert key is not None
            expected = self._expected(call, purchase)
            async with once_async(self.store, key, now=self.clock, reply=reply, expect=expected) as work:
                bound = call and purchase and await work.bind(purchase, order_again="Say so.")
                if not work.done and not bound:
                    await self.insert(work.db, buyer)
                    await asyncio.to_thread(inside, work.db)
                    if reply is None:
                        work.reply({"for": buyer})
            return work.answer.result

        return asyncio.run(run())

    def forget(self, call: str, purchase: RequestKey) -> None:
        async def run() -> None:
            async with once_async(self.store, CallKey(call, "cancel"), now=self.clock) as work:
                await work.forget(purchase.text)
                work.reply("cancelled")

        asyncio.run(run())

    def status(self, call: str, wait_s: float = 0.05, first_at: float | None = None) -> Any:
        return asyncio.run(self.store.status(call, now=self.clock, wait_s=wait_s, first_at=first_at))

    def prune(self, before: float) -> int:
        return int(asyncio.run(self.store.prune(before)))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A private PostgreSQL, as a connection string."""
    try:
        with private_postgres("fsync=off", "deadlock_timeout=50ms", "max_prepared_transactions=4") as conninfo:
            yield conninfo
    except DoesNotStart:
        raise  # tests that skip on a broken server pass whatever is broken
    except NoServer as why:
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def mariadb() -> Iterator[str]:
    """A private MariaDB, as the path of its socket."""
    try:
        with private_mariadb() as socket:
            yield socket
    except DoesNotStart:
        raise  # tests that skip on a broken server pass whatever is broken
    except NoServer as why:
        pytest.skip(str(why))


_numbers = itertools.count()


@pytest.fixture
def postgres_database(postgres: str) -> Iterator[str]:
    """A fresh database on it."""
    name = f"shop{next(_numbers)}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY file_copy")
        conninfo = postgres.replace("dbname=postgres", f"dbname={name}")
        with psycopg.connect(conninfo) as db:
            db.execute(ORDERS["postgresql"])
        yield conninfo
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def mariadb_database(mariadb: str) -> Iterator[tuple[str, str]]:
    """A fresh database on it: socket and name."""
    name = f"shop{next(_numbers)}"
    with closing(pymysql.connect(unix_socket=mariadb, user="root", autocommit=True)) as admin:
        admin.cursor().execute(f"CREATE DATABASE {name}")
        admin.select_db(name)
        admin.cursor().execute(ORDERS["mysql"])
        yield mariadb, name
        admin.cursor().execute(f"DROP DATABASE {name}")


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(ORDERS["sqlite"])
    return path


def _read_postgres(conninfo: str) -> Callable[[str], list[tuple[Any, ...]]]:
    def read(sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(conninfo) as db:
            return db.execute(sql.encode()).fetchall()

    return read


def _read_sqlite(path: Path) -> Callable[[str], list[tuple[Any, ...]]]:
    def read(sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path)) as db:
            return db.execute(sql).fetchall()

    return read


def _read_mariadb(where: tuple[str, str]) -> Callable[[str], list[tuple[Any, ...]]]:
    def read(sql: str) -> list[tuple[Any, ...]]:
        with closing(pymysql.connect(unix_socket=where[0], user="root", database=where[1])) as db:
            cursor = db.cursor()
            cursor.execute(sql)
            return list(cursor.fetchall())

    return read


def _socket_of(conninfo: str) -> dict[str, str]:
    parts = dict(part.split("=") for part in conninfo.split())
    return {"host": parts["host"], "user": parts["user"], "dbname": parts["dbname"]}


def sqlalchemy_url(conninfo: str) -> str:
    at = _socket_of(conninfo)
    return f"postgresql+psycopg://{at['user']}@/{at['dbname']}?host={at['host']}"


# --- one maker per kind of store ---------------------------------------------------------------------

Maker = Callable[[pytest.FixtureRequest, Any], Iterator[Desk]]


def make_sqlite3(request: pytest.FixtureRequest, _: Any) -> Iterator[Desk]:
    path = request.getfixturevalue("sqlite_database")
    yield Desk(SQLiteStore(path), lambda db, buyer: db.execute(INSERT, {"buyer": buyer}), _read_sqlite(path))


def make_psycopg(request: pytest.FixtureRequest, isolation: Any) -> Iterator[Desk]:
    conninfo = request.getfixturevalue("postgres_database")
    store = PsycopgStore(conninfo, create_table=True, isolation=isolation)
    sql = b"INSERT INTO orders (buyer) VALUES (%s)"
    yield Desk(store, lambda db, buyer: db.execute(sql, [buyer]), _read_postgres(conninfo))
    store.close()


def make_sqlalchemy(request: pytest.FixtureRequest, options: tuple[str, str]) -> Iterator[Desk]:
    vendor, isolation = options
    url, read, more = _reached(request, vendor)
    engine = sa.create_engine(url, pool_size=12, **more, **({"isolation_level": isolation} if isolation else {}))
    store = SQLAlchemyStore(sessionmaker(engine))
    store.create_table()
    yield Desk(store, lambda db, buyer: db.execute(sa.text(INSERT), {"buyer": buyer}), read)
    engine.dispose()


def make_async(request: pytest.FixtureRequest, options: tuple[str, str, str]) -> Iterator[Desk]:
    vendor, driver, isolation = options
    url, read, more = _reached(request, vendor)
    engine = create_async_engine(
        re.sub(r"\+\w+|(?<=sqlite)(?=:)", f"+{driver}", url, count=1),
        poolclass=NullPool,
        **more,
        **({"isolation_level": isolation} if isolation else {}),
    )
    store = AsyncSQLAlchemyStore(async_sessionmaker(engine))
    asyncio.run(store.create_table())
    yield AsyncDesk(store, lambda db, buyer: db.execute(sa.text(INSERT), {"buyer": buyer}), read)


def make_django(request: pytest.FixtureRequest, vendor: str) -> Iterator[Desk]:
    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
    if not apps.ready:
        django.setup()
    if vendor == "postgresql":
        conninfo = request.getfixturevalue("postgres_database")
        at = _socket_of(conninfo)
        found: dict[str, Any] = {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": at["host"],
            "USER": "shop",
            "NAME": at["dbname"],
        }
        read = _read_postgres(conninfo)
    elif vendor == "mysql":
        pymysql.install_as_MySQLdb()  # Django's engine wants mysqlclient or what passes for it
        where = request.getfixturevalue("mariadb_database")
        found = {"ENGINE": "django.db.backends.mysql", "USER": "root", "NAME": where[1]}
        found["OPTIONS"] = {"unix_socket": where[0]}
        read = _read_mariadb(where)
    else:
        path = request.getfixturevalue("sqlite_database")
        found = {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": {"timeout": 10}}
        read = _read_sqlite(path)
    alias = f"shop{next(_numbers)}"
    connections.databases[alias] = {**connections.databases["default"], **found}
    for statement in statements(vendor):
        connections[alias].cursor().execute(statement)
    connections[alias].close()

    def insert(db: Any, buyer: str) -> None:
        with db.cursor() as cursor:
            cursor.execute("INSERT INTO orders (buyer) VALUES (%s)", [buyer])

    yield Desk(DjangoStore(alias), insert, read, after=lambda: connections[alias].close())
    connections[alias].close()
    del connections.databases[alias]


def _reached(request: pytest.FixtureRequest, vendor: str) -> tuple[str, Any, dict[str, Any]]:
    if vendor == "postgresql":
        conninfo = request.getfixturevalue("postgres_database")
        return sqlalchemy_url(conninfo), _read_postgres(conninfo), {}
    if vendor == "mysql":
        where = request.getfixturevalue("mariadb_database")
        return f"mysql+pymysql://root@/{where[1]}?unix_socket={where[0]}", _read_mariadb(where), {}
    path = request.getfixturevalue("sqlite_database")
    return f"sqlite:///{path}", _read_sqlite(path), {"connect_args": {"timeout": 10}}


_ = aiosqlite, aiomysql, asyncpg  # the drivers of the async engines

DESKS: dict[str, tuple[str, Callable[..., Iterator[Desk]], Any]] = {
    "sqlite3": ("sqlite", make_sqlite3, None),
    "psycopg": ("postgresql", make_psycopg, "read committed"),
    "psycopg-repeatable-read": ("postgresql", make_psycopg, "repeatable read"),
    "psycopg-serializable": ("postgresql", make_psycopg, "serializable"),
    "psycopg-expecting": ("postgresql", make_psycopg, None),
    "psycopg-serializable-expecting": ("postgresql", make_psycopg, "serializable"),
    "sqlalchemy-sqlite": ("sqlite", make_sqlalchemy, ("sqlite", "")),
    "sqlalchemy-postgresql": ("postgresql", make_sqlalchemy, ("postgresql", "")),
    "sqlalchemy-postgresql-expecting": ("postgresql", make_sqlalchemy, ("postgresql", "")),
    "sqlalchemy-postgresql-repeatable-read": ("postgresql", make_sqlalchemy, ("postgresql", "REPEATABLE READ")),
    "sqlalchemy-postgresql-serializable": ("postgresql", make_sqlalchemy, ("postgresql", "SERIALIZABLE")),
    "sqlalchemy-mariadb": ("mysql", make_sqlalchemy, ("mysql", "")),
    "sqlalchemy-mariadb-read-committed": ("mysql", make_sqlalchemy, ("mysql", "READ COMMITTED")),
    "async-sqlite": ("sqlite", make_async, ("sqlite", "aiosqlite", "")),
    "async-postgresql": ("postgresql", make_async, ("postgresql", "psycopg", "")),
    "async-postgresql-expecting": ("postgresql", make_async, ("postgresql", "psycopg", "")),
    "async-asyncpg": ("postgresql", make_async, ("postgresql", "asyncpg", "")),
    "async-asyncpg-serializable": ("postgresql", make_async, ("postgresql", "asyncpg", "SERIALIZABLE")),
    "async-mariadb": ("mysql", make_async, ("mysql", "aiomysql", "")),
    "django-sqlite": ("sqlite", make_django, "sqlite"),
    "django-postgresql": ("postgresql", make_django, "postgresql"),
    "django-mariadb": ("mysql", make_django, "mysql"),
}


@pytest.fixture(params=DESKS)
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    vendor, make, options = DESKS[request.param]
    for made in make(request, options):
        made.vendor, made.expects = vendor, request.param.endswith("-expecting")
        yield made
