"""The application's name and label."""

from __future__ import annotations

from django.apps import AppConfig


class OncegateConfig(AppConfig):  # type: ignore[misc]
    """`manage.py migrate oncegate` makes the table."""

    name = "merchant_sdk.stores.django_app"
    label = "oncegate"
    verbose_name = "Oncegate"
