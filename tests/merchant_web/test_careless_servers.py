"""K7-11 on real servers: Django's ways to answer too early, and a death between reply and commit."""

from __future__ import annotations

import http.client
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

CARELESS = Path(__file__).parent / "careless"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("careless") / "orders.db"


@pytest.fixture(scope="module")
def django_shop(start_server: Any, database: Path) -> Any:
    command = ["gunicorn", "--chdir", str(CARELESS), "--bind", "127.0.0.1:PORT", "careless_django:app"]
    return start_server(command, env={"SHOP_DATABASE": str(database)})


def count(database: Path) -> int:
    with closing(sqlite3.connect(database)) as db:
        return int(db.execute("SELECT count(*) FROM orders").fetchone()[0])


@pytest.mark.parametrize(
    ("view", "status"),
    [
        ("honest", 200),
        ("commit_fails", 500),
        ("left_open", 500),
        ("streamed", 200),
        ("stream_fails", 500),
        ("streamed_open", 500),
        ("streamed_async", 200),
        ("late", 200),
    ],
)
def test_k7_11_django_replies_with_success_only_after_its_commit(
    django_shop: Any, database: Path, view: str, status: int
) -> None:
    """K7-11: a 500 stores nothing, a 200 is there, and a view that left a transaction open spoils no later one."""
    before = count(database)
    said = django_shop.send("POST", f"/{view}", b"{}", {"Content-Type": "application/json"})
    assert said.status == status, said.body
    assert (b"placed" in said.body) == (status == 200)
    assert count(database) == before + (status == 200)


def test_k7_11_the_view_that_left_a_transaction_open_is_named(django_shop: Any) -> None:
    """K7-11: the line to change is in the log."""
    django_shop.send("POST", "/left_open", b"{}", {"Content-Type": "application/json"})
    assert "careless_django.py:" in django_shop.log.read_text()
    assert "in left_open" in django_shop.log.read_text()


def test_k7_11_an_atomic_block_that_never_ended_is_named_too(start_server: Any, tmp_path: Path) -> None:
    """K7-11: on a server of its own, since Django keeps its thread inside that block."""
    command = ["gunicorn", "--chdir", str(CARELESS), "--bind", "127.0.0.1:PORT", "careless_django:app"]
    server = start_server(command, env={"SHOP_DATABASE": str(tmp_path / "orders.db")})
    said = server.send("POST", "/left_in_block", b"{}", {"Content-Type": "application/json"})
    assert (said.status, count(tmp_path / "orders.db")) == (500, 0)
    assert b"reply_before_commit" in said.body
    assert "in left_in_block" in server.log.read_text()


def test_k7_11_killed_between_reply_and_commit_nobody_was_told_of_an_order(start_server: Any, tmp_path: Path) -> None:
    """K7-11: SIGKILL after FastAPI made the reply, before the dependency commits: no reply left, nothing is stored."""
    file = tmp_path / "orders.db"
    command = [
        "uvicorn",
        "--app-dir",
        str(CARELESS),
        "--port",
        "PORT",
        "--log-level",
        "warning",
        "careless_fastapi:app",
    ]
    shop = start_server(command, env={"SHOP_DATABASE": str(file)})
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        shop.send("POST", "/", b"{}", {"Content-Type": "application/json"})
    assert count(file) == 0
