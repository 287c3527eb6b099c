"""K7-11: under Django too, what is named is the merchant's line that began the transaction."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connections, transaction
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory

from merchant_sdk.integrations.django import CommitBeforeReply

DJANGO = ["django-sqlite", "django-postgresql", "django-mariadb"]
LINES = Path(__file__).read_text(encoding="utf-8").splitlines()


@pytest.fixture
def alias(desk: Any) -> Any:
    desk.after = lambda: None  # the connection stays, as it does in a request
    yield desk.store._alias
    connections[desk.store._alias].close()


def block(alias: str) -> None:
    transaction.atomic(using=alias).__enter__()  # in block


def by_hand(alias: str) -> None:
    transaction.set_autocommit(False, using=alias)  # in by_hand
    with transaction.atomic(using=alias):
        pass


def by_keyword(alias: str) -> None:
    connections[alias].set_autocommit(autocommit=False)  # in by_keyword


def second(alias: str) -> None:
    with transaction.atomic(using=alias):
        pass
    transaction.atomic(using=alias).__enter__()  # in second


def nested(alias: str) -> None:
    transaction.atomic(using=alias).__enter__()  # in nested
    transaction.atomic(using=alias).__enter__()


def begun_at(log: str) -> set[str]:
    """The marks of those lines here that a log names."""
    return {line.split("# ")[1] for n, line in enumerate(LINES, 1) if f"{Path(__file__).name}:{n} in" in log}


@pytest.mark.parametrize("desk", DJANGO, indirect=True)
@pytest.mark.parametrize("begin", [block, by_hand, by_keyword, second, nested])
@pytest.mark.parametrize("kind", ["plain", "streamed"])
def test_k7_11_django_names_the_line_that_began_it(
    desk: Any, alias: str, begin: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """K7-11: the outermost beginning of the transaction that is still open."""

    def view(request: Any) -> Any:
        def stream() -> Any:
            begin(alias)
            yield b"done"

        if kind == "streamed":
            return StreamingHttpResponse(stream())
        begin(alias)
        return HttpResponse("done")

    with caplog.at_level(logging.ERROR, "merchant_sdk"):
        assert CommitBeforeReply(view)(RequestFactory().post("/")).status_code == 500
    assert begun_at(caplog.text.split("ReplyBeforeCommit: ")[1]) == {f"in {begin.__name__}"}


@pytest.mark.parametrize("desk", ["django-sqlite"], indirect=True)
def test_k7_11_the_line_is_named_inside_djangos_testcase(desk: Any, alias: str, caplog: Any) -> None:
    """K7-11: where a block of the merchant's is a savepoint of the test's."""

    def view(request: Any) -> Any:
        with transaction.atomic(using=alias):
            pass
        block(alias)
        return HttpResponse("done")

    around: Any = transaction.atomic(using=alias)
    around._from_testcase = True
    with suppress(transaction.TransactionManagementError), around:
        assert CommitBeforeReply(view)(RequestFactory().post("/")).status_code == 500
    assert begun_at(caplog.text.split("ReplyBeforeCommit: ")[1]) == {"in block"}


@pytest.mark.parametrize("desk", ["django-sqlite"], indirect=True)
def test_nothing_of_it_stays_on_djangos_connections(desk: Any, alias: str) -> None:
    """Not after a request, and a request inside a request leaves the outer one's."""
    before = dict(vars(connections[alias]))
    seen: list[set[str]] = []

    def inner(request: Any) -> Any:
        return HttpResponse("inner")

    def view(request: Any) -> Any:
        CommitBeforeReply(inner)(RequestFactory().post("/"))
        seen.append(vars(connections[alias]).keys() - before.keys())
        return HttpResponse("done")

    def fails(request: Any) -> Any:
        raise ZeroDivisionError

    assert CommitBeforeReply(view)(RequestFactory().post("/")).status_code == 200
    assert CommitBeforeReply(fails)(RequestFactory().post("/")).status_code == 500
    assert seen == [{"set_autocommit", "savepoint"}]
    assert not {"set_autocommit", "savepoint"} & vars(connections[alias]).keys()
