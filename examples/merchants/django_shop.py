"""Django in one file: a model, a website's own view, and the shop for assistants beside it.

SHOP_SECRET='whsec_…' gunicorn --chdir examples/merchants --bind 127.0.0.1:8081 django_shop:app
"""

import json
import os

import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ.get("SHOP_DATABASE", "orders.db"),
            "ATOMIC_REQUESTS": True,
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        }
    },
    INSTALLED_APPS=["merchant_sdk.stores.django_app"],
    MIDDLEWARE=["merchant_sdk.integrations.django.CommitBeforeReply"],
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection, models  # noqa: E402
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402

from merchant_sdk import Line, Shop, request_key  # noqa: E402
from merchant_sdk.integrations.django import urls  # noqa: E402
from merchant_sdk.stores.django import DjangoStore  # noqa: E402


class Order(models.Model):
    item = models.TextField()
    quantity = models.IntegerField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


call_command("migrate", verbosity=0)
if "orders" not in connection.introspection.table_names():
    with connection.schema_editor() as editor:  # a shop in an app of its own has migrations for this
        editor.create_model(Order)

shop = Shop(DjangoStore(), secrets=os.environ["SHOP_SECRET"].split())


def purchase(work, item, quantity):
    return request_key("order", buyer=work.call.context.conversation, cart=[Line(item, quantity)], window_s=1200)


@shop.tool(key=purchase)
def place_order(work, item: str, quantity: int):
    """Order an item."""
    return {"order_id": Order.objects.create(item=item, quantity=quantity).pk}


@shop.tool(side_effecting=False)
def count_orders(read):
    """How many orders there are."""
    return {"orders": Order.objects.count()}


@csrf_exempt
def checkout(request: HttpRequest) -> JsonResponse:
    """The website's own way to order; ATOMIC_REQUESTS commits it before the reply."""
    return JsonResponse({"order_id": Order.objects.create(item=json.loads(request.body)["item"], quantity=1).pk})


urlpatterns = [path("checkout", checkout), *urls(shop, path="tools")]
app = get_wsgi_application()
