"""K7-11: whose atomic block it is: the merchant's own around `once` is refused, that of Django's TestCase is not."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from django.db import connections, transaction
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory

from merchant_sdk import TransactionMisuse
from merchant_sdk.integrations.django import CommitBeforeReply

DJANGO = ["django-sqlite", "django-postgresql", "django-mariadb"]


@pytest.fixture
def alias(desk: Any) -> Any:
    desk.after = lambda: None  # the connection stays, as it does in a request
    yield desk.store._alias
    connections[desk.store._alias].close()


def _atomic(alias: str, *, of_a_test: bool) -> Any:
    block: Any = transaction.atomic(using=alias)
    block._from_testcase = of_a_test
    return block


@pytest.mark.parametrize("desk", DJANGO, indirect=True)
@pytest.mark.parametrize("outer", [False, True])
def test_k7_11_once_inside_an_atomic_block_is_refused_in_words(desk: Any, alias: str, outer: bool) -> None:
    """K7-11: ATOMIC_REQUESTS, say; its reply would leave before the commit. Also inside a TestCase."""
    around = _atomic(alias, of_a_test=True) if outer else nullcontext()
    with around, _atomic(alias, of_a_test=False), pytest.raises(TransactionMisuse, match="ATOMIC_REQUESTS"):
        desk.place("k1")
    assert (desk.orders(), desk.records()) == ([], 0)


@pytest.mark.parametrize("desk", DJANGO, indirect=True)
def test_k7_11_once_inside_itself_on_django_says_so(desk: Any, alias: str) -> None:
    """K7-11: for another key too, since Django has one connection a thread."""
    with pytest.raises(TransactionMisuse, match="open already"):
        desk.place("k1", inside=lambda _: desk.place("k2"))
    assert (desk.orders(), desk.records()) == ([], 0)


@pytest.mark.parametrize("desk", DJANGO, indirect=True)
def test_k7_02_once_works_inside_djangos_testcase(desk: Any, alias: str) -> None:
    """K7-02: what the merchant's tests wrap is theirs to undo."""
    with suppress(ZeroDivisionError), _atomic(alias, of_a_test=True):
        assert [desk.place("k1"), desk.place("k1", buyer="b-2")] == [{"for": "b-1"}] * 2
        raise ZeroDivisionError
    assert (desk.orders(), desk.records()) == ([], 0)


@pytest.mark.parametrize("desk", ["django-sqlite"], indirect=True)
@pytest.mark.parametrize("kind", ["plain", "streamed"])
def test_k7_11_the_middleware_minds_the_merchants_blocks_and_not_the_tests(desk: Any, alias: str, kind: str) -> None:
    """K7-11: an open block is a 500 and is undone; the block around a test is neither."""
    left: list[Any] = []

    def view(request: Any) -> Any:
        if request.POST.get("leave"):
            left.append(_atomic(alias, of_a_test=False))
            left[-1].__enter__()
        return HttpResponse("done") if kind == "plain" else StreamingHttpResponse(iter([b"done"]))

    serve = CommitBeforeReply(view)
    with suppress(transaction.TransactionManagementError), _atomic(alias, of_a_test=True):
        answer = serve(RequestFactory().post("/"))
        assert (answer.status_code, answer.content) == (200, b"done")
        assert connections[alias].in_atomic_block
    connections[alias].close()
    answer = serve(RequestFactory().post("/", {"leave": "1"}))
    assert (answer.status_code, json.loads(answer.content)["error"]["code"]) == (500, "reply_before_commit")


@pytest.mark.parametrize("desk", DJANGO, indirect=True)
def test_k7_11_what_django_writes_after_the_transaction_was_lost_is_no_order(desk: Any, alias: str) -> None:
    """K7-11: SQLite undoes all at some errors, and Django's next statement was kept at once, without a record."""

    def inside(db: Any) -> None:
        with db.cursor() as cursor:
            if desk.vendor == "sqlite":
                with suppress(Exception):
                    cursor.execute("INSERT OR ROLLBACK INTO orders (buyer) VALUES (NULL)")
            else:
                db.connection.rollback()
            cursor.execute("INSERT INTO orders (buyer) VALUES ('b-1')")

    with pytest.raises(TransactionMisuse):
        desk.place("k1", inside=inside)
    assert (desk.orders(), desk.records()) == ([], 0)
    assert desk.place("k1") == {"for": "b-1"}
    assert (desk.orders(), desk.records()) == (["b-1"], 1)
