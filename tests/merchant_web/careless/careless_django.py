"""Django views that answer too early, each in its own way."""

import os

import django
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ["SHOP_DATABASE"],
            "ATOMIC_REQUESTS": True,
        }
    },
    MIDDLEWARE=["merchant_sdk.integrations.django.CommitBeforeReply", f"{__name__}.commits_late"],
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.http import HttpResponse, StreamingHttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

with connection.cursor() as cursor:
    cursor.executescript(
        "CREATE TABLE IF NOT EXISTS buyers (id INTEGER PRIMARY KEY);"
        "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY,"
        " buyer INTEGER REFERENCES buyers (id) DEFERRABLE INITIALLY DEFERRED)"
    )


def insert(buyer="NULL"):
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO orders (buyer) VALUES ({buyer})")


def honest(request):
    insert()
    return HttpResponse("placed")


def commit_fails(request):
    insert("77")  # there is no such buyer, which only the commit finds out
    return HttpResponse("placed")


@transaction.non_atomic_requests
def left_open(request):
    transaction.set_autocommit(False)
    insert()
    return HttpResponse("placed")


@transaction.non_atomic_requests
def left_in_block(request):
    transaction.atomic().__enter__()
    insert()
    return HttpResponse("placed")


@transaction.non_atomic_requests
def streamed(request):
    def stream():
        with transaction.atomic():
            insert()
            yield "placed"

    return StreamingHttpResponse(stream())


@transaction.non_atomic_requests
def stream_fails(request):
    def stream():
        with transaction.atomic():
            insert()
            yield "placed"
            raise OSError("the disk is full")

    return StreamingHttpResponse(stream())


@transaction.non_atomic_requests
def streamed_open(request):
    transaction.set_autocommit(False)

    def stream():
        insert()
        yield "placed"

    return StreamingHttpResponse(stream())


@transaction.non_atomic_requests
def streamed_async(request):
    insert()

    async def stream():
        yield "placed"

    return StreamingHttpResponse(stream())


def commits_late(get_response):
    """A middleware of the merchant's, inside ours."""

    def answer(request):
        late = request.path == "/late"
        if not late:
            return get_response(request)
        transaction.set_autocommit(False)
        insert()
        response = HttpResponse("placed")
        transaction.commit()
        transaction.set_autocommit(True)
        return response

    return answer


VIEWS = (honest, commit_fails, left_open, left_in_block, streamed, stream_fails, streamed_open, streamed_async)
urlpatterns = [path(view.__name__, view) for view in VIEWS]
app = get_wsgi_application()
