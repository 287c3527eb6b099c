"""Registering tools: what cannot work fails at import."""

from __future__ import annotations

import ast
import sqlite3
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import merchant_sdk
from merchant_sdk import CallWork, Read, Refused, SecretError, Shop
from merchant_sdk.arguments import read_arguments, signature_of


def tool(
    work: Any, s: str = "", n: int = 0, d: Decimal = Decimal(0), f: float = 0.0, b: bool = False,
    li: list[int] | None = None, di: dict[str, Any] | None = None, x: Any = None, *, either: int | str = 0,
) -> None:  # fmt: skip
    """A tool with every annotation there is."""


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("s", "a", "a"),
        ("n", 7, 7),
        ("n", Decimal("7.0"), 7),
        ("d", 7, Decimal(7)),
        ("d", Decimal("0.10"), Decimal("0.10")),
        ("f", Decimal("0.5"), 0.5),
        ("b", True, True),
        ("li", [1], [1]),
        ("li", None, None),
        ("di", {"a": 1}, {"a": 1}),
        ("x", Decimal(1), Decimal(1)),
        ("either", "a", "a"),
        ("either", 1, 1),
    ],
)
def test_an_argument_is_read_as_its_annotation_says(name: str, value: Any, read: Any) -> None:
    """2.10: in JSON 7 and 7.0 are one number, so either fills an int."""
    given = read_arguments(signature_of(tool), {name: value})
    assert given[name] == read
    assert type(given[name]) is type(read)


@pytest.mark.parametrize(
    ("name", "value"),
    [("s", 1), ("s", None), ("n", "7"), ("n", True), ("n", Decimal("7.5")), ("d", "1"), ("d", False), ("b", 1),
     ("li", {}), ("di", []), ("either", None), ("either", []), ("unheard_of", 1)],
)  # fmt: skip
def test_an_argument_of_another_type_is_refused_by_name(name: str, value: Any) -> None:
    """A text is not a number, and true is not one."""
    with pytest.raises(Refused, match=name):
        read_arguments(signature_of(tool), {name: value})


def _positional(work: Any, item: str, /) -> None: ...
def _starred(work: Any, **items: str) -> None: ...
def _nothing() -> None: ...
def _keyword(*, item: str) -> None: ...
def _bytes(work: Any, item: bytes) -> None: ...
def _no_work(item: str, quantity: int) -> None: ...
def _no_work_but_a_list(items: list[str]) -> None: ...


@pytest.mark.parametrize("function", [_positional, _starred, _nothing, _keyword, _bytes, _no_work, _no_work_but_a_list])
def test_a_tool_that_could_never_be_called_fails_at_import(shop: Shop, function: Any) -> None:
    """What cannot work is found when the shop starts, not when a customer orders."""
    with pytest.raises(TypeError, match=function.__name__):
        shop.tool(side_effecting=True)(function)


def _typed_work(work: CallWork, item: str) -> None: ...
def _typed_read(read: Read, item: str) -> None: ...
def _any_work(work: Any, item: str) -> None: ...
def _object_work(work: object, item: str) -> None: ...


@pytest.mark.parametrize("function", [_typed_work, _typed_read, _any_work, _object_work])
def test_the_work_may_be_annotated_as_what_it_is(function: Any) -> None:
    """Only what JSON could fill is taken for a forgotten first parameter."""
    assert list(signature_of(function).schema["properties"]) == ["item"]


def test_a_decorator_without_its_brackets_says_so(shop: Shop) -> None:
    """The commonest slip with a decorator that takes options."""
    with pytest.raises(TypeError, match=r"@shop\.tool\(\)"):
        shop.tool(tool)  # type: ignore[arg-type]
    assert "tool" not in shop.tools


def test_two_tools_of_one_name_or_a_key_on_a_read_fail_at_import(shop: Shop) -> None:
    """One name is one tool."""
    with pytest.raises(ValueError, match="already"):
        shop.tool(side_effecting=True, name="place_order")(tool)
    with pytest.raises(ValueError, match="only reads"):
        shop.tool(side_effecting=False, key=lambda work: None, name="get")(tool)  # type: ignore[arg-type,return-value]


