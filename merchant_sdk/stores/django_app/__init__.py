"""A Django application that holds one migration: put "merchant_sdk.stores.django_app" into INSTALLED_APPS."""
