"""9.4: what Django's middleware keeps of a reply, plain or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import django
import pytest
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory, override_settings


@pytest.fixture(scope="module", autouse=True)
def configured() -> None:
    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
    if not apps.ready:
        django.setup()


def ask(view: Any, method: str = "POST", **given: Any) -> Any:
    from merchant_sdk.integrations.django import CommitBeforeReply

    with override_settings(**given):
        serve = CommitBeforeReply(view)
    return serve(RequestFactory().generic(method, "/"))


def plain(size: int) -> Any:
    return lambda request: HttpResponse(b"x" * size)


def streamed(size: int) -> Any:
    return lambda request: StreamingHttpResponse(iter([b"x" * 4000, b"x" * (size - 4000)]))


@pytest.mark.parametrize("reply", [plain, streamed])
@pytest.mark.parametrize(
    ("cap", "size", "status"),
    [(5000, 5000, 200), (5000, 5001, 500), (None, 4 << 20, 200), (None, (4 << 20) + 1, 500)],
)
def test_p9_4_django_caps_a_reply_at_the_byte(reply: Any, cap: int | None, size: int, status: int) -> None:
    """9.4: ONCEGATE_MAX_REPLY, 4 MiB unless set; one byte more, and nothing of it leaves."""
    answer = ask(reply(size), **({} if cap is None else {"ONCEGATE_MAX_REPLY": cap}))
    assert answer.status_code == status
    if status == 200:
        assert answer.content == b"x" * size
    else:
        assert json.loads(answer.content)["error"]["code"] == "merchant_error"


def test_p9_4_a_reply_that_is_too_large_is_closed() -> None:
    """What it holds (a file, say) is let go."""
    closed: list[bool] = []

    def pieces() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 1000
        finally:
            closed.append(True)

    assert ask(lambda request: StreamingHttpResponse(pieces()), ONCEGATE_MAX_REPLY=5000).status_code == 500
    assert closed == [True]


def test_what_only_reads_is_not_capped() -> None:
    """A GET passes through as it is."""
    assert ask(plain(5001), "GET", ONCEGATE_MAX_REPLY=5000).status_code == 200


@pytest.mark.parametrize("cap", [0, -1, True, "4096", 4.0, None])
def test_a_cap_that_is_no_number_of_bytes_is_told_at_the_start(cap: Any) -> None:
    """A setting that cannot be meant stops the server, not the first order."""
    with pytest.raises(ImproperlyConfigured, match="ONCEGATE_MAX_REPLY is a whole number of bytes above 0"):
        ask(plain(1), ONCEGATE_MAX_REPLY=cap)