def test_a_shop_shows_no_secret_and_takes_no_bad_one(shop: Shop, secret: str, database: Path) -> None:
    """9.3."""
    assert secret not in repr(shop)
    assert secret not in repr(shop.asgi())
    with pytest.raises(SecretError):
        Shop(database, secrets=[secret, "whsec_short"])


def test_6_1_a_shop_without_a_secret_does_not_start(secret: str, database: Path) -> None:
    """An empty variable would be a shop that can verify nothing; one secret for a list of them would be its letters."""
    with pytest.raises(SecretError, match="no signing secret"):
        Shop(database, secrets=[])
    with pytest.raises(TypeError, match="secrets is a list") as told:
        Shop(database, secrets=secret)
    assert secret not in str(told.value)


@pytest.mark.parametrize(
    "database", ["postgresql://shop:pw-4711@db/shop", "host=db password=pw-4711 dbname=shop", "sqlite:///orders.db"]
)
def test_the_address_of_a_database_is_no_file_of_that_name(
    database: str, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders would be where nobody looks; 9.3: the address may hold a password."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="another database") as told:
        Shop(database, secrets=[secret])
    assert "pw-4711" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_a_database_is_a_path_or_a_store(secret: str, tmp_path: Path) -> None:
    """Told when the shop starts, and with the file that could not be opened."""
    database: Any = object()
    with pytest.raises(TypeError, match="not object: PsycopgStore"):
        Shop(database, secrets=[secret])
    with pytest.raises(sqlite3.OperationalError) as told:
        Shop(tmp_path / "nowhere" / "orders.db", secrets=[secret])
    assert str(tmp_path / "nowhere" / "orders.db") in told.value.__notes__[0]


def test_all_is_what_is_exported() -> None:
    """The public names are written down, sorted, and exist."""
    assert merchant_sdk.__all__ == sorted(merchant_sdk.__all__)
    assert all(hasattr(merchant_sdk, name) for name in merchant_sdk.__all__)


# What a file may import besides: the library whose users it is for.
FOREIGN = {
    "stores/postgres.py": {"psycopg"},
    "stores/fit_sessions.py": {"sqlalchemy"},
    "stores/postgres_statements.py": {"psycopg"},
    "stores/postgres_wire.py": {"psycopg"},
    "stores/psycopg_pools.py": {"psycopg"},
    "stores/sqlalchemy_guard.py": {"sqlalchemy"},
    "stores/sqlalchemy_reading.py": {"sqlalchemy"},
    "stores/sqlalchemy_psycopg.py": {"psycopg", "sqlalchemy"},
    "stores/sqlalchemy.py": {"sqlalchemy"},
    "stores/sqlalchemy_async.py": {"sqlalchemy"},
    "stores/django.py": {"django"},
    "stores/django_app/apps.py": {"django"},
    "stores/django_app/migrations/0001_initial.py": {"django"},
    "integrations/django.py": {"asgiref", "django"},
    "integrations/django_transactions.py": {"django"},
    "integrations/fastapi.py": set(),
    "integrations/flask.py": {"flask", "werkzeug"},
    "integrations/sqlalchemy.py": {"sqlalchemy"},
    "integrations/starlette.py": {"starlette"},
}


def test_the_sdk_imports_the_standard_library_only() -> None:
    """Architecture: a leaf that a shop can install without anything else, but for the stores of its own choice."""
    root = Path(merchant_sdk.__file__).parent
    for file in root.rglob("*.py"):
        foreign = set()
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            foreign |= {name.split(".")[0] for name in names}
        allowed = FOREIGN.get(file.relative_to(root).as_posix(), set())
        assert foreign - sys.stdlib_module_names - {"merchant_sdk"} == allowed, file


def test_importing_the_sdk_loads_none_of_the_stores_libraries() -> None:
    """A shop on sqlite3 needs no SQLAlchemy, and one without a framework no framework."""
    foreign = {"psycopg", "sqlalchemy", "django", "alembic", "flask", "starlette", "pydantic", "aiohttp"}
    look = f"import sys, merchant_sdk.asgi, merchant_sdk.wsgi; print(*{foreign} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
